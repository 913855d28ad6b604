"""Text as it arrives, cut into words with their places, and what a rule may see of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from .marks import clean

LONGEST = 200
"""Characters of one token; a longer run without a space is cut there."""

REMEMBERED = 3
"""Words before the one that is read which a rule may look at."""

_LEADS = "\"'“‘«([{¿¡"
_TAILS = ".,;:!?…\"'”’»)]}"
_ALONE = "—―"
"""A token by itself: what stands on its two sides is not one word."""

_UNSPACED = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3000, 0x30FF),
    (0x3400, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF01, 0xFF0F),
    (0xFF1A, 0xFF1F),
    (0x20000, 0x3FFFF),
)
"""Scripts without spaces, where waiting for the end of a word would be endless."""


@dataclass(slots=True)
class Token:
    """A run of characters without white space, or a character that is a word by itself."""

    text: str
    start: int
    """Characters of the text before it."""

    glued: bool
    """There is no white space before it."""

    opens: bool
    """It is the first of its line."""

    after: str = ""
    """White space behind it: at most a space and two line breaks."""


@dataclass(frozen=True, slots=True)
class Word:
    """A token's text without and with the punctuation around it."""

    lead: str
    core: str
    tail: str
    starts: bool = False
    """It begins a sentence, or a line."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a rule makes of a word's core, and of whole words that follow it."""

    text: str
    used: int = 0
    """Words read together with this one."""

    tail: str | None = None
    """Punctuation in place of what the last of them ends in."""


class Wait(Exception):
    """The next word is needed, and has not come yet."""


def split(text: str, starts: bool = False) -> Word:
    """A word and its punctuation."""
    bare = text.lstrip(_LEADS)
    core = bare.rstrip(_TAILS)
    return Word(text[: len(text) - len(bare)], core, bare[len(core) :], starts)


def add_space(state: str, char: str) -> str:
    """White space after one more character of it: a space, one or two line breaks."""
    if char == "\n":
        return state + "\n" if state.count("\n") < 2 else state
    return state or " "


class Place:
    """Where a word is: what came before it, and what follows in its line."""

    def __init__(
        self, word: Word, before: Sequence[Word], queue: Sequence[Token], ended: bool
    ) -> None:
        """``queue``: the word's own token and the complete ones after it.

        ``ended``: no more will come.
        """
        self.word = word
        self._before = before
        self._queue = queue
        self._ended = ended

    def before(self, back: int = 1) -> Word | None:
        """The word so many places back in the same line, if there is one."""
        return self._before[-back] if back <= len(self._before) else None

    def peek(self, ahead: int = 1) -> Word | None:
        """The word so many places ahead in the same line, if there is one.

        Raises:
            Wait: it is not complete yet.
        """
        for index in range(ahead):
            if "\n" in self._queue[index].after:
                return None
            if index + 1 >= len(self._queue):
                if self._ended:
                    return None
                raise Wait
            if self._queue[index + 1].glued:
                return None
        return split(clean(self._queue[ahead].text))

    def next(self, ahead: int = 1) -> Word | None:
        """The same, if there is no punctuation between here and there.

        Raises:
            Wait: it is not complete yet.
        """
        if self.word.tail:
            return None
        for index in range(1, ahead):
            between = self.peek(index)
            if between is None or between.lead or between.tail:
                return None
        word = self.peek(ahead)
        return None if word is None or word.lead else word


NOWHERE = Place(Word("", "", ""), (), (Token("", 0, False, False),), True)
"""For part of a word: nothing before it, nothing after it."""


class Tokens:
    """The tokens of a text that comes in any pieces."""

    def __init__(self) -> None:
        self.queue: deque[Token] = deque()
        """Complete tokens that have not been read."""

        self._run: list[str] = []
        self._at = 0
        self._glued = False
        self._opens = True

    def space(self, char: str) -> bool:
        """End the token that grows; return whether the white space belongs to one in the queue."""
        self._end()
        self._at += 1
        self._glued = False
        self._opens = self._opens or char == "\n"
        if not self.queue:
            return False
        self.queue[-1].after = add_space(self.queue[-1].after, char)
        return True

    def add(self, char: str) -> None:
        """Take a character that is not white space."""
        if char in _ALONE or (char >= "\u0e00" and _is_unspaced(char)):
            self._end()
            self._at += 1
            self._run.append(char)
            self._end()
            return
        self._at += 1
        self._run.append(char)
        if len(self._run) >= LONGEST:
            self._end()

    def end(self) -> None:
        """The text is over."""
        self._end()

    def _end(self) -> None:
        if not self._run:
            return
        text = "".join(self._run)
        self.queue.append(Token(text, self._at - len(text), self._glued, self._opens))
        self._run.clear()
        self._glued = True
        self._opens = False


def _is_unspaced(char: str) -> bool:
    code = ord(char)
    return any(first <= code <= last for first, last in _UNSPACED)
