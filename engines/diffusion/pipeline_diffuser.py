"""A diffuser over the folder of a pipeline, with one thread that runs the model.

The event loop and the thread share no state: tasks go in through a queue, what is told comes out
through a :class:`.Mailbox`, and a task is cancelled by a flag. What loads torch and diffusers is
imported in that thread.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import traceback
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..chunks import StageError
from ..stage import StageFailure
from .abilities import Abilities, read_abilities
from .mailbox import Mailbox
from .switches import DiffuserConfig
from .task import Checkpoint, MediaTask, Picture, TaskCancelled, TaskFailed, Told

if TYPE_CHECKING:
    from .hub import Hub
    from .model import Model
    from .work import Work

log = logging.getLogger(__name__)

MAX_WAITING = 1024
"""Tasks that are taken before any is done; more fail at once."""

WARM_STEPS = 2

Job = Callable[[], None]


class PipelineDiffuser:
    """See :class:`.diffuser.Diffuser`."""

    def __init__(self, folder: Path, config: DiffuserConfig) -> None:
        """``folder``: of :attr:`.DiffuserConfig.path`, or the placeholder's.

        Raises:
            StageFailure: it is no folder of a pipeline that is known.
        """
        self.config = config
        self.abilities: Abilities = read_abilities(
            folder, facts=config.facts, adapters=tuple(config.switches.loras)
        )
        self._folder = folder
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._running: dict[str, Work] = {}
        self._model: Model | None = None
        self._hub: Hub | None = None
        self._closed = False

    @property
    def forwards(self) -> tuple[int, ...]:
        """Rows of the model's last forwards."""
        return tuple(self._hub.forwards) if self._hub is not None else ()

    async def start(self) -> None:
        """See :class:`.diffuser.Diffuser`."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()

        def tell(error: BaseException | None) -> None:
            if not ready.done():
                ready.set_exception(error) if error is not None else ready.set_result(None)

        def done(error: BaseException | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(tell, error)

        self._thread = threading.Thread(
            target=self._main, args=(done,), name=f"diffusion {self._folder.name}", daemon=True
        )
        self._thread.start()
        await ready
        await self._warm_up()

    def check(self, task: MediaTask) -> None:
        """See :class:`.diffuser.Diffuser`."""
        self.abilities.check(task)

    async def run(
        self,
        task_id: str,
        task: MediaTask,
        inputs: Mapping[str, Path],
        *,
        resume: Checkpoint | None = None,
        rank: float = 0.0,
    ) -> AsyncGenerator[Told, None]:
        """See :class:`.diffuser.Diffuser`.

        A checkpoint of another model, task or version is not gone on with: the task begins
        anew, which gives what this model gives.
        """
        self._refuse(task_id, task, inputs)
        mailbox = Mailbox()
        work = self._work(task_id, task, inputs, mailbox, resume, rank)
        self._running[task_id] = work
        hub = self._hub
        assert hub is not None
        self._jobs.put(lambda: hub.add(work))
        try:
            self._refuse_closed()
            while True:
                told = await mailbox.get()
                if isinstance(told, TaskFailed | TaskCancelled):
                    raise told
                yield told
                if isinstance(told, Picture):
                    return
        finally:
            work.cancel()
            del self._running[task_id]

    def _refuse(self, task_id: str, task: MediaTask, inputs: Mapping[str, Path]) -> None:
        """Raises what there is against a task."""
        self._refuse_closed()
        try:
            self.check(task)
        except ValueError as error:
            raise TaskFailed("invalid_task", str(error)) from error
        if task.inputs.keys() - inputs.keys():
            raise TaskFailed("bad_input", "inputs: a file is missing")
        if task_id in self._running:
            raise TaskFailed("invalid_task", f"task {task_id} is under way already")
        if len(self._running) >= MAX_WAITING:
            raise TaskFailed("busy", "too many tasks wait for this model", retry=True)

    def _refuse_closed(self) -> None:
        if self._hub is None or self._closed:
            raise TaskFailed("stage_closed", "the model is not running", retry=True)

    def _work(
        self,
        task_id: str,
        task: MediaTask,
        inputs: Mapping[str, Path],
        mailbox: Mailbox,
        resume: Checkpoint | None,
        rank: float,
    ) -> Work:
        from .checkpoints import decode
        from .work import Work, mark_of

        assert self._model is not None
        mark = mark_of(self._model.identity, task)
        kept = None
        if resume is not None:
            try:
                kept = decode(resume.state)
            except ValueError:
                log.warning("task %s: its checkpoint can't be read; it begins anew", task_id)
            if kept is not None and kept.model != mark:
                log.warning("task %s: its checkpoint is of another model; begins anew", task_id)
                kept = None
        return Work(
            task_id,
            task,
            inputs,
            mailbox.put,
            rank=rank,
            resume=kept,
            checkpoint_steps=self.config.checkpoint_steps,
            preview_seconds=self.config.preview_ms / 1000,
            model=mark,
        )

    async def close(self) -> None:
        """See :class:`.diffuser.Diffuser`."""
        self._closed = True
        thread, self._thread = self._thread, None
        if thread is None:
            return
        for work in self._running.values():
            work.cancel()
        self._jobs.put(None)
        await asyncio.get_running_loop().run_in_executor(None, thread.join)
        self._hub = self._model = None

    def _main(self, ready: Callable[[BaseException | None], None]) -> None:
        """The model's thread."""
        try:
            hub = self._load()
        except StageFailure as failure:
            ready(failure)
            return
        except Exception as error:
            log.exception("the model could not be loaded")
            broken = StageError("model_broken", f"{self._folder}: {type(error).__name__}: {error}")
            ready(StageFailure(broken))
            return
        ready(None)
        try:
            self._serve(hub)
        except Exception as error:
            # Not a task's fault, which ends that task alone.
            where = "".join(traceback.format_tb(error.__traceback__)[-3:])
            log.error("the model's thread has failed: %s\n%s", type(error).__name__, where)
            self._closed = True
            for work in list(self._running.values()):
                work.tell(TaskFailed("stage_failed", "the model has failed", retry=True))

    def _serve(self, hub: Hub) -> None:
        import torch

        with torch.no_grad():
            while self._take_jobs(hub):
                hub.turn()
            hub.stop()

    def _load(self) -> Hub:
        from .hub import Hub
        from .model import Model

        model = Model(self._folder, self.config, self.abilities)
        rows = self.config.max_rows or model.family.rows
        hub = Hub(model, max_rows=rows, max_tasks=self.config.max_tasks, exact=self.config.exact)
        self._model, self._hub = model, hub
        return hub

    def _take_jobs(self, hub: Hub) -> bool:
        """Take what has come in, and wait for it where there is nothing else to do."""
        while True:
            try:
                job = self._jobs.get(block=not hub.busy)
            except queue.Empty:
                return True
            if job is None:
                return False
            job()

    async def _warm_up(self) -> None:
        """The first forwards are slow, and what is wrong with a model is seen at one."""
        made = self.abilities
        inputs: dict[str, Any] = dict.fromkeys(made.inputs[0], "")
        if inputs:
            # It needs a picture; making one up tells little more than that it was loaded.
            return
        task = MediaTask(
            kind=made.kind,
            model=self._folder.name,
            prompt="warm up",
            width=made.width,
            height=made.height,
            steps=min(WARM_STEPS, made.max_steps),
            guidance=made.guidance,
            seed=0,
            frames=made.frames,
            frames_per_second=made.frames_per_second,
        )
        try:
            async with aclosing(self.run("warm-up", task, {})) as told:
                async for _ in told:
                    pass
        except TaskFailed as error:
            await self.close()
            raise StageFailure(StageError("model_broken", f"{self._folder}: {error}")) from error
