"""Kokoro's voices, in Japanese: a StyleTTS 2 graph, cut where it knows its rhythm.

The *front* turns phonemes into durations, hence the times of words, and what the *back*
turns into samples. The back weighs all of what it reads by its mean and deviation over time,
so a part of it alone sounds different: it makes a whole part of a clause at once, from a pause
to the next, when the first frame of that is asked for. Frames are samples; the decoder hands
them on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...chunks import Latents, Samples, StageError, Word
from ...stage import StageFailure
from ..clauses import Pause
from ..graph import Graph
from ..joins import rise
from .family import VoiceModel, read_model
from .japanese import Pronouncer
from .phrasing import Phrase, phrases
from .seams import LEAD_FRAMES, Seam, pause_at_end
from .tempo import paced

NEEDS: Mapping[str, str] = {
    "pyopenjtalk": "antiphon[japanese]",
    "onnxruntime": "antiphon[speech]",
}

FRONT_FILE = "front.onnx"
BACK_FILE = "back.onnx"
STYLES_FILE = "styles.npz"
WORDS_FILE = "words.txt"

SLOWEST, FASTEST = 0.8, 1.25
"""Speeds of the front. Slower it says syllables twice, and faster most sounds become as short as
they can be, a frame; at 2 a recognizer loses every second kana. What is beyond is made at one of
these, and shortened or lengthened."""

TAIL_MS = {Pause.NONE: 0.0, Pause.COMMA: 125.0, Pause.UNSURE: 300.0, Pause.SENTENCE: 300.0}
"""Silence after the last sound; 25 ms of what follows are silent too. Left alone, the voice
keeps silent for 600 ms at the end, whatever follows, and hardly at a comma in the middle."""

LATE_FRAMES = 1
"""How much later than its sound each symbol is said to be."""

SOUNDING = 0.0
"""Energy from which on a frame is louder than -55 dBFS."""

FADE_MS = 5.0
"""At both ends of a part, which may have been cut in mid-sound."""


class KokoroModel(VoiceModel, frozen=True, kw_only=True):
    """What the talker must know beside the graphs."""

    symbols: dict[str, int]
    """Number of each phoneme and mark."""

    durations: str
    """Name of the front's output with the frames of each number."""

    energy: str
    """Name of its output with two values a frame."""

    handed_on: tuple[str, ...]
    """Names of all its outputs that the back reads beside the style; the energy is one."""


def load_talker(folder: Path, threads: int, variation: float) -> KokoroTalker:
    """Load the first half; takes about a second.

    ``variation`` has no meaning: these voices say the same in the same way each time.

    Raises:
        StageFailure: a package is missing or the folder can't be used.
    """
    del variation
    return KokoroTalker(folder, threads)


def load_decoder(folder: Path, threads: int) -> KokoroDecoder:
    """Load the second half, which has nothing to compute.

    Raises:
        StageFailure: the folder can't be used.
    """
    del threads
    return KokoroDecoder(folder)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A stretch of a clause that is made at once."""

    frames: int
    make: Callable[[], NDArray[np.float32]]
    """Makes them, ``(hop, frames)``."""


class KokoroDraft:
    """A clause of which the words' times are known and the sound is still to be made."""

    def __init__(self, parts: Sequence[Part], words: tuple[Word, ...]) -> None:
        """``parts``: at least one; each is made when the one before has been taken."""
        self._parts = deque(parts)
        self._words = words
        self._made: NDArray[np.float32] | None = None
        self._left = sum(part.frames for part in parts)

    @property
    def left(self) -> int:
        """Frames not made yet."""
        return self._left

    def next(self, size: int) -> Latents:
        """Take the next frames, at most ``size``; the words come with the first of them."""
        words, self._words = self._words, ()
        if self._made is None or not self._made.shape[1]:
            self._made = self._parts.popleft().make()
        frames, self._made = self._made[:, :size], self._made[:, size:]
        self._left -= frames.shape[1]
        return Latents(frames, words, last=not self._left)


@dataclass(frozen=True, slots=True, eq=False)
class _Begun:
    """A phrase of which the rhythm is known."""

    handed_on: dict[str, NDArray[np.float32]]
    style: NDArray[np.float32]
    bounds: list[int]
    """Where each symbol begins, and the last ends; frames as the front makes them."""

    picks: NDArray[np.int64]
    """Which of them are kept, ascending."""

    seam: Seam


class _Clock:
    """When each word of a clause sounds, from phrase to phrase."""

    def __init__(self, frame_ms: float) -> None:
        self._frame_ms = frame_ms
        self._spans: dict[int, tuple[float, float]] = {}
        self._frames = 0
        """Of the phrases so far."""

    def note(self, phrase: Phrase, begun: _Begun, frames: int) -> None:
        """Take in one that has so many frames in the end."""
        seam, each_ms = begun.seam, self._frame_ms * frames / len(begun.picks)

        def at(bound: int) -> float:
            within = min(max(bound, seam.cut), seam.last_sound) - seam.cut
            return self._frames * self._frame_ms + within * each_ms

        heard = False
        for each, begins, ends in zip(phrase.symbols, begun.bounds, begun.bounds[1:], strict=False):
            if each.is_sound:
                # The first sets in within the time of the silence ahead of it.
                begin = at(begins) if heard else at(seam.cut + 1)
                start = self._spans.get(each.word, (begin, begin))[0]
                self._spans[each.word] = (start, at(ends))
                heard = True
        self._frames += frames

    def words(self, written: Sequence[str]) -> tuple[Word, ...]:
        """Those of the clause; one that has no sound takes no time after that before it."""
        made: list[Word] = []
        now = 0.0
        for number, text in enumerate(written):
            start, end = self._spans.get(number, (now, now))
            made.append(Word(text, start, end))
            now = end
        return tuple(made)


class KokoroTalker:
    """The loaded first half of a model. For use in one thread."""

    def __init__(self, folder: Path, threads: int) -> None:
        """Load from the model's folder."""
        self._model: KokoroModel = read_model(folder, KokoroModel)
        self._styles, entries = _read_tables(folder, self._model.voices)
        self._pronouncer = Pronouncer(entries)
        self._front = Graph(folder / FRONT_FILE, threads)
        self._back = Graph(folder / BACK_FILE, threads)

    @property
    def model(self) -> KokoroModel:
        """What it was loaded from."""
        return self._model

    def draft(self, text: str, speed: float, voice: str) -> KokoroDraft | None:
        """Begin a clause, or ``None`` if nothing in it can be pronounced.

        Silence at the ends has the length that the punctuation asks for.
        """
        spoken = self._pronouncer.read(text)
        if spoken is None:
            return None
        known = [each for each in spoken.symbols if each.char in self._model.symbols]
        own = min(max(speed, SLOWEST), FASTEST)
        pace = speed / own
        parts: list[Part] = []
        clock = _Clock(self._model.frame_ms)
        for phrase in phrases(known, pause_at_end(text)):
            begun = self._begin(phrase, own, voice)
            parts.append(self._part(begun, pace))
            clock.note(phrase, begun, parts[-1].frames)
        return KokoroDraft(parts, clock.words(spoken.words)) if parts else None

    def _begin(self, phrase: Phrase, speed: float, voice: str) -> _Begun:
        numbers = [self._model.symbols[each.char] for each in phrase.symbols]
        styles = self._styles[voice]
        style = styles[min(len(numbers), len(styles)) - 1].reshape(1, -1)
        inputs: dict[str, NDArray[Any]] = {
            "tokens": np.array([[0, *numbers, 0]], np.int64),
            "style": style,
            "speed": np.array([speed], np.float32),
        }
        names = self._model.handed_on
        durations, *handed_on = self._front.run(inputs, [self._model.durations, *names])
        begun = dict(zip(names, handed_on, strict=True))
        ends = np.cumsum(durations.ravel(), dtype=np.int64) - LATE_FRAMES
        bounds: list[int] = ends.tolist()
        loud = begun[self._model.energy].reshape(-1, 2).max(axis=1) > SOUNDING
        # The last sound has the silence behind it within its time, so the energy tells more.
        sounding: list[int] = np.flatnonzero(loud).tolist() or [bounds[0], bounds[-2]]
        seam = Seam(
            first_sound=sounding[0] + LEAD_FRAMES - 1,
            last_sound=sounding[-1] + 1,
            tail=round(TAIL_MS[phrase.pause] / speed / self._model.frame_ms),
        )
        return _Begun(begun, style, bounds, seam.picks(len(loud)), seam)

    def _part(self, begun: _Begun, pace: float) -> Part:
        model = self._model
        frames = max(1, round(len(begun.picks) / pace))

        def make() -> NDArray[np.float32]:
            (audio,) = self._back.run(begun.handed_on | {"style": begun.style}, ["audio"])
            kept = audio.reshape(-1, model.hop)[begun.picks].ravel()
            made = paced(kept, len(begun.picks) / frames, model.sample_rate)
            return _faded(made, model.sample_rate).reshape(frames, model.hop).T

        return Part(frames, make)


class KokoroDecoder:
    """Hands the samples on."""

    def __init__(self, folder: Path) -> None:
        """Read the description in the model's folder."""
        self._model: KokoroModel = read_model(folder, KokoroModel)

    @property
    def model(self) -> KokoroModel:
        """What it was loaded from."""
        return self._model

    def run(
        self, frames: NDArray[np.float32], left: int = 0, right: int = 0
    ) -> NDArray[np.float32]:
        """Samples of frames ``(batch, hop, n)`` but for so many at both ends."""
        wanted = frames[:, :, left : frames.shape[2] - right]
        return np.ascontiguousarray(wanted.transpose(0, 2, 1)).reshape(len(frames), -1)


def _faded(samples: Samples, rate: int) -> Samples:
    length = min(round(FADE_MS * rate / 1000), len(samples) // 2)
    samples = samples.copy()
    samples[:length] *= rise(length)
    samples[len(samples) - length :] *= rise(length)[::-1]
    return samples


def _read_tables(
    folder: Path, voices: Sequence[str]
) -> tuple[dict[str, NDArray[np.float32]], frozenset[str]]:
    """The styles of each voice, by the number of symbols, and the words that stand together.

    Raises:
        StageFailure: they are not there.
    """
    try:
        with np.load(folder / STYLES_FILE, allow_pickle=False) as styles:
            found = {name: np.asarray(styles[name], np.float32) for name in voices}
        entries = (folder / WORDS_FILE).read_text(encoding="utf-8").split()
    except (OSError, KeyError, ValueError):
        hint = "the model's folder does not hold a voice: fetch it again"
        raise StageFailure(StageError("model_unusable", hint)) from None
    return found, frozenset(entries)
