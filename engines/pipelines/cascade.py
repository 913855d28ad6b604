"""The cascade: voice activity, recognizer, language model, talker, code2wav."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ..chunks import End, PcmChunk
from ..deployment import Deployment, Pacing
from ..flow import Flow
from ..pipeline import (
    Hearing,
    ListenRequest,
    Readiness,
    Recognition,
    RecognizeRequest,
    Reply,
    ReplyChunk,
    ReplyRequest,
)
from ..stage import Stage, StageFailure
from ..streams import Inbox, TaskStream
from .gate import Gate
from .reply import first_error, reply_chunks
from .stages import CanSee, CanWarm, CascadeStages, HasState, HasStatistics, build_stages

logger = logging.getLogger(__name__)

OnProgress: TypeAlias = Callable[[str], None]
"""Is told what the start is about, in a few words for a person."""


class ReplyStream(TaskStream[None, ReplyChunk]):
    """A reply under way, paced by how far its listener is."""

    def __init__(
        self,
        name: str,
        work: Callable[[Inbox[None]], AsyncGenerator[ReplyChunk | End, None]],
        flow: Flow,
        *,
        on_done: Callable[[End], None],
    ) -> None:
        super().__init__(name, work, on_done=on_done)
        self._flow = flow

    def played(self, played_ms: float, until_ms: float) -> None:
        """Say how far the listener is, and how far it plays on by itself."""
        self._flow.played(played_ms, until_ms)

    async def __aiter__(self) -> AsyncIterator[ReplyChunk | End]:
        """As any stream; audio that is not taken counts as not heard."""
        async for item in super().__aiter__():
            if isinstance(item, PcmChunk):
                self._flow.took(len(item.pcm) / 2 / item.rate * 1000)
            yield item


class CascadePipeline:
    """Five stages, each shared by all sessions, joined anew for every reply."""

    def __init__(
        self, deployment: Deployment, cache_root: Path, on_progress: OnProgress | None = None
    ) -> None:
        """Build the stages of a deployment; nothing is loaded before :meth:`start`."""
        stages = build_stages(deployment.stages, cache_root)
        self._set_up(stages, deployment.model, deployment.pacing, on_progress)

    @classmethod
    def from_stages(
        cls,
        stages: CascadeStages,
        *,
        model: str,
        pacing: Pacing | None = None,
        on_progress: OnProgress | None = None,
    ) -> CascadePipeline:
        """A cascade of the given stages, listed as ``model``."""
        pipeline = cls.__new__(cls)
        pipeline._set_up(stages, model, pacing or Pacing(), on_progress)
        return pipeline

    def _set_up(
        self, stages: CascadeStages, model: str, pacing: Pacing, on_progress: OnProgress | None
    ) -> None:
        self._stages = stages
        self._pacing = pacing
        self._gate = Gate(pacing, self._speaking)
        self._model = model
        self._tell: OnProgress = on_progress or (lambda text: None)
        self._states = {name: "closed" for name, _ in stages.named()}
        self._warming: asyncio.Task[None] | None = None
        self._replies = 0
        self._running = 0

    @property
    def model(self) -> str:
        """Name under which the whole is listed at ``/v1/models``."""
        return self._model

    @property
    def voices(self) -> tuple[str, ...]:
        """The talker's voices, the default one first."""
        return self._stages.talker.voices

    @property
    def sees(self) -> bool:
        """Whether the language model can be shown images."""
        model = self._stages.ar
        return isinstance(model, CanSee) and model.sees

    @property
    def readiness(self) -> Readiness:
        """State of each stage now."""
        return Readiness({name: self._state(name, each) for name, each in self._stages.named()})

    async def start(self) -> None:
        """Start all stages at once; where one fails, all are closed again.

        Raises:
            StageFailure: a model is missing or does not load.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, stage in self._stages.named():
                    tasks.create_task(self._start(name, stage))
        except BaseException as error:
            await self.close()
            raise first_error(error) from None

    async def close(self) -> None:
        """Close every stage, which ends every stream. Idempotent."""
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.wait([self._warming])
        await asyncio.gather(*(self._close(name, each) for name, each in self._stages.named()))

    def expect(self) -> None:
        """Wake the models from their rest, in the order in which a turn needs them."""
        if self._warming is None:
            self._warming = asyncio.get_running_loop().create_task(self._warm(), name="warm")
            self._warming.add_done_callback(self._warmed)

    def listen(self, request: ListenRequest) -> Hearing:
        """Judge audio frame by frame.

        Raises:
            StageClosed: the pipeline is not running.
        """
        return self._stages.vad.open(request)

    def recognize(self, request: RecognizeRequest) -> Recognition:
        """Transcribe the audio that is sent.

        Raises:
            StageClosed: the pipeline is not running.
        """
        return self._stages.recognizer.open(request)

    def reply(self, request: ReplyRequest) -> Reply:
        """Generate an answer; a stage that can't serve it ends the stream as failed."""
        self._replies += 1
        self._running += 1
        flow = Flow(self._pacing, read=True)
        return ReplyStream(
            f"reply-{request.request_id}",
            lambda inbox: reply_chunks(self._stages, request, flow, self._gate),
            flow,
            on_done=lambda end: self._count_end(),
        )

    def statistics(self) -> Mapping[str, Mapping[str, float]]:
        """Numbers of each stage by its name, and of the replies as a whole."""
        counted = {name: _counters(stage) for name, stage in self._stages.named()}
        replies = {"requests": self._replies, "running": self._running} | self._gate.statistics()
        return {"reply": replies} | {name: each for name, each in counted.items() if each}

    def _speaking(self) -> dict[str, Mapping[str, float]]:
        """Statistics of the stages that every second of speech passes."""
        stages = self._stages
        return {"talker": _counters(stages.talker), "code2wav": _counters(stages.code2wav)}

    async def _start(self, name: str, stage: Stage[Any, Any, Any]) -> None:
        now = asyncio.get_running_loop().time
        began = now()
        self._states[name] = "starting"
        self._tell(f"{name}: starting")
        try:
            await stage.start()
        except BaseException:
            self._states[name] = "failed"
            raise
        self._states[name] = "ready"
        self._tell(f"{name}: ready after {now() - began:.1f} s")

    async def _warm(self) -> None:
        try:
            for _, stage in self._stages.named():
                if isinstance(stage, CanWarm):
                    await stage.warm()
        except StageFailure:
            # It is for the request that follows to tell that a stage is down.
            pass
        except Exception:
            logger.exception("a stage could not be woken")

    def _warmed(self, task: asyncio.Task[None]) -> None:
        self._warming = None

    async def _close(self, name: str, stage: Stage[Any, Any, Any]) -> None:
        if self._states[name] != "failed":
            self._states[name] = "closed"
        await stage.close()

    def _state(self, name: str, stage: Stage[Any, Any, Any]) -> str:
        return stage.state if isinstance(stage, HasState) else self._states[name]

    def _count_end(self) -> None:
        self._running -= 1


def _counters(stage: object) -> Mapping[str, float]:
    return stage.statistics() if isinstance(stage, HasStatistics) else {}
