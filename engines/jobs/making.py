"""The work on one job: its tasks on the model, checkpoints and results into the store."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, ParamSpec, TypeVar

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ..diffusion.diffuser import Diffuser
from ..diffusion.task import Checkpoint, MediaTask, Picture, Step, TaskFailed
from .artefacts import PREFIX, Artefacts, Missing
from .claims import Claim, Claims, Kept, LostClaim, News
from .job import Artefact, Job, JobError
from .scratch import scratch_prefix

LOG = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

STORE_TRIES = 6
STORE_WAIT_SECONDS = 0.2
"""Before the second try to write a file; doubled with each."""

_DATABASE_WAITS = (0.1, 0.5, 1.0, 2.0)

DATABASE_AWAY = (OperationalError, InterfaceError, PoolTimeout)
"""What calls raise while the database can't be reached, or is too busy."""


@dataclass(frozen=True, slots=True)
class File:
    """A result, before it is stored."""

    name: str
    """As :attr:`.job.Artefact.name`."""

    suffix: str
    type: str
    data: bytes


Encode = Callable[[Job, int, Picture], Sequence[File]]
"""Makes the files of a task's result; ``int`` says which task. It runs in a thread."""

Stop = Literal["cancelling", "lost", "leaving"]


class Stopped(Exception):
    """The work was stopped from outside."""

    def __init__(self, why: Stop) -> None:
        super().__init__(why)
        self.why: Stop = why


async def whole(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call in a thread; when cancelled, first wait for its end, so that it writes nothing after
    what it wrote before was tidied away."""
    calling = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(calling)
    except asyncio.CancelledError:
        await asyncio.wait([calling])
        raise


async def persistently(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call the database in a thread, again and again while it can't be reached."""
    tries = 0
    while True:
        try:
            return await whole(call, *args, **kwargs)
        except DATABASE_AWAY:
            wait = _DATABASE_WAITS[min(tries, len(_DATABASE_WAITS) - 1)]
            LOG.warning("the database of jobs can't be reached; again in %.1f s", wait)
            await asyncio.sleep(wait)
            tries += 1


@dataclass(slots=True)
class _Part:
    done: int = 0
    of: int = 1
    ms: float = 0.0


class Making:
    """One held job. ``carry_out`` once; ``stop`` from the same event loop."""

    def __init__(
        self,
        claim: Claim,
        claims: Claims,
        store: Artefacts,
        diffusers: Mapping[str, Diffuser],
        encode: Encode,
        rank: float,
    ) -> None:
        self.claim = claim
        self._claims = claims
        self._store = store
        self._diffusers = diffusers
        self._encode = encode
        self._rank = rank
        self._why: Stop | None = None
        self._work: asyncio.Task[Sequence[Artefact]] | None = None
        self._parts = [_Part(of=task.steps) for task in claim.job.tasks]
        for at in claim.made:
            self._parts[at].done = self._parts[at].of
        self._previews: dict[int, bytes] = {}
        self._changed = False

    def stop(self, why: Stop) -> None:
        """Stop it; the first reason counts."""
        if self._why is None:
            self._why = why
            if self._work is not None:
                self._work.cancel()

    def news(self) -> News | None:
        """What is new since this was asked last."""
        if not self._changed:
            return None
        self._changed = False
        previews, self._previews = self._previews, {}
        done = sum(part.done for part in self._parts)
        of = sum(part.of for part in self._parts)
        running = [part for part in self._parts if part.done < part.of and part.ms]
        return News(
            self.claim.job.id,
            self.claim.attempt,
            # The last per cent is for the files.
            progress=min(99, 100 * done // max(1, of)),
            step_ms=max((part.ms for part in self._parts), default=0.0),
            remaining_ms=max(((part.of - part.done) * part.ms for part in running), default=None),
            previews=previews,
        )

    async def carry_out(self) -> Sequence[Artefact]:
        """All tasks; returns the files of the job.

        Raises:
            TaskFailed: one can't be done, so none is.
            Stopped: see :meth:`stop`.
            LostClaim: the job is another's.
        """
        if self._why is None:
            self._work = asyncio.create_task(self._all())
            try:
                return await self._work
            except asyncio.CancelledError:
                if self._why is None:
                    raise
        assert self._why is not None
        raise Stopped(self._why)

    async def _all(self) -> Sequence[Artefact]:
        made: dict[int, tuple[Artefact, ...]] = dict(self.claim.made)

        async def one(at: int, task: MediaTask, folder: Path) -> None:
            made[at] = await self._one(at, task, folder)

        with tempfile.TemporaryDirectory(prefix=scratch_prefix()) as scratch:
            try:
                async with asyncio.TaskGroup() as group:
                    for at, task in enumerate(self.claim.job.tasks):
                        if at not in made:
                            group.create_task(one(at, task, Path(scratch, str(at))))
            except BaseExceptionGroup as errors:
                raise _foremost(errors) from None
        return [each for at in sorted(made) for each in made[at]]

    async def _one(self, at: int, task: MediaTask, folder: Path) -> tuple[Artefact, ...]:
        diffuser = self._diffusers.get(task.model)
        if diffuser is None:
            raise TaskFailed("model_not_found", f"model: this worker has no {task.model!r}")
        inputs = await whole(self._inputs, task, folder)
        resume = await self._resume(at)
        picture: Picture | None = None
        stream = diffuser.run(
            f"{self.claim.job.id}/{at}", task, inputs, resume=resume, rank=self._rank
        )
        async with aclosing(stream):
            async for told in stream:
                if isinstance(told, Step):
                    self._note(at, told)
                elif isinstance(told, Checkpoint):
                    await self._checkpoint(at, told)
                else:
                    picture = told
        if picture is None:
            raise TaskFailed("no_result", "the model ended without a result", retry=True)
        return await self._keep(at, picture)

    def _inputs(self, task: MediaTask, folder: Path) -> dict[str, Path]:
        folder.mkdir()
        paths: dict[str, Path] = {}
        for number, (name, key) in enumerate(task.inputs.items()):
            paths[name] = folder / f"{number}{Path(key).suffix}"
            try:
                self._store.fetch(key, paths[name])
            except Missing:
                message = f"{name}: the file that goes in is not in the store any more"
                raise TaskFailed("input_missing", message) from None
        return paths

    async def _resume(self, at: int) -> Checkpoint | None:
        kept = self.claim.checkpoints.get(at)
        if kept is None:
            return None
        try:
            state = await asyncio.to_thread(self._store.get, kept.key)
        except Missing:
            return None
        self._parts[at].done = kept.done
        return Checkpoint(kept.done, state)

    def _note(self, at: int, step: Step) -> None:
        self._parts[at] = _Part(step.done, step.of, step.ms)
        if step.preview is not None:
            self._previews[at] = step.preview
        self._changed = True

    async def _checkpoint(self, at: int, checkpoint: Checkpoint) -> None:
        kept = Kept(self._key(f"checkpoint-{at}-{checkpoint.done}"), checkpoint.done)
        await self._put(kept.key, checkpoint.state)
        earlier = await persistently(self._claims.keep, self.claim, at, kept)
        await self._drop(earlier, but=kept.key)

    async def _keep(self, at: int, picture: Picture) -> tuple[Artefact, ...]:
        files = await asyncio.to_thread(self._encode, self.claim.job, at, picture)
        artefacts: list[Artefact] = []
        for file in files:
            key = self._key(f"{file.name}{file.suffix}")
            await self._put(key, file.data)
            artefacts.append(Artefact(name=file.name, key=key, type=file.type, size=len(file.data)))
        earlier = await persistently(self._claims.made, self.claim, at, tuple(artefacts))
        self._parts[at].done = self._parts[at].of
        await self._drop(earlier)
        return tuple(artefacts)

    def _key(self, name: str) -> str:
        # With the attempt, so that one who lost the job can't write over what the next made.
        return f"{PREFIX}/{self.claim.job.id}/{self.claim.attempt}/{name}"

    async def _put(self, key: str, data: bytes) -> None:
        for tries in range(STORE_TRIES):
            try:
                return await whole(self._store.put, key, data)
            except Exception as error:
                # obstore has an exception of its own for each store's troubles.
                LOG.warning("a file of a job could not be stored: %s", type(error).__name__)
                await asyncio.sleep(STORE_WAIT_SECONDS * 2**tries)
        raise TaskFailed("store_unavailable", "the file store can't be written to", retry=True)

    async def _drop(self, key: str | None, but: str = "") -> None:
        if key is not None and key != but:
            await whole(self._store.delete, [key])


def _foremost(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one that says most: another's claim, then a failure, then whatever it is."""
    for kind in (LostClaim, TaskFailed):
        for each in errors.exceptions:
            if isinstance(each, kind):
                return each
    return errors.exceptions[0]


def as_error(error: BaseException) -> JobError:
    """What a client is told of a failure."""
    if isinstance(error, TaskFailed):
        return JobError(error.code, error.message)
    return JobError("internal_error", "the worker failed in a way it should not have; see its log")
