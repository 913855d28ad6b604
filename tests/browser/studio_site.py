"""A server in this process for the studio's page, over jobs that the test moves on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
import uvicorn
from tests.support.fake_desk import FakeDesk
from tests.support.fakes import FakePipeline

from antiphon.codecs.movies import encode_movie
from antiphon.codecs.pictures import encode_picture
from antiphon.engines.deployment import parse_deployment
from antiphon.engines.diffusion.task import MediaTask
from antiphon.engines.jobs.job import Job, NewJob
from antiphon.web.app import Jobs, Server

T = TypeVar("T")

START_SECONDS = 20.0

COLOURS = {"red": (200, 30, 30), "blue": (30, 30, 200)}


def picture(colour: str = "red", form: Literal["png", "jpeg"] = "png") -> bytes:
    """A picture of one colour, 64 pixels a side."""
    return encode_picture(_pixels(colour), form)


def clip(colour: str = "blue") -> bytes:
    """A second of one colour, MP4."""
    film = np.stack([_pixels(colour)] * 8)
    return encode_movie(film, 8, audio=None, audio_rate=0, parameters="{}")


def _pixels(colour: str) -> Any:
    return np.full((64, 64, 3), COLOURS[colour], np.uint8)


@dataclass
class Site:
    """The server, and what a worker would do, from the test's thread."""

    desk: FakeDesk = field(default_factory=FakeDesk)
    url: str = ""
    loop: asyncio.AbstractEventLoop | None = None
    """The server's."""

    @property
    def jobs(self) -> list[Job]:
        """All, in the order they came."""
        return list(self.desk.jobs.values())

    def add(self, kind: Literal["image", "video"], prompt: str, *, steps: int = 20) -> str:
        """A job that waits, of nobody's key; returns its id."""
        moves = kind == "video"
        task = MediaTask(
            kind=kind,
            model="antiphon-move" if moves else "antiphon-draw",
            prompt=prompt,
            width=64,
            height=64,
            steps=steps,
            guidance=7.5,
            seed=1000 + len(self.desk.jobs),
            frames=17 if moves else 1,
            frames_per_second=8 if moves else 0,
        )
        return self._done(self.desk.submit(NewJob(kind=kind, tasks=(task,)))).id

    def begin(self, name: str) -> None:
        """A worker takes it."""
        self._done(self.desk.begin(name))

    def progress(self, name: str, percent: int, preview: bytes | None = None) -> None:
        """It is so far, and looks so."""
        self._done(self.desk.progress(name, percent))
        self._done(self.desk.progress(name, percent, preview))

    def complete(self, name: str, content: bytes | None = None) -> None:
        """It is done."""
        still = content or picture()
        made = ("video/mp4", clip()) if name.startswith("video") else ("image/png", still)
        self._done(self.desk.complete(name, {"content": made, "thumbnail": ("image/png", still)}))

    def fail(self, name: str, code: str) -> None:
        """It can't be made."""
        self._done(self.desk.fail(name, code, "it went wrong"))

    def _done(self, what: Coroutine[Any, Any, T]) -> T:
        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(START_SECONDS)

    async def serve(self, server: uvicorn.Server) -> None:
        """Run until the server is told to end."""
        self.loop = asyncio.get_running_loop()
        await server.serve()


@contextmanager
def studio(
    *, keys: tuple[str, ...] = (), queue: int = 1000, models: Mapping[str, str] | None = None
) -> Generator[Site]:
    """A running server, its jobs in memory; ``models`` are names and paths, by default those that
    are shipped."""
    site = Site(FakeDesk(queue_limit=queue))
    chosen = {name: {"path": path} for name, path in (models or {}).items()}
    media = {"models": chosen} if chosen else {}
    deployment = parse_deployment(
        {"model": "fake-model", "access": {"keys": list(keys)}, "media": media}
    )
    server = Server(deployment, FakePipeline(), jobs=Jobs(site.desk))
    # Streams of the page are still open when the test ends.
    config = uvicorn.Config(server.app, port=0, log_level="critical", timeout_graceful_shutdown=0)
    running = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(site.serve(running)), name="studio-site")
    thread.start()
    try:
        site.url = _address(running, thread)
        yield site
    finally:
        running.should_exit = True
        thread.join(START_SECONDS)


def _address(server: uvicorn.Server, thread: threading.Thread) -> str:
    waiting = threading.Event()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        waiting.wait(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    return f"http://127.0.0.1:{port}"
