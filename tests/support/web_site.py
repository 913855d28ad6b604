"""A small site on this machine that pretends to be anywhere, for what fetches URLs."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

PUBLIC = "93.184.215.14"
"""What names resolve to unless something else is said."""

Page: TypeAlias = bytes | Callable[[asyncio.StreamWriter], Coroutine[Any, Any, None]]
"""An answer, head and all, or what writes one."""


def answer(
    body: bytes = b"", status: str = "200 OK", kind: str = "image/png", **headers: str
) -> bytes:
    """An answer of HTTP/1.1 with its length."""
    lines = {"Content-Type": kind, "Content-Length": str(len(body))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


@dataclass
class Site:
    """What names resolve to, what is at paths, and what was asked for."""

    pages: dict[str, Page] = field(default_factory=dict[str, Page])
    names: dict[str, list[list[str]]] = field(default_factory=dict[str, list[list[str]]])
    """Addresses of a host, one list for each time that it is asked for; the last one stays."""

    refusing: set[str] = field(default_factory=set[str])
    """Addresses that nobody answers at."""

    asked: list[bytes] = field(default_factory=list[bytes])
    """Requests: the head, and what came with it."""

    resolved: list[str] = field(default_factory=list[str])
    dialled: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    port: int = 0
    open: dict[asyncio.Task[None], asyncio.StreamWriter] = field(
        default_factory=dict["asyncio.Task[None]", asyncio.StreamWriter]
    )

    async def resolve(self, host: str, port: int) -> list[str]:
        """Tell what a name resolves to."""
        self.resolved.append(host)
        lists = self.names.get(host, [[PUBLIC]])
        found = lists.pop(0) if len(lists) > 1 else lists[0]
        if not found:
            raise OSError("no such name")
        return found

    async def dial(
        self, address: str, port: int, tls: ssl.SSLContext | None, host: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the site, whatever the address."""
        self.dialled.append((address, port))
        if address in self.refusing:
            raise ConnectionRefusedError
        name = host if tls is not None else None
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=tls, server_hostname=name)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        task = asyncio.current_task()
        assert task is not None
        self.open[task] = writer
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = 0
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            self.asked.append(head + await reader.readexactly(length))
            page = self.pages.get(head.split()[1].decode(), answer(status="404 Not Found"))
            if callable(page):
                await page(writer)
            else:
                writer.write(page)
                await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def site(tls: ssl.SSLContext | None = None) -> AsyncGenerator[Site, None]:
    """A site that runs."""
    here = Site()
    server = await asyncio.start_server(here.serve, "127.0.0.1", 0, ssl=tls)
    here.port = server.sockets[0].getsockname()[1]
    try:
        yield here
    finally:
        server.close()
        for writer in here.open.values():
            writer.transport.abort()
        await asyncio.gather(*here.open)
        await server.wait_closed()
