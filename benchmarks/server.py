"""A server in a process of its own, for benchmarks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

READY_SECONDS = 180.0


@dataclass
class ServerProcess:
    """A running server."""

    process: subprocess.Popen[bytes]
    port: int
    ready_s: float
    http: httpx.AsyncClient

    @property
    def socket_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/realtime"

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, config: Path) -> AsyncGenerator[ServerProcess]:
        """Start a server, wait until it is ready, stop it when left."""
        port = _free_port()
        begun = time.monotonic()
        command = [sys.executable, "-m", "antiphon.web", "serve", "--config", str(config)]
        process = await asyncio.to_thread(_launch, [*command, "--port", str(port)])
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10) as http:
            try:
                await _wait_ready(http, process)
                yield cls(process, port, time.monotonic() - begun, http)
            finally:
                await asyncio.to_thread(_stop, process)

    async def status(self, *, reset_loop: bool = False) -> dict[str, Any]:
        """Return what the server says of itself."""
        answer = await self.http.get("/v1/sessions", params={"reset": "loop"} if reset_loop else {})
        status: dict[str, Any] = answer.json()
        return status

    def memory_mib(self) -> int:
        """Return what server and engine hold together, shared pages counted once."""
        root = psutil.Process(self.process.pid)
        family = [root, *root.children(recursive=True)]
        total: int = sum(each.memory_full_info().pss for each in family)
        return total >> 20


def _launch(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _wait_ready(http: httpx.AsyncClient, process: subprocess.Popen[bytes]) -> None:
    async with asyncio.timeout(READY_SECONDS):
        while True:
            if process.poll() is not None:
                raise SystemExit(f"the server ended with status {process.returncode}")
            with contextlib.suppress(httpx.TransportError):
                if (await http.get("/readyz")).status_code == 200:
                    return
            await asyncio.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
