"""The voice-activity stage: how probable speech is, 20 ms by 20 ms."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from functools import partial
from typing import Protocol

from ...codecs.resample import StreamResampler
from ..chunks import End, PcmChunk, SpeechFrames, StageError
from ..deployment import VadConfig
from ..pipeline import ListenRequest
from ..stage import StageFailure, StageStream
from ..streams import INPUT_BOUND, Inbox
from .hearing.levels import FRAME_SAMPLES
from .hearing.silero import SileroDetector, load_silero
from .hearing.webrtc import RATE, WebrtcDetector, load_webrtcvad
from .worker import Worker

FRAME_BYTES = 2 * FRAME_SAMPLES

JOB_SECONDS = 1
"""Audio judged in one go: a chunk of minutes must not hold up the other listeners."""


class Detector(Protocol):
    """Judges one stream, frame by frame; used in one thread at a time."""

    def judge(self, pcm: bytes) -> list[float]:
        """Probabilities of the frames now known; ``pcm`` is whole frames at 16 kHz."""
        ...

    def flush(self) -> list[float]:
        """Probabilities of the frames held back, at the end of the stream."""
        ...


class Ear:
    """One stream's audio on its way to a detector: resampled, and cut into frames."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._rate = 0
        self._resampler: StreamResampler | None = None
        self._rest = b""

    def hear(self, chunk: PcmChunk) -> list[float]:
        """Probabilities of the frames now known.

        Frames follow one another from the first sample on, whatever the rate and however
        the audio is split.

        Raises:
            StageFailure: the rate is not that of the chunks before.
        """
        return self._judge(self._resampler_of(chunk.rate).feed(chunk.pcm))

    def flush(self) -> list[float]:
        """Probabilities of what is left; silence fills the last frame."""
        if self._resampler is None:
            return []
        known = self._judge(self._resampler.flush())
        if self._rest:
            known += self._judge(bytes(FRAME_BYTES - len(self._rest)))
        return known + self._detector.flush()

    def _judge(self, pcm: bytes) -> list[float]:
        heard = self._rest + pcm
        whole = len(heard) - len(heard) % FRAME_BYTES
        self._rest = heard[whole:]
        return self._detector.judge(heard[:whole]) if whole else []

    def _resampler_of(self, rate: int) -> StreamResampler:
        if self._resampler is None:
            self._rate, self._resampler = rate, StreamResampler(rate, RATE)
        if rate != self._rate:
            what = f"audio of {self._rate} Hz continued with {rate} Hz"
            raise StageFailure(StageError("invalid_audio", what))
        return self._resampler


class VadStage:
    """Listens to all streams, in one thread of its own."""

    def __init__(self, config: VadConfig) -> None:
        """Loads nothing yet."""
        self._config = config
        self._worker = Worker("vad")
        self._detector: Callable[[], Detector] | None = None
        self._frames = 0

    async def start(self) -> None:
        """Load and warm up.

        Raises:
            StageFailure: a package is missing; the message says which extra to install.
        """
        self._detector = await self._worker.start(self._load)

    def open(self, request: ListenRequest) -> StageStream[PcmChunk, SpeechFrames]:
        """Begin to listen; audio of any one rate, mono. Frame i is 20 ms from 20 i ms on.

        Raises:
            StageClosed: the stage is not running.
        """
        return self._worker.open(f"vad {request.request_id}", self._listen, input_bound=INPUT_BOUND)

    async def close(self) -> None:
        """End every stream with an error and give up the thread. Idempotent."""
        await self._worker.close()

    def statistics(self) -> Mapping[str, float]:
        """Streams open and ended, frames judged, and seconds spent on them."""
        return self._worker.statistics() | {"frames": float(self._frames)}

    def _load(self) -> Callable[[], Detector]:
        detector = self._silero() if self._config.use == "silero" else self._webrtc()
        detector().judge(bytes(FRAME_BYTES * 50))
        return detector

    @staticmethod
    def _webrtc() -> Callable[[], Detector]:
        load_webrtcvad()
        return WebrtcDetector

    @staticmethod
    def _silero() -> Callable[[], Detector]:
        graph = load_silero()
        return lambda: SileroDetector(graph)

    async def _listen(self, inbox: Inbox[PcmChunk]) -> AsyncGenerator[SpeechFrames | End, None]:
        assert self._detector is not None, "a stream was opened before the stage started"
        ear = Ear(self._detector())
        async for chunk in inbox:
            for piece in _pieces(chunk):
                if known := await self._run(partial(ear.hear, piece)):
                    yield SpeechFrames(known)
        if known := await self._run(ear.flush):
            yield SpeechFrames(known)

    async def _run(self, job: Callable[[], list[float]]) -> tuple[float, ...]:
        known = tuple(await self._worker.run(job))
        self._frames += len(known)
        return known


def _pieces(chunk: PcmChunk) -> Iterator[PcmChunk]:
    size = JOB_SECONDS * 2 * chunk.rate
    for start in range(0, len(chunk.pcm), size):
        yield PcmChunk(chunk.pcm[start : start + size], chunk.rate)
