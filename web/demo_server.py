"""The server that a demo talks to: one of its own, or one that runs already."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

START_SECONDS = 300
"""For a server of our own to load its models."""

WAIT_SECONDS = 60
"""For a server that runs already to become ready."""

STOP_SECONDS = 15
"""For a server to say goodbye; then it is killed."""

PROBE_SECONDS = 0.25
ANSWER_SECONDS = 3.0
"""Between two questions whether it is ready, and for an answer to one."""

READ_BYTES = 1 << 16
"""Of what a server prints, read at once; a line longer than that is not shown."""

LOG_LINES = 12
"""Of what a server wrote before it failed, so many are shown."""


class DemoError(Exception):
    """The demo can't go on; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is."""

    host: str
    secure: bool = False

    @property
    def socket_url(self) -> str:
        """Of the realtime socket."""
        return f"{'wss' if self.secure else 'ws'}://{self.host}/v1/realtime"

    @property
    def ready_url(self) -> str:
        """Of the question whether it is ready."""
        return f"{'https' if self.secure else 'http'}://{self.host}/readyz"


def parse_url(url: str) -> Address:
    """The address in a URL of any of its parts: ``http://host:port``, ``ws://.../v1/realtime``.

    Raises:
        DemoError: it is no such URL.
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https", "ws", "wss") or not parts.netloc:
        raise DemoError(f"expected a URL such as http://127.0.0.1:8000, got {url!r}")
    return Address(parts.netloc, parts.scheme in ("https", "wss"))


async def wait_ready(address: Address, seconds: float, *, starting: bool = False) -> None:
    """Return once the server would serve a session.

    ``starting``: it may not even listen yet.

    Raises:
        DemoError: it can't be reached, or is not ready in time.
    """
    try:
        async with asyncio.timeout(seconds):
            # Another process: there is nothing here to be woken by.
            while not await _is_ready(address, starting):  # noqa: ASYNC110
                await asyncio.sleep(PROBE_SECONDS)
    except TimeoutError:
        raise DemoError(
            f"the server at {address.host} was not ready within {seconds:.0f} s; "
            f"{address.ready_url} says which stage it waits for"
        ) from None


async def _is_ready(address: Address, starting: bool) -> bool:
    try:
        return await asyncio.to_thread(_probe, address.ready_url)
    except OSError:
        if starting:
            return False
        raise DemoError(
            f"nobody answers at {address.host}: start a server with `antiphon serve`, "
            "or leave out --url to have one started"
        ) from None


def _probe(url: str) -> bool:
    try:
        with urlopen(url, timeout=ANSWER_SECONDS):
            return True
    except HTTPError as refusal:
        refusal.close()
        return False


@asynccontextmanager
async def own_server(
    config: Path, cache_root: Path, tell: Callable[[str], None]
) -> AsyncGenerator[OwnServer]:
    """Start a server on a free port of this machine; stop it when left.

    ``tell`` is given each line that it prints.
    """
    port = _free_port()
    process = await asyncio.create_subprocess_exec(
        *_command(config, port),
        env={**os.environ, "ANTIPHON_CACHE": str(cache_root)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    server = OwnServer(process, Address(f"127.0.0.1:{port}"), tell)
    try:
        yield server
    finally:
        await server.stop()


class RunningServer:
    """A server that runs already."""

    def __init__(self, address: Address) -> None:
        self.address = address

    async def wait_ready(self) -> None:
        """Return once it would serve a session.

        Raises:
            DemoError: it can't be reached, or is not ready in time.
        """
        await wait_ready(self.address, WAIT_SECONDS)


class OwnServer:
    """A server process that belongs to the demo."""

    def __init__(
        self, process: asyncio.subprocess.Process, address: Address, tell: Callable[[str], None]
    ) -> None:
        self.address = address
        self._process = process
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._readers = [
            asyncio.create_task(self._read(process.stdout, tell)),
            asyncio.create_task(self._read(process.stderr, self._log.append)),
        ]

    @property
    def pid(self) -> int:
        """Of the server; its engine is a child of it."""
        return self._process.pid

    async def wait_ready(self) -> None:
        """Return once it would serve a session.

        Raises:
            DemoError: it ended, or is not ready in time.
        """
        gone = asyncio.create_task(self._process.wait())
        waiting = wait_ready(self.address, START_SECONDS, starting=True)
        ready = asyncio.create_task(waiting)
        try:
            await asyncio.wait([gone, ready], return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                await asyncio.gather(*self._readers)
                raise DemoError(self._why())
            await ready
        finally:
            await _cancel(gone, ready)

    async def stop(self) -> None:
        """End the process and wait until it is gone."""
        if self._process.returncode is None:
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        # Its own children may hold the pipes a little longer: they are not waited for.
        await _cancel(*self._readers)

    async def _read(self, stream: asyncio.StreamReader | None, take: Callable[[str], None]) -> None:
        rest = b""
        while stream and (chunk := await stream.read(READ_BYTES)):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > READ_BYTES:
                rest = b""
            for line in lines:
                if line.strip():
                    take(line.decode(errors="replace").rstrip())

    def _why(self) -> str:
        said = "".join(f"\n  {line}" for line in self._log)
        return f"the server ended with status {self._process.returncode}; it said:{said}"


def _command(config: Path, port: int) -> list[str]:
    # -P: the folder that one happens to stand in must not be searched for modules.
    start = f"from {__package__}.cli import main; raise SystemExit(main())"
    arguments = ["serve", "--config", str(config.resolve()), "--port", str(port)]
    return [sys.executable, "-P", "-c", start, *arguments]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
