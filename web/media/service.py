"""The batch path as the routes see it: what is on offer, who asks, the desk, the server's worker."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from starlette.requests import HTTPConnection

from ...engines.diffusion.task import Kind
from ...engines.jobs.addresses import FetchRefused
from ...engines.jobs.desk import Desk, JobRefused
from ...engines.jobs.fetching import Fetcher
from ...engines.jobs.inputs import InputReader
from ...engines.jobs.job import Job, NewJob
from ...engines.jobs.supervisor import WorkerChild
from ...engines.media import MediaConfig, Served
from ...realtime.refusals import not_one_of
from ...sessions.errors import Refusal
from ..access import Gate

STOCK_MODELS: Mapping[Kind, tuple[str, ...]] = {
    "image": ("gpt-image-", "chatgpt-image-", "dall-e-"),
    "video": ("sora-",),
}
"""How models begin that clients ask for elsewhere; the first of ours of that kind is meant."""


class MediaService:
    """One deployment's pictures and clips. For one event loop."""

    def __init__(
        self,
        config: MediaConfig,
        models: Mapping[str, Served],
        desk: Desk,
        gate: Gate,
        *,
        worker: Sequence[str] | None = None,
        hooks: bool = False,
    ) -> None:
        """``worker``: the command of the server's own worker; ``hooks``: whether ends of jobs can
        be told to a URL."""
        self.config = config
        self.models = models
        self.desk = desk
        self.fetcher = Fetcher(config.fetch)
        self.reader = InputReader(config.inputs, self.fetcher)
        self._gate = gate
        self._hooks = hooks
        self._worker = WorkerChild(worker) if worker is not None else None
        self._started = False
        self._lock = asyncio.Lock()
        self.waiting = 0
        """Requests and streams that follow a job now; bounded by ``media.waiting``."""

    async def start(self) -> None:
        """Open the records, and begin what was left of jobs when the server ended. Idempotent.

        Raises:
            StageFailure: the database or the store can't be used.
        """
        async with self._lock:
            if self._started:
                return
            await self.desk.start()
            self._started = True
            if await self.desk.unfinished():
                await self._work()

    async def warm(self) -> None:
        """See that the server's own worker runs: it loads its models before they are needed."""
        async with self._lock:
            await self._work()

    async def _work(self) -> None:
        if self._started and self._worker is not None and not self._worker.running:
            await self._worker.start()

    async def submit(self, new: NewJob) -> Job:
        """Accept a job, and see that somebody does it.

        Raises:
            JobRefused: see :meth:`.desk.Desk.submit`.
        """
        job = await self.desk.submit(new)
        await self.warm()
        return job

    async def close(self) -> None:
        """End the worker and let go. Idempotent."""
        async with self._lock:
            self._started = False
            if self._worker is not None:
                await self._worker.close()
            await self.desk.close()

    @property
    def worker_pid(self) -> int | None:
        """Of the server's own worker, while it runs."""
        return self._worker.pid if self._worker is not None else None

    def owner(self, request: HTTPConnection) -> str:
        """Who asks: a digest of the key; nobody else sees their jobs."""
        return self._gate.owner_of(request)

    def admit_socket(self, socket: HTTPConnection) -> None:
        """Let a client open a socket.

        Raises:
            access.Refusal: it may not; with the HTTP answer in words.
        """
        self._gate.admit_socket(socket, socket.scope.get("subprotocols", []))

    def served(self, name: str | None, kind: Kind) -> Served:
        """The model that a request means.

        Raises:
            Refusal: there is none of that name, or none that makes such things.
        """
        fitting = {each.name: each for each in self.models.values() if each.abilities.kind == kind}
        if name in fitting:
            return fitting[name]
        if not fitting:
            message = f"model: no model of this server makes {kind}s."
            raise Refusal("model_not_found", message, "model")
        if name is None or name.startswith(STOCK_MODELS[kind]):
            return next(iter(fitting.values()))
        raise not_one_of("model", name, (*fitting, *(f"{each}*" for each in STOCK_MODELS[kind])))

    def check_webhook(self, url: str | None) -> None:
        """Refuse an address that would not be told.

        Raises:
            Refusal: nothing is told of ends here, or not to that address.
        """
        if url is None:
            return
        if not self._hooks:
            message = "webhook: this server has no secret to sign with (media.webhook_secret_file)."
            raise Refusal("unsupported_value", message, "webhook")
        try:
            self.fetcher.check(url)
        except FetchRefused as error:
            raise Refusal(error.code, f"webhook: {error.message}", "webhook") from None

    @contextlib.contextmanager
    def place(self) -> Generator[None]:
        """A place among the requests and streams that follow a job.

        Raises:
            JobRefused: all are taken (``queue_full``).
        """
        if self.waiting >= self.config.waiting:
            message = f"{self.config.waiting} requests wait already (media.waiting); try again"
            raise JobRefused("queue_full", message)
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1


def seed_of(owner: str, key: str | None) -> int:
    """A seed where none was asked for, 0 to 2^32 - 1; of a repeated request (the same owner and
    idempotency key) it is the same, so that it is seen to be the same request."""
    if key is None:
        return int.from_bytes(os.urandom(4))
    return int.from_bytes(hashlib.sha256(f"seed\0{owner}\0{key}".encode()).digest()[:4])


def worker_command(config: Path, data: Path) -> list[str]:
    """How the server starts its own worker."""
    where = ["--config", str(config), "--data", str(data)]
    return [sys.executable, "-m", "antiphon.web", "worker", *where, "--embedded"]
