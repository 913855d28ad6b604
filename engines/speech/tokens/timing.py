"""When words sound, guessed from the text, for models that don't say it themselves.

Every character of a text is taken to last equally long, and pauses after punctuation like a few
more. How long that is is learned of each voice. The guesses are told while the speech is made,
each ahead of the sound that it is about, and what is not told by the end of an utterance, whose
length is known then, is fitted into what is left of it. So a guess may be half a second off.
"""

from __future__ import annotations

from collections import OrderedDict

from ...chunks import Word

COMMA_CHARS, SENTENCE_CHARS = 3, 7
"""A pause lasts like so many characters."""

PAUSES = dict.fromkeys(",;:–—、，；：", COMMA_CHARS) | dict.fromkeys(".!?…。！？", SENTENCE_CHARS)

CLOSERS = "\"'”’»)]}」』）】"
"""May follow punctuation."""

WIDE = 0x2E80
"""Characters from here on are mostly syllables or words of their own."""

WIDE_CHARS = 3
"""And last like so many letters: five syllables a second against fourteen letters."""

KEPT = 64
"""Voices whose pace is kept; beyond that the one that was longest not heard is forgotten."""

SHARE = 0.25
"""Of the last utterance in what is learned."""

BOUND = 3.0
"""An utterance that is so many times faster or slower than expected teaches nothing: the model
left something out, or said something else."""


class Paces:
    """How long a character of each voice lasts, ms."""

    def __init__(self, chars_per_second: float) -> None:
        """``chars_per_second``: of a voice that was not heard yet."""
        self._unknown = 1000 / chars_per_second
        self._known: OrderedDict[str, float] = OrderedDict()

    def of(self, voice: str) -> float:
        """What is known of a voice."""
        return self._known.get(voice, self._unknown)

    def learn(self, voice: str, chars: float, ms: float) -> None:
        """Note that so many characters, as :func:`weight` counts them, took so long."""
        if chars <= 0 or ms <= 0:
            return
        known, now = self.of(voice), ms / chars
        if not known / BOUND <= now <= known * BOUND:
            return
        self._known[voice] = known + SHARE * (now - known) if voice in self._known else now
        self._known.move_to_end(voice)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)


class WordGuess:
    """The words of one utterance, each told once."""

    def __init__(self, text: str, char_ms: float) -> None:
        """``char_ms``: as :meth:`Paces.of` says."""
        self._words: list[Word] = []
        at = 0.0
        for word in text.split():
            sounds, pause = _sounds(word), _pause(word)
            self._words.append(Word(word, at * char_ms, (at + sounds) * char_ms))
            at += sounds + pause
        self._told = 0
        self.chars = at
        """As :func:`weight` counts them."""

        self._end_ms = at * char_ms

    def until(self, ms: float) -> list[Word]:
        """The words that begin before ``ms`` and were not told yet."""
        told = self._told
        while self._told < len(self._words) and self._words[self._told].start_ms < ms:
            self._told += 1
        return self._words[told : self._told]

    def end(self, ms: float) -> list[Word]:
        """The others, now that the utterance is known to have ended at ``ms``."""
        left, self._told = self._words[self._told :], len(self._words)
        if not left:
            return []
        before = self._words[-len(left) - 1].end_ms if len(left) < len(self._words) else 0.0
        begin = min(left[0].start_ms, ms)
        if begin >= ms:
            # They were spoken sooner than was thought: there is at least some room.
            begin = min(before, ms)
        length = self._end_ms - left[0].start_ms
        scale = (ms - begin) / length if length > 0 else 0.0
        first = left[0].start_ms
        return [
            Word(
                each.text,
                begin + (each.start_ms - first) * scale,
                begin + (each.end_ms - first) * scale,
            )
            for each in left
        ]


def weight(text: str) -> float:
    """How many characters a text lasts like, pauses included."""
    return sum(_sounds(word) + _pause(word) for word in text.split())


def letters(text: str) -> int:
    """How many letters of an alphabet a text lasts like, spaces counted, pauses not."""
    return sum(WIDE_CHARS if ord(each) >= WIDE else 1 for each in text)


def _sounds(word: str) -> float:
    return 1 + letters(word)


def _pause(word: str) -> float:
    return PAUSES.get(word.rstrip(CLOSERS)[-1:], 0)
