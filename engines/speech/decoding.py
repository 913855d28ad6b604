"""The second half of a voice: latents to samples, any stretch of them at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...codecs.pcm import from_float
from ...codecs.resample import FloatStreamResampler
from ..chunks import Latents, Samples, Word
from ..pipeline import OUTPUT_RATE
from ..scheduling.windows import Window, Windows
from .joins import rise
from .voices.family import VoiceDecoder, VoiceModel

FADE_MS = 15.0
"""At the end of a reply, which may have been cut in mid-sound."""

SAVING = 0.1
"""Share of a chunk's time that decoding several at once must save to be worth it."""

TRIES = 2
"""Of each measurement; the quickest counts, because other work only ever adds to it."""


class Decoder:
    """Decodes stretches with the second half of a voice model, in any threads."""

    def __init__(self, half: VoiceDecoder) -> None:
        """``half``: loaded."""
        self.voice: VoiceModel = half.model
        self._half = half

    def run(
        self, frames: NDArray[np.float32], left: int = 0, right: int = 0
    ) -> NDArray[np.float32]:
        """Samples of frames ``(batch, channels, n)`` but for ``left`` and ``right`` context."""
        return self._half.run(frames, left, right)

    def decode(self, frames: NDArray[np.float32], left: int, right: int) -> Samples:
        """Samples of ``frames``, ``(channels, n)``, but for ``left`` and ``right`` context."""
        samples: Samples = self.run(frames[np.newaxis], left, right)[0]
        return samples

    def decode_pieces(self, pieces: Sequence[Piece]) -> list[bytes]:
        """Decode pieces of equal :attr:`Piece.shape` at once; the audio of each for its stream."""
        return [
            piece.finish(samples)
            for piece, samples in zip(pieces, self.samples(pieces), strict=True)
        ]

    def samples(self, pieces: Sequence[Piece]) -> list[Samples]:
        """The same, still to be :meth:`finished <Piece.finish>` in the order of their stream."""
        window = pieces[0].window
        frames = np.stack([piece.frames for piece in pieces])
        return list(self.run(frames, window.left, window.right))

    def warm_up(self, sizes: Sequence[int]) -> None:
        """Decode silence of the sizes that streams will ask for, with one context and two."""
        for size in sizes:
            for left in (0, self.voice.context_frames):
                self._seconds(1, size, left, tries=1)

    def costs_ms(self, sizes: Sequence[int]) -> tuple[float, float]:
        """What a chunk takes, as measured: so much, and so much a frame."""
        around = self.voice.context_frames
        sizes = sorted({sizes[0], sizes[len(sizes) // 2], sizes[-1]})
        took = [1000 * self._seconds(1, size, around) for size in sizes]
        if len(sizes) == 1:
            frame_ms = took[0] / (sizes[0] + 2 * around)
            return 2 * around * frame_ms, frame_ms
        per_frame, fixed = np.polyfit(np.array(sizes, float), took, 1).tolist()
        return max(0.0, fixed), max(0.0, per_frame)

    def batch_pays(self, size: int, batch: int) -> bool:
        """Whether chunks of so many frames take less time decoded so many at once."""
        around = self.voice.context_frames
        together, alone = (self._seconds(count, size, around) for count in (batch, 1))
        return together <= (1 - SAVING) * batch * alone

    def _seconds(self, batch: int, size: int, left: int, tries: int = TRIES) -> float:
        right = self.voice.context_frames
        silence = np.zeros((batch, self.voice.channels, left + size + right), np.float32)
        took: list[float] = []
        for _ in range(tries):
            began = time.perf_counter()
            self.run(silence, left, right)
            took.append(time.perf_counter() - began)
        return min(took)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A window of a stream, to be decoded."""

    stream: DecodeStream
    window: Window
    frames: NDArray[np.float32]
    """``(channels, window.stop)``."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Frames of context, decoded, and of context again."""
        return self.window.left, self.window.frames, self.window.right

    def finish(self, samples: Samples) -> bytes:
        """The audio of its stream, now that these are its samples; piece by piece, in order."""
        return self.stream.finish(self.window, samples)


class DecodeStream:
    """The state of one stream: frames not yet decoded, and audio not yet certain.

    What may be the end of the reply, the last :data:`FADE_MS` of every clause, is held back
    until more comes, or the end, at which it fades.
    """

    def __init__(self, decoder: Decoder) -> None:
        """Begin without frames."""
        self._voice = decoder.voice
        self._windows = Windows(self._voice.context_frames)
        self._frames = np.empty((self._voice.channels, 0), np.float32)
        self._received = 0
        self._fade = round(FADE_MS * self._voice.sample_rate / 1000)
        self._tail = np.empty(0, np.float32)
        self._resampler = FloatStreamResampler(self._voice.sample_rate, OUTPUT_RATE)

    @property
    def windows(self) -> Windows:
        """Which frames can be decoded."""
        return self._windows

    @property
    def received_ms(self) -> float:
        """Audio of all frames taken in."""
        return self._received * self._voice.frame_ms

    def add(self, latents: Latents) -> tuple[Word, ...]:
        """Take frames in; return their words with times from the start of the stream."""
        ahead_ms = self.received_ms
        self._received += latents.frames.shape[1]
        self._windows.add(latents.frames.shape[1], last=latents.last)
        self._frames = np.concatenate([self._frames, latents.frames], axis=1)
        return tuple(
            Word(word.text, word.start_ms + ahead_ms, word.end_ms + ahead_ms)
            for word in latents.words
        )

    def end(self) -> None:
        """No more frames come: the last clause ends, if that was not said. Idempotent."""
        self._windows.add(0, last=True)

    def take(self, size: int) -> Piece:
        """The next ``size`` frames, of which there must be enough, with their context."""
        window = self._windows.take(size)
        frames, self._frames = self._frames[:, : window.stop], self._frames[:, window.keep :]
        return Piece(self, window, frames)

    def finish(self, window: Window, samples: Samples) -> bytes:
        """The s16le audio of a decoded window at the output rate, as far as it is certain."""
        made = np.concatenate([self._tail, samples]) if len(self._tail) else samples
        # Without context a clause can be decoded to its end before it is known to end.
        certain = len(made)
        if window.last or not self._voice.context_frames:
            certain = max(0, certain - self._fade)
        self._tail = made[certain:]
        return from_float(self._resampler.feed(made[:certain]))

    def flush(self) -> bytes:
        """The end of the audio, which was held back."""
        faded = np.asarray(self._tail * rise(len(self._tail))[::-1], np.float32)
        self._tail = self._tail[:0]
        return from_float(np.concatenate([self._resampler.feed(faded), self._resampler.flush()]))
