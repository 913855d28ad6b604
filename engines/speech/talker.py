"""The talker stage: clauses to latents, with the times of their words."""

from __future__ import annotations

import textwrap
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..catalog import require
from ..chunks import Clause, End, Latents, StageError, Word
from ..deployment import TalkerConfig
from ..flow import Flow
from ..stage import StageFailure, StageStream
from ..streams import Inbox
from .graph import Graph
from .phonemes import PhonemeSequence, Phonemizer
from .seams import Seam, tail_ms
from .voice import TALKER_FILE, Voice, load_voice
from .word_times import word_times
from .worker import Worker

CLAUSE_CHARS = 240
"""A longer clause is spoken in parts: about 16 s of speech."""

SPEEDS = (0.25, 4.0)
"""The slowest and the fastest rate of speech."""

INPUT_BOUND = 8
"""Clauses a stream holds before ``send`` waits."""

WARM_UP = ("Certainly.", "The sky is blue because", "In the evening the light takes a longer way.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkRequest:
    """Ask for speech of the clauses that follow."""

    request_id: str
    voice: str | None = None
    """One of :attr:`TalkerStage.voices`; ``None`` for the first."""

    speed: float = 1.0
    """Rate of speech, 1 is the voice's own."""

    flow: Flow | None = field(default=None, compare=False)
    """Paces the speech; ``None`` for as fast as it goes."""

    def __post_init__(self) -> None:
        """Refuse a speed that no voice has."""
        if not SPEEDS[0] <= self.speed <= SPEEDS[1]:
            raise ValueError(f"expected a speed from {SPEEDS[0]} to {SPEEDS[1]}, got {self.speed}")


class TalkerStage:
    """Speaks clauses with one voice, one at a time over all streams, in a thread of its own."""

    def __init__(
        self,
        config: TalkerConfig,
        cache_root: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is loaded before :meth:`start`."""
        self._config = config
        self._cache_root = cache_root
        self._worker = Worker("talker", clock=clock)
        self._speaker: Speaker | None = None
        self._clauses = 0
        self._seconds = 0.0

    @property
    def voices(self) -> tuple[str, ...]:
        """Names of the voices, the default one first; none before :meth:`start`."""
        return (self._speaker.voice.name,) if self._speaker else ()

    async def start(self) -> None:
        """Load and warm up.

        Raises:
            StageFailure: the model or a package is missing; the message says what to run.
        """
        self._speaker = await self._worker.start(self._load)

    def open(self, request: TalkRequest) -> StageStream[Clause, Latents]:
        """Begin the speech of one reply. A clause without any word gives nothing.

        Raises:
            StageClosed: the stage is not running.
            StageFailure: there is no such voice.
        """
        if request.voice is not None and self._speaker and request.voice not in self.voices:
            known = ", ".join(self.voices)
            raise StageFailure(StageError("voice_unknown", f"expected a voice out of {known}"))

        async def work(inbox: Inbox[Clause]) -> AsyncGenerator[Latents | End, None]:
            async for clause in inbox:
                for part in parts(clause.text):
                    latents = await self._worker.run(self._speak, part, request.speed)
                    if latents is not None:
                        yield latents

        return self._worker.open(f"talker {request.request_id}", work, input_bound=INPUT_BOUND)

    async def warm(self) -> None:
        """Make the next clause as quick as if another had just been spoken."""
        if (speaker := self._speaker) is not None:
            await self._worker.warm(lambda: speaker.speak(WARM_UP[0], 1.0))

    async def close(self) -> None:
        """End every stream with an error and free the model. Idempotent."""
        await self._worker.close()
        self._speaker = None

    def statistics(self) -> dict[str, float]:
        """Counters since the start, and what runs or waits now."""
        made = {"clauses": float(self._clauses), "audio_seconds": self._seconds}
        return self._worker.statistics() | made

    def _load(self) -> Speaker:
        _, folder = require(self._config.model, self._cache_root)
        speaker = Speaker(folder, self._config.threads, self._config.variation)
        for text in WARM_UP:
            speaker.speak(text, 1.0)
        return speaker

    def _speak(self, text: str, speed: float) -> Latents | None:
        speaker = self._speaker
        latents = speaker.speak(text, speed) if speaker else None
        if speaker and latents:
            self._clauses += 1
            self._seconds += latents.frames.shape[1] * speaker.voice.frame_ms / 1000
        return latents


class Speaker:
    """A loaded voice's first half: text to latents. For use in one thread."""

    def __init__(self, folder: Path, threads: int, variation: float = 1.0) -> None:
        """Load from the model's folder; takes about half a second.

        ``variation``: of rhythm and sound from one time to the next, 1 the voice's own.

        Raises:
            StageFailure: a package is missing or the folder can't be used.
        """
        self.voice: Voice = load_voice(folder)
        self._phonemizer = Phonemizer(self.voice.language, self.voice.phoneme_id_map)
        self._graph = Graph(folder / TALKER_FILE, threads)
        self._variation = variation

    def speak(self, text: str, speed: float) -> Latents | None:
        """The latents of a clause, or ``None`` if nothing in it can be pronounced.

        Silence at the ends is brought to the length that the punctuation asks for.
        """
        sequence = self._phonemizer.ids(text)
        if sequence is None:
            return None
        frames, bounds = self._run(sequence, speed)
        seam = Seam(
            first_sound=bounds[sequence.groups[0][0]],
            # The pad after the last sound is silence already.
            last_sound=bounds[sequence.groups[-1][1] - 1],
            tail=round(tail_ms(text) / speed / self.voice.frame_ms),
        )
        shaped = seam.apply(frames)
        words = self._words(text, sequence, bounds, seam.cut, shaped.shape[1])
        return Latents(shaped, words)

    def _run(
        self, sequence: PhonemeSequence, speed: float
    ) -> tuple[NDArray[np.float32], list[int]]:
        """Frames ``(channels, n)``, and where each phoneme id begins, and the last ends."""
        voice = self.voice
        noise, rhythm = voice.noise_scale * self._variation, voice.noise_w * self._variation
        scales = [noise, voice.length_scale / speed, rhythm]
        inputs: dict[str, NDArray[Any]] = {
            "input": np.array([sequence.ids], np.int64),
            "input_lengths": np.array([len(sequence.ids)], np.int64),
            "scales": np.array(scales, np.float32),
        }
        latents, durations = self._graph.run(inputs, [voice.latents, voice.durations])
        return latents[0], [0, *np.cumsum(durations.ravel(), dtype=np.int64).tolist()]

    def _words(
        self, text: str, sequence: PhonemeSequence, bounds: list[int], cut: int, frames: int
    ) -> tuple[Word, ...]:
        def at(index: int) -> float:
            return min(max(bounds[index] - cut, 0), frames) * self.voice.frame_ms

        words = text.split()
        return word_times(
            words,
            [self._phonemizer.sounds(word) for word in words],
            [(at(start), at(stop)) for start, stop in sequence.groups],
            [(stop - start) // 2 for start, stop in sequence.groups],
        )


def parts(text: str) -> list[str]:
    """A clause in parts of bounded length; nearly always the clause itself."""
    if len(text) <= CLAUSE_CHARS:
        return [text]
    return textwrap.wrap(text, CLAUSE_CHARS, break_on_hyphens=False, replace_whitespace=False)
