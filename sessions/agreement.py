"""Words of speech that goes on, told once two looks at it agree on them.

The rule is LocalAgreement-2 of Macháček, Dabre and Bojar, "Turning Whisper into Real-Time
Transcription System" (IJCNLP-AACL 2023): of two hypotheses in a row, the longest common
beginning is taken for certain. What was told is never taken back.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

_DENSE = (
    # Scripts without spaces, in which each character counts as a word:
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Japanese, Chinese
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
)
_CHUNK = re.compile(f"[{_DENSE}]|[^\\s{_DENSE}]+")

TAIL_WORDS = 3
"""So many of the last words told are looked for where a hypothesis has changed its mind."""

SHIFT_WORDS = 2
"""So far from its old place they may be found."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text, by what it is compared as, and where it is."""

    key: str
    start: int
    end: int
    """Behind its last letter; punctuation that follows is not part of it."""


def words(text: str) -> list[Word]:
    """Return the words of a text, to be compared without case and punctuation."""
    found: list[Word] = []
    for chunk in _CHUNK.finditer(text):
        raw = chunk.group()
        letters = [i for i, char in enumerate(raw) if not _is_mark(char)]
        if letters:
            key = "".join(raw[i] for i in letters).casefold()
            start = chunk.start()
            found.append(Word(key, start + letters[0], start + letters[-1] + 1))
    return found


def _is_mark(char: str) -> bool:
    """Whether a character is punctuation or a symbol."""
    return unicodedata.category(char)[0] in "PS"


class Agreement:
    """The hypotheses of one turn, each from its first word, and what was told of them."""

    def __init__(self) -> None:
        self._told: list[str] = []
        """Keys of the words told."""

        self._before = ""
        """The hypothesis before."""

    def hear(self, text: str) -> str:
        """Take in the next hypothesis; return what is to be told now, perhaps nothing.

        Texts returned concatenate, and never end in punctuation: it may still change.
        """
        text = text.strip()
        before, self._before = self._before, text
        old, new = words(before), words(text)
        old_at, new_at = self._place(old), self._place(new)
        if old_at is None or new_at is None:
            return ""
        agreed = new_at
        for one, other in zip(old[old_at:], new[new_at:], strict=False):
            if one.key != other.key:
                break
            agreed += 1
        if agreed == new_at:
            return ""
        self._told += [word.key for word in new[new_at:agreed]]
        return text[self._cut(new, new_at) : new[agreed - 1].end]

    def finish(self, text: str) -> str:
        """Return what of the final text was not told; nothing if it does not go on from it."""
        text = text.strip()
        final = words(text)
        place = self._place(final)
        if place is None:
            return ""
        self._told += [word.key for word in final[place:]]
        return text[self._cut(final, place) :] if self._told else ""

    @property
    def silent(self) -> bool:
        """Whether nothing was told yet."""
        return not self._told

    def _cut(self, those: list[Word], place: int) -> int:
        """Return where in its text a hypothesis goes on; the first words have no space."""
        return those[place - 1].end if place else 0

    def _place(self, those: list[Word]) -> int | None:
        """Return how many words of a hypothesis were told, if it can be said."""
        keys = [word.key for word in those]
        count = len(self._told)
        if keys[:count] == self._told:
            return count
        for size in range(min(TAIL_WORDS, count), 0, -1):
            tail = self._told[-size:]
            # One word alone is too little to be sure anywhere but in its old place.
            shifts = sorted(range(-SHIFT_WORDS, SHIFT_WORDS + 1), key=abs) if size > 1 else [0]
            for place in (count + shift for shift in shifts):
                if size <= place <= len(keys) and keys[place - size : place] == tail:
                    return place
        return None
