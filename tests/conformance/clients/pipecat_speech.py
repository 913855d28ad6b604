"""The ``pipecat-ai`` package: ``OpenAITTSService`` and ``OpenAISTTService``, each in a pipeline."""

# The package lies in an environment of its own, where no checker looks.
# mypy: disable-error-code="import-not-found,misc"
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from loguru import logger
from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSSpeakFrame,
    TTSStoppedFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.stt import OpenAISTTService
from pipecat.services.openai.tts import OpenAITTSService
from pipecat.workers.runner import WorkerRunner

from .harness import (
    BYTES_PER_MS,
    HEARD,
    PIECE_MS,
    RATE,
    SPOKEN_MS,
    SPOKEN_TEXT,
    Arrivals,
    Job,
    Report,
    check,
    read_speech,
    run,
)


class Watch(FrameProcessor):
    """Passes every frame on, and keeps those that go down."""

    def __init__(self, seen: Arrivals) -> None:
        super().__init__()
        self._seen = seen

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Keep it, and pass it on."""
        await super().process_frame(frame, direction)
        if direction is FrameDirection.DOWNSTREAM:
            self._seen.add(frame)
        await self.push_frame(frame, direction)


class Audio:
    """Both services."""

    def __init__(self, job: Job, report: Report) -> None:
        self._about: Any = {"base_url": f"{job.url}/v1", "api_key": "none"}
        self._question = read_speech(job.question)
        self._report = report
        self._seen = Arrivals()
        self._refusals: list[str] | None = None
        """Errors that are wanted at the moment."""

    async def use(self) -> None:
        """Try every feature."""
        try_ = self._report.feature
        await try_("speech", self._speech)
        await try_("transcription", self._transcription)
        await try_("refusal", self._refusal)

    async def _speech(self) -> None:
        start = len(self._seen.all)
        async with self._running(OpenAITTSService(**self._about)) as worker:
            await worker.queue_frame(TTSSpeakFrame(SPOKEN_TEXT))
            await self._frame(TTSStoppedFrame, start)
        frames = self._seen.since(start, lambda frame: isinstance(frame, TTSAudioRawFrame))
        check(len(frames) > 1, "all came at once")
        ms = sum(len(frame.audio) for frame in frames) / BYTES_PER_MS
        check(ms > SPOKEN_MS, f"{ms:.0f} ms of audio came")
        check({frame.sample_rate for frame in frames} == {RATE}, "another rate")

    async def _transcription(self) -> None:
        # The second of them asks for verbose_json, the first for log probabilities.
        for model in ("gpt-4o-transcribe", "whisper-1"):
            start = len(self._seen.all)
            settings = OpenAISTTService.Settings(model=model)
            service = OpenAISTTService(settings=settings, include_prob_metrics=True, **self._about)
            async with self._running(service) as worker:
                await worker.queue_frame(VADUserStartedSpeakingFrame())
                size = PIECE_MS * BYTES_PER_MS
                for at in range(0, len(self._question), size):
                    piece = self._question[at : at + size]
                    await worker.queue_frame(InputAudioRawFrame(piece, RATE, 1))
                await worker.queue_frame(VADUserStoppedSpeakingFrame())
                told = await self._frame(TranscriptionFrame, start)
            check(HEARD in told.text.lower(), told.text)

    def complain(self, error: str) -> None:
        """Take an error or a warning."""
        if self._refusals is None:
            self._report.error(error)
        else:
            self._refusals.append(error)

    async def _refusal(self) -> None:
        self._refusals = []
        # An instruction is the one thing of its requests that is refused here.
        settings = OpenAITTSService.Settings(instructions="Whisper.")
        service = OpenAITTSService(settings=settings, **self._about)
        start = len(self._seen.all)
        async with self._running(service) as worker:
            await worker.queue_frame(TTSSpeakFrame(SPOKEN_TEXT))
            await self._frame(TTSStoppedFrame, start)
        check("instructions" in " ".join(self._refusals), self._refusals)

    @asynccontextmanager
    async def _running(self, service: FrameProcessor) -> AsyncGenerator[PipelineWorker, None]:
        """Run a service in a pipeline, and let it end by itself."""
        worker = PipelineWorker(
            Pipeline([service, Watch(self._seen)]),
            params=PipelineParams(
                audio_in_sample_rate=RATE, audio_out_sample_rate=RATE, enable_metrics=True
            ),
        )

        async def note(_: Any, frame: ErrorFrame) -> None:
            self.complain(f"error frame: {frame.error}")

        worker.add_event_handler("on_pipeline_error", note)
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        running = asyncio.create_task(runner.run())
        try:
            yield worker
            await worker.queue_frame(EndFrame())
        except BaseException:
            await worker.cancel()
            raise
        finally:
            await running

    async def _frame(self, kind: type[Frame], start: int) -> Any:
        return await self._seen.first(start, lambda frame: isinstance(frame, kind), kind.__name__)


async def talk(job: Job, report: Report) -> None:
    """Use them."""
    audio = Audio(job, report)
    logger.remove()
    logger.add(
        lambda message: audio.complain(f"loguru {message.record['level'].name}: {message.strip()}"),
        level="WARNING",
        format="{name}: {message}",
    )
    await audio.use()


if __name__ == "__main__":
    run(talk)
