"""Written text as it is read aloud.

A voice reads words. Figures, abbreviations, signs and markup become words here, or are left
out, before the text is cut into clauses. What espeak reads well by itself stays as it is.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from . import english
from .marks import clean, host, is_mark
from .tokens import LONGEST, REMEMBERED, Place, Token, Tokens, Wait, Word, add_space, split

_SENTENCE_ENDS = frozenset(".!?")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the text that is read, and where it is in the text that was written."""

    text: str
    start: int
    stop: int
    """Characters of the written text; equal for white space."""


def normalize(text: str, language: str = "en") -> str:
    """``text`` as it is read aloud; see :class:`Reader`."""
    reader = Reader(language)
    return reader.feed(text) + reader.flush()


def align(text: str, language: str = "en") -> list[Span]:
    """The same in parts, each with its place in ``text``; joined they are the whole."""
    reader = Reader(language)
    return reader.read(text) + reader.end()


class Reader:
    """Makes text readable that comes in any pieces; where the pieces end makes no difference.

    A word is given out as soon as it is complete, and a figure or an abbreviation as soon as
    nothing that follows can change how it is read: a few words at most. White space is a
    single space, a line break, or a blank line, which is the end of a paragraph.

    In languages but English only markup, emoji, and the paths of web addresses are left out.
    """

    def __init__(self, language: str = "en") -> None:
        """``language``: an ISO 639-1 code; a region behind it is ignored."""
        self._english = language.replace("_", "-").split("-")[0].lower() == "en"
        self._reset()

    def _reset(self) -> None:
        self._tokens = Tokens()
        self._before: deque[Word] = deque(maxlen=REMEMBERED)
        # As after a blank line, so that there is no white space at the start.
        self._space = "\n\n"
        self._at = 0
        self._in_address = False
        self._marked = False
        self._rewritten = False
        self._last = ""

    def feed(self, piece: str) -> str:
        """Add text; return what is now certain."""
        return "".join(span.text for span in self.read(piece))

    def flush(self) -> str:
        """Return what is left; the reader is then as new."""
        return "".join(span.text for span in self.end())

    def read(self, piece: str) -> list[Span]:
        """Add text; return the parts that are now certain."""
        spans: list[Span] = []
        queue = self._tokens.queue
        for char in piece:
            waiting = len(queue)
            if not char.isspace():
                self._tokens.add(char)
            elif not self._tokens.space(char):
                self._give_space(char, self._at, spans)
            if len(queue) != waiting or char.isspace():
                self._drain(spans, False)
            self._at += 1
        return spans

    def end(self) -> list[Span]:
        """Return the parts that are left; the reader is then as new."""
        spans: list[Span] = []
        self._tokens.end()
        self._drain(spans, True)
        self._reset()
        return spans

    def _drain(self, spans: list[Span], ended: bool) -> None:
        """Read what is certain by now."""
        queue = self._tokens.queue
        while queue:
            try:
                text, used = self._say(queue[0], ended)
            except Wait:
                return
            read = [queue.popleft() for _ in range(used + 1)]
            if text:
                self._give(text, read, spans)
            for char in read[-1].after:
                self._give_space(char, read[-1].start + len(read[-1].text), spans)

    def _give(self, text: str, read: list[Token], spans: list[Span]) -> None:
        """Hand out words; figures that were written without a space get one."""
        first, last = read[0], read[-1]
        rewritten = text != first.text
        if first.glued and not self._space and (rewritten or self._rewritten):
            before = spans[-1].text[-1:] if spans else self._last
            if before.isalnum() and text[0].isalnum():
                text = f" {text}"
        spans.append(Span(text, first.start, last.start + len(last.text)))
        self._space, self._rewritten, self._last = "", rewritten, text[-1]

    def _give_space(self, char: str, at: int, spans: list[Span]) -> None:
        more = add_space(self._space, char if char == "\n" else " ")
        if more != self._space:
            spans.append(Span(more[len(self._space) :], at, at))
            self._space = more

    def _say(self, token: Token, ended: bool) -> tuple[str, int]:
        """What a token is read as, and how many after it are read with it.

        Raises:
            Wait: it depends on a token that is not complete yet.
        """
        if self._in_address and token.glued:
            self._in_address = len(token.text) == LONGEST
            return "", 0
        opens = token.opens or self._marked
        if is_mark(token.text, opens):
            self._marked = opens
            return "", 0
        if token.opens:
            self._before.clear()
        text = clean(token.text)
        starts = opens or not self._before or bool(_SENTENCE_ENDS & set(self._before[-1].tail))
        word = split(text, starts)
        said, used = self._read(word, ended)
        self._in_address = len(token.text) == LONGEST and host(word.core) is not None
        self._marked = False
        self._remember(word, used)
        return said, used

    def _read(self, word: Word, ended: bool) -> tuple[str, int]:
        queue = self._tokens.queue
        if self._english:
            return english.read(Place(word, self._before, queue, ended))
        return f"{word.lead}{host(word.core) or word.core}{word.tail}", 0

    def _remember(self, word: Word, used: int) -> None:
        """Keep the words that were just read for those that follow."""
        queue = self._tokens.queue
        for index in range(used + 1):
            each = split(clean(queue[index].text)) if index else word
            if each.core:
                self._before.append(each)
            else:
                self._before.clear()
