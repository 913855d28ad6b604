"""The first half of a voice: text to a draft of its speech, and that to latents.

The rhythm of a clause, and with it the times of its words, is made as a whole. Its latents
are made a window at a time, so that the first can be decoded before the last are there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..chunks import Latents, Word
from .contexts import require_context
from .graph import Graph
from .phonemes import PhonemeSequence, Phonemizer
from .seams import Seam, tail_ms
from .voice import FLOW_FILE, FRONT_FILE, Voice, load_voice
from .word_times import word_times


class Draft:
    """A clause of which the words' times are known and the latents are still to be made."""

    def __init__(
        self,
        flow: Callable[[NDArray[np.float32]], NDArray[np.float32]],
        prior: NDArray[np.float32],
        picks: NDArray[np.int64],
        words: tuple[Word, ...],
        context: int,
    ) -> None:
        """``flow`` makes latents of a stretch of ``prior``, ``(channels, n)``.

        ``picks``: which frames of it the clause has, ascending; ``context``: how far each
        of them reaches into its neighbours.
        """
        self._flow = flow
        self._prior = prior
        self._picks = picks
        self._words = words
        self._context = context

    @property
    def left(self) -> int:
        """Frames not made yet."""
        return len(self._picks)

    def next(self, size: int) -> Latents:
        """Make the next frames, at most ``size``; the words come with the first of them."""
        picks, self._picks = self._picks[:size], self._picks[size:]
        words, self._words = self._words, ()
        if not len(picks):
            return Latents(self._prior[:, :0], words)
        begin = max(0, int(picks[0]) - self._context)
        made = self._flow(self._prior[:, begin : int(picks[-1]) + 1 + self._context])
        return Latents(made[:, picks - begin], words, last=not self.left)


class Speaker:
    """A loaded voice's first half. For use in one thread."""

    def __init__(self, folder: Path, threads: int, variation: float = 1.0) -> None:
        """Load from the model's folder; takes about half a second.

        ``variation``: of rhythm and sound from one time to the next, 1 the voice's own.

        Raises:
            StageFailure: a package is missing or the folder can't be used.
        """
        self.voice: Voice = load_voice(folder)
        self._phonemizer = Phonemizer(self.voice.language, self.voice.phoneme_id_map)
        self._front = Graph(folder / FRONT_FILE, threads)
        self._flow_graph = Graph(folder / FLOW_FILE, threads)
        self._variation = variation
        context = self.voice.flow_context_frames
        require_context("flow_context_frames", self._flow, self.voice.channels, context)

    def draft(self, text: str, speed: float) -> Draft | None:
        """Begin a clause, or ``None`` if nothing in it can be pronounced.

        Silence at the ends is brought to the length that the punctuation asks for.
        """
        sequence = self._phonemizer.ids(text)
        if sequence is None:
            return None
        prior, bounds = self._run_front(sequence, speed)
        seam = Seam(
            first_sound=bounds[sequence.groups[0][0]],
            # The pad after the last sound is silence already.
            last_sound=bounds[sequence.groups[-1][1] - 1],
            tail=round(tail_ms(text) / speed / self.voice.frame_ms),
        )
        picks = seam.picks(prior.shape[1])
        words = self._words(text, sequence, bounds, seam.cut, len(picks))
        return Draft(self._flow, prior, picks, words, self.voice.flow_context_frames)

    def speak(self, text: str, speed: float) -> Latents | None:
        """All latents of a clause at once, or ``None``."""
        draft = self.draft(text, speed)
        return draft.next(draft.left) if draft else None

    def _run_front(
        self, sequence: PhonemeSequence, speed: float
    ) -> tuple[NDArray[np.float32], list[int]]:
        """The prior ``(channels, n)``, and where each phoneme id begins, and the last ends."""
        voice = self.voice
        noise, rhythm = voice.noise_scale * self._variation, voice.noise_w * self._variation
        scales = [noise, voice.length_scale / speed, rhythm]
        inputs: dict[str, NDArray[Any]] = {
            "input": np.array([sequence.ids], np.int64),
            "input_lengths": np.array([len(sequence.ids)], np.int64),
            "scales": np.array(scales, np.float32),
        }
        prior, durations = self._front.run(inputs, [voice.prior, voice.durations])
        return prior[0], [0, *np.cumsum(durations.ravel(), dtype=np.int64).tolist()]

    def _flow(self, prior: NDArray[np.float32]) -> NDArray[np.float32]:
        inputs = {
            self.voice.prior: prior[np.newaxis],
            self.voice.mask: np.ones((1, 1, prior.shape[1]), np.float32),
        }
        (made,) = self._flow_graph.run(inputs, [self.voice.latents])
        latents: NDArray[np.float32] = made[0]
        return latents

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
