"""The tokens of one utterance as they come, to latents of codes with the times of words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...chunks import Latents, Word
from ..decoders.decoder import Codes
from ..families.family import Reader
from .splitter import Splitter
from .timing import WordGuess


class Saying:
    """Reads one utterance. Words come with the frames in which they begin, or before."""

    def __init__(
        self,
        reader: Reader,
        guess: WordGuess,
        *,
        step_ms: float,
        clauses: int = 1,
        lead: Codes | None = None,
    ) -> None:
        """``guess``: the words, for a model that writes none. ``lead``: as of the prompt."""
        self._splitter = Splitter(reader.layout)
        self._markup = reader.markup()
        self._guess = guess
        self._codebooks = reader.layout.codebooks
        self._step_ms = step_ms
        self._clauses = clauses
        self._lead = lead
        self._words: list[Word] = []

    @property
    def ms(self) -> float:
        """Audio of what was read."""
        return self._splitter.steps * self._step_ms

    @property
    def dropped(self) -> int:
        """Tokens of codes of which nothing could be made."""
        return self._splitter.dropped

    def feed(self, tokens: Sequence[int]) -> Latents | None:
        """Read on; what became certain, if anything did."""
        codes: list[Codes] = []
        for split in self._splitter.feed(tokens):
            if split.markup and self._markup is not None:
                self._words += self._markup.feed(split.markup, split.step)
            if split.codes.shape[1]:
                codes.append(split.codes)
        if not codes:
            return None
        return self._latents(np.concatenate(codes, axis=1), last=False)

    def end(self, *, cut: bool) -> Latents:
        """The end of the utterance, without any frames.

        ``cut``: the model was stopped, so words that were not told may not have been said.
        """
        self._splitter.end()
        if self._markup is None and not cut:
            self._words += self._guess.end(self.ms)
        return self._latents(np.empty((self._codebooks, 0), np.int32), last=True)

    def _latents(self, codes: Codes, *, last: bool) -> Latents:
        if self._markup is None and not last:
            self._words += self._guess.until(self.ms)
        begin_ms = self.ms - codes.shape[1] * self._step_ms
        words, self._words = self._words, []
        lead, self._lead = self._lead, None
        return Latents(
            codes,
            tuple(Word(w.text, w.start_ms - begin_ms, w.end_ms - begin_ms) for w in words),
            last=last,
            clauses=self._clauses,
            lead=lead,
        )
