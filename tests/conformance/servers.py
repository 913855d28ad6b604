"""The servers that clients are run against."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tests.support.certificates import Certificate
from tests.support.server import Server, serving, shipped, write_deployment

HEARD = "Tell me something about the sky."
"""What the scripted server hears, whatever was said."""

LINE = (
    "Certainly. The sky is blue because air scatters blue light more than red light. "
    "In the evening the light takes a longer way, and it turns red. {tool}"
)
"""What the scripted server answers, about 9 s of speech, and then what a function returned."""

TOOL = "get_weather"
TOOL_WORD = "weather"
"""The scripted model calls :data:`TOOL` where a written message has this word."""

TOKENS_PER_SECOND = 12
"""Slow, so that a reply is still being made for two seconds after it has begun to sound."""


def scripted_deployment() -> dict[str, Any]:
    """Return a deployment with a real voice that says one line, and makes one call.

    After the call the line says what the function returned.
    """
    deployment = shipped("scripted")
    stages = deployment["stages"]
    stages["recognizer"]["lines"] = [HEARD]
    stages["ar"]["lines"] = [LINE]
    stages["ar"]["calls"] = [{"name": TOOL, "arguments": {"city": "Paris"}, "when": TOOL_WORD}]
    stages["ar"]["tokens_per_second"] = TOKENS_PER_SECOND
    stages["talker"] = {"variation": 0}
    return deployment


@contextmanager
def scripted(folder: Path, certificate: Certificate | None = None) -> Generator[str, None, None]:
    """Run the scripted server, over TLS where there is a certificate; gives its address."""
    deployment = scripted_deployment()
    if certificate:
        deployment["access"] = certificate.access
    folder = Path(mkdtemp(dir=folder))
    authority = certificate.certificate if certificate else None
    with serving(write_deployment(deployment, folder), authority=authority) as server:
        yield server.url


@contextmanager
def of_media(folder: Path) -> Generator[str, None, None]:
    """Run a server of tiny pictures and clips; gives its address."""
    deployment = shipped("silent")
    deployment["media"] = {
        "models": {
            "pictures": {"path": "placeholder-image", "facts": {"steps": 8}},
            "clips": {"path": "placeholder-video", "facts": {"steps": 4, "frames": 9}},
        }
    }
    with serving(write_deployment(deployment, Path(mkdtemp(dir=folder)))) as server:
        yield server.url


@contextmanager
def secured(server: Server, certificate: Certificate) -> Generator[str, None, None]:
    """Put TLS in front of a running server, as a proxy does; gives the new address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="tls-front")
    thread.start()

    async def open_front() -> asyncio.Server:
        async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _join(reader, writer, server.port)

        return await asyncio.start_server(joined, "127.0.0.1", 0, ssl=context)

    async def close_front(front: asyncio.Server) -> None:
        front.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    try:
        front = asyncio.run_coroutine_threadsafe(open_front(), loop).result(10)
        try:
            yield f"https://127.0.0.1:{front.sockets[0].getsockname()[1]}"
        finally:
            asyncio.run_coroutine_threadsafe(close_front(front), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Pass on all bytes both ways until either side ends."""
    there, back = await asyncio.open_connection("127.0.0.1", port)
    passing = [
        asyncio.ensure_future(_pass(reader, back)),
        asyncio.ensure_future(_pass(there, writer)),
    ]
    try:
        await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in passing:
            each.cancel()
        await asyncio.gather(*passing, return_exceptions=True)
        for side in (writer, back):
            side.close()


async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        sink.write(data)
        await sink.drain()
