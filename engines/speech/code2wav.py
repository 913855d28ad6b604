"""The code2wav stage: latents to audio, a chunk at a time, as if decoded whole."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...codecs.pcm import from_float
from ...codecs.resample import FloatStreamResampler
from ..catalog import require
from ..chunks import End, Latents, PcmChunk, Samples, SpokenWords, Word
from ..deployment import Code2wavConfig
from ..flow import Flow
from ..pipeline import OUTPUT_RATE
from ..scheduling.windows import Window, Windows
from ..stage import StageStream
from ..streams import Inbox
from .graph import Graph
from .voice import CODE2WAV_FILE, Voice, load_voice
from .worker import Worker

INPUT_BOUND = 4
"""Clauses a stream holds before ``send`` waits: the talker need not be further ahead."""

OUTPUT = "output"
"""Name of the decoder's output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRequest:
    """Ask for the audio of the latents that follow."""

    request_id: str
    flow: Flow | None = field(default=None, compare=False)
    """Paces the audio; ``None`` for as fast as it goes."""


class Code2wavStage:
    """Decodes chunks of all streams in turn, in a thread of its own."""

    def __init__(
        self,
        config: Code2wavConfig,
        model: str,
        cache_root: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``model``: the talker's, whose decoder this is. Loads nothing yet."""
        self._config = config
        self._model = model
        self._cache_root = cache_root
        self._worker = Worker("code2wav", clock=clock)
        self._decoder: Decoder | None = None
        self._chunks = 0
        self._seconds = 0.0

    async def start(self) -> None:
        """Load and warm up.

        Raises:
            StageFailure: the model or a package is missing; the message says what to run.
        """
        self._decoder = await self._worker.start(self._load)

    def open(self, request: DecodeRequest) -> StageStream[Latents, SpokenWords | PcmChunk]:
        """Begin the audio of one reply: :data:`~..pipeline.OUTPUT_RATE`, without a break.

        Raises:
            StageClosed: the stage is not running.
        """
        return self._worker.open(
            f"code2wav {request.request_id}", self._decode, input_bound=INPUT_BOUND
        )

    async def warm(self) -> None:
        """Make the next chunk as quick as if another had just been decoded."""
        if (decoder := self._decoder) is not None:
            await self._worker.warm(lambda: decoder.warm_up(self._config.ladder[:1]))

    async def close(self) -> None:
        """End every stream with an error and free the model. Idempotent."""
        await self._worker.close()
        self._decoder = None

    def statistics(self) -> dict[str, float]:
        """Counters since the start, and what runs or waits now."""
        made = {"chunks": float(self._chunks), "audio_seconds": self._seconds}
        return self._worker.statistics() | made

    def _load(self) -> Decoder:
        _, folder = require(self._model, self._cache_root)
        decoder = Decoder(folder, self._config.threads)
        decoder.warm_up(self._config.ladder)
        return decoder

    async def _decode(
        self, inbox: Inbox[Latents]
    ) -> AsyncGenerator[SpokenWords | PcmChunk | End, None]:
        decoder = self._decoder
        assert decoder is not None, "a stream was opened before the stage started"
        stream = DecodeStream(decoder, self._config.ladder)
        async for latents in inbox:
            if words := stream.add(latents):
                yield SpokenWords(words)
            async for chunk in self._ready(stream):
                yield chunk
        stream.end()
        async for chunk in self._ready(stream):
            yield chunk
        if pcm := await self._worker.run(stream.flush):
            yield self._counted(pcm)

    async def _ready(self, stream: DecodeStream) -> AsyncGenerator[PcmChunk, None]:
        while window := stream.next_window():
            # Empty at times: the resampler holds some back.
            if pcm := await self._worker.run(stream.decode, window):
                yield self._counted(pcm)

    def _counted(self, pcm: bytes) -> PcmChunk:
        self._chunks += 1
        self._seconds += len(pcm) / 2 / OUTPUT_RATE
        return PcmChunk(pcm, OUTPUT_RATE)


class Decoder:
    """A loaded voice's second half: latents to samples. For use in one thread."""

    def __init__(self, folder: Path, threads: int) -> None:
        """Load from the model's folder.

        Raises:
            StageFailure: a package is missing or the folder can't be used.
        """
        self.voice: Voice = load_voice(folder)
        self._graph = Graph(folder / CODE2WAV_FILE, threads)

    def decode(self, frames: NDArray[np.float32], left: int, right: int) -> Samples:
        """Samples of ``frames``, ``(channels, n)``, but for ``left`` and ``right`` context."""
        whole = self._graph.run({self.voice.latents: frames[np.newaxis]}, [OUTPUT])[0].ravel()
        hop = self.voice.hop
        return whole[left * hop : len(whole) - right * hop]

    def warm_up(self, ladder: tuple[int, ...]) -> None:
        """Decode silence of every size that streams will ask for."""
        context = self.voice.context_frames
        for size in ladder:
            for sides in (1, 2):
                shape = (self.voice.channels, size + sides * context)
                self.decode(np.zeros(shape, np.float32), 0, 0)


class DecodeStream:
    """The state of one stream: frames not yet decoded, and the resampler's."""

    def __init__(self, decoder: Decoder, ladder: tuple[int, ...]) -> None:
        """Begin at the first step of the ladder."""
        self._decoder = decoder
        self._windows = Windows(ladder, decoder.voice.context_frames)
        self._frames = np.empty((decoder.voice.channels, 0), np.float32)
        self._received = 0
        self._resampler = FloatStreamResampler(decoder.voice.sample_rate, OUTPUT_RATE)

    def add(self, latents: Latents) -> tuple[Word, ...]:
        """Take frames in; return their words with times from the start of the stream."""
        ahead_ms = self._received * self._decoder.voice.frame_ms
        self._received += latents.frames.shape[1]
        self._windows.add(latents.frames.shape[1], last=latents.last)
        self._frames = np.concatenate([self._frames, latents.frames], axis=1)
        return tuple(
            Word(word.text, word.start_ms + ahead_ms, word.end_ms + ahead_ms)
            for word in latents.words
        )

    def end(self) -> None:
        """No more frames come: the last clause ends, if that was not said."""
        self._windows.add(0, last=True)

    def next_window(self) -> Window | None:
        """What to decode next, if the frames for it are there."""
        return self._windows.next()

    def decode(self, window: Window) -> bytes:
        """The s16le audio of a window at the output rate, as far as it is certain."""
        frames = self._frames[:, : window.stop]
        samples = self._decoder.decode(frames, window.left, window.right)
        self._frames = self._frames[:, window.keep :]
        return from_float(self._resampler.feed(samples))

    def flush(self) -> bytes:
        """The end of the audio, which the resampler held back."""
        return from_float(self._resampler.flush())
