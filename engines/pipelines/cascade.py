"""The cascade: voice activity, recognizer, language model, talker, code2wav."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ..chunks import End, StageError
from ..deployment import Deployment, Pacing
from ..flow import Flow
from ..pipeline import (
    Hearing,
    ListenRequest,
    NewVoice,
    Readiness,
    Recognition,
    RecognizeRequest,
    Reply,
    ReplyChunk,
    ReplyRequest,
    SpeakRequest,
    Speech,
    TranscribeRequest,
    Transcription,
    VoiceCard,
    VoiceRecording,
    VoiceSource,
)
from ..speech.talker import TalkRequest
from ..speech.voices.shelf import unknown
from ..stage import Stage, StageFailure
from .gate import Gate
from .outlet import FlowStream, first_error
from .reply import reply_chunks
from .speech import Spoken, speech_chunks
from .stages import (
    CanSee,
    CanWarm,
    CascadeStages,
    HasState,
    HasStatistics,
    KeepsVoices,
    MakesVoices,
    build_stages,
)

logger = logging.getLogger(__name__)

OnProgress: TypeAlias = Callable[[str], None]
"""Is told what the start is about, in a few words for a person."""


class CascadePipeline:
    """Five stages, each shared by all sessions, joined anew for every reply."""

    def __init__(
        self,
        deployment: Deployment,
        cache_root: Path,
        on_progress: OnProgress | None = None,
        *,
        voices: Path | None = None,
    ) -> None:
        """Build the stages of a deployment; nothing is loaded before :meth:`start`.

        ``voices``: the folder of added voices; without one none can be added.
        """
        stages = build_stages(deployment.stages, cache_root, voices)
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
        self._replies = _Requests()
        self._speeches = _Requests()

    @property
    def model(self) -> str:
        """Name under which the whole is listed at ``/v1/models``."""
        return self._model

    @property
    def voices(self) -> tuple[str, ...]:
        """The talker's voices, the default one first."""
        return self._stages.talker.voices

    @property
    def voice_cards(self) -> tuple[VoiceCard, ...]:
        """What is known of each voice."""
        talker = self._stages.talker
        if isinstance(talker, KeepsVoices):
            return talker.voice_cards
        return tuple(VoiceCard(name=name, language=talker.language(name)) for name in self.voices)

    @property
    def voice_source(self) -> VoiceSource:
        """What the talker makes new voices of."""
        talker = self._stages.talker
        return talker.voice_source if isinstance(talker, MakesVoices) else "files"

    async def add_voice(self, new: NewVoice) -> tuple[VoiceCard, ...]:
        """Add the voices of a model, or that of a recording.

        Raises:
            StageFailure: see :meth:`~..pipeline.Pipeline.add_voice`.
        """
        talker, source = self._stages.talker, self.voice_source
        if not isinstance(talker, KeepsVoices):
            raise StageFailure(StageError("voices_fixed", "voices can't be added here"))
        if isinstance(new, VoiceRecording) and source == "files":
            what = "voices here are not made from recordings: expected the files of a Piper voice"
            raise StageFailure(StageError("recordings_unsupported", what))
        if not isinstance(new, VoiceRecording) and source == "recording":
            what = "voices here are made from recordings: expected one, and no files of a model"
            raise StageFailure(StageError("files_unsupported", what))
        return await talker.add_voice(new)

    async def remove_voice(self, name: str) -> None:
        """Remove a model that was added.

        Raises:
            StageFailure: see :meth:`~..pipeline.Pipeline.remove_voice`.
        """
        talker = self._stages.talker
        if isinstance(talker, KeepsVoices):
            await talker.remove_voice(name)
            return
        if name not in self.voices:
            raise unknown(self.voices)
        raise StageFailure(StageError("voice_fixed", "voices can't be removed here"))

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
        self._replies.begin()
        flow = Flow(self._pacing, read=True)
        return FlowStream[None, ReplyChunk](
            f"reply-{request.request_id}",
            lambda inbox: reply_chunks(self._stages, request, flow, self._gate),
            flow,
            on_done=self._replies.end,
        )

    def speak(self, request: SpeakRequest) -> Speech:
        """Speak text as it comes; a stage that can't serve it ends the stream as failed.

        Raises:
            StageFailure: there is no such voice (``voice_unknown``).
            ValueError: the talker has no such speed.
        """
        voices = self.voices
        if request.voice is not None and voices and request.voice not in voices:
            raise unknown(voices)
        asked = TalkRequest(request_id=request.request_id, voice=request.voice, speed=request.speed)
        self._speeches.begin()
        flow = Flow(self._pacing, read=True, paced=request.paced)
        return FlowStream[str, Spoken](
            f"speak-{request.request_id}",
            lambda inbox: speech_chunks(self._stages, asked, flow, self._gate, inbox),
            flow,
            on_done=self._speeches.end,
        )

    def transcribe(self, request: TranscribeRequest) -> Transcription:
        """Transcribe a recording, behind everything that is live.

        Raises:
            StageClosed: the pipeline is not running.
            StageFailure: the recognizer does not know the language, can't translate, or reads
                too many recordings.
        """
        return self._stages.recognizer.transcribe(request)

    def statistics(self) -> Mapping[str, Mapping[str, float]]:
        """Numbers of each stage by its name, of the replies as a whole, and of other speech."""
        counted = {name: _counters(stage) for name, stage in self._stages.named()}
        whole = {
            "reply": self._replies.statistics() | self._gate.statistics(),
            "speech": self._speeches.statistics(),
        }
        return whole | {name: each for name, each in counted.items() if each}

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


class _Requests:
    """How many there were, and are."""

    def __init__(self) -> None:
        self._begun = 0
        self._running = 0

    def begin(self) -> None:
        """Count one."""
        self._begun += 1
        self._running += 1

    def end(self, _end: End) -> None:
        """One is over."""
        self._running -= 1

    def statistics(self) -> dict[str, float]:
        """By name."""
        return {"requests": self._begun, "running": self._running}


def _counters(stage: object) -> Mapping[str, float]:
    return stage.statistics() if isinstance(stage, HasStatistics) else {}
