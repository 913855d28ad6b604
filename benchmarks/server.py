"""A server in a process of its own, for benchmarks."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from antiphon.engines.catalog import default_cache_root
from antiphon.web.demo_server import OwnServer, own_server


@dataclass
class ServerProcess:
    """A running server."""

    server: OwnServer
    ready_s: float
    http: httpx.AsyncClient

    @property
    def socket_url(self) -> str:
        return self.server.address.socket_url

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, config: Path) -> AsyncGenerator[ServerProcess]:
        """Start a server, wait until it is ready, stop it when left."""
        begun = time.monotonic()
        cache_root = default_cache_root(os.environ)
        async with own_server(config, cache_root, lambda line: None) as server:
            await server.wait_ready()
            ready_s = time.monotonic() - begun
            base = f"http://{server.address.host}"
            async with httpx.AsyncClient(base_url=base, timeout=10) as http:
                yield cls(server, ready_s, http)

    async def status(self, *, reset_loop: bool = False) -> dict[str, Any]:
        """Return what the server says of itself."""
        answer = await self.http.get("/v1/sessions", params={"reset": "loop"} if reset_loop else {})
        status: dict[str, Any] = answer.json()
        return status

    @property
    def process(self) -> psutil.Process:
        """The server's own process, without its engine's."""
        return psutil.Process(self.server.pid)

    def cpu_s(self) -> float:
        """Return the processor time that the server has taken, in all its threads."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def resident_mib(self) -> float:
        """Return what the server has in memory, shared pages counted whole."""
        return float(self.process.memory_info().rss) / 2**20

    def memory_mib(self) -> int:
        """Return what server and engine hold together, shared pages counted once."""
        root = psutil.Process(self.server.pid)
        family = [root, *root.children(recursive=True)]
        total: int = sum(each.memory_full_info().pss for each in family)
        return total >> 20
