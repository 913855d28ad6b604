"""Cutting growing text into clauses that can be spoken one by one.

The first clause is cut early, because silence ends when it is spoken; a later one may
be a few times as long as the one before, which is still playing while it is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from ..chunks import Clause

FIRST_WORDS = 5
"""Words of a first clause without punctuation; one less or one more to end it well."""

COMMA_CHARS = 40
"""A later clause ends at a comma from here on: about 2.5 s of speech."""

SENTENCE_CHARS = 12
"""A later clause ends with its sentence from here on; shorter ones join the next."""

GROWTH = 4
"""How much longer than the one before a clause may be. A model that writes 15 words a
second is five times faster than speech; the rest is for the talker."""

SHORTEST_LIMIT = 60
"""A clause after a very short one may still be this long."""

HARD_LIMIT = 200
"""Characters of any clause: about 13 s of speech."""

FIRST_LIMIT = 60
"""Characters of a first clause without punctuation: for words much longer than usual."""

CLOSERS = "\"'”’»)]}*_`~」』）】"
"""May follow punctuation within the same word."""

_SENTENCE = frozenset(".!?。！？")
_COMMA = frozenset(",;:—–…，、；：")
_WIDE = frozenset("。！？，、；：")
"""Marks of scripts without spaces: they end a word by themselves."""

_TITLES = frozenset(
    "mr mrs ms dr prof st sr mt ft gen col sgt capt lt rep sen gov rev hon vs fig vol ed eds "
    "approx dept est cf viz al e.g i.e ph.d".split()
)
"""Their full stop never ends a sentence."""

_UNSURE = frozenset("no nos p pp etc inc ltd co corp jr a.m p.m".split())
"""Their full stop ends a sentence if what follows begins one."""

_STARTERS = frozenset(
    "and or but nor so yet because since although though while when where which who that whether "
    "if unless until before after than as of in on at by for from to with without into onto over "
    "under about between through during against among across toward towards is are was were will "
    "would can could should may might must has have had does do did".split()
)
"""A pause before these sounds natural, a pause after them doesn't."""

_LEADERS = frozenset(
    "a an the this these those my your his her its our their i you he she it we they very not "
    "no be been some any each every more most such".split()
)
"""A pause after these doesn't sound natural either."""

_LEADING_ENDS = ("の", "な")
"""Of Japanese phrases that belong to the next."""

_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]?")
"""Initials and the like: ``J.``, ``U.S.``, ``e.g``."""

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Their characters take about as long to say as two letters, and count as two."""

_HIRAGANA = re.compile(r"[\u3041-\u309f]")
_PHRASE = re.compile(r"[\u30a1-\u30fa\u3400-\u9fff]")
"""Katakana and Chinese characters: after hiragana they begin a phrase."""


class Pause(IntEnum):
    """What a speaker does at a place in the text."""

    NONE = 0
    UNSURE = 1
    """The next character decides whether a sentence ends."""

    COMMA = 2
    SENTENCE = 3


@dataclass(frozen=True, slots=True)
class _Word:
    """A run of characters in the buffer, up to and without its white space."""

    text: str
    end: int


def is_speakable(text: str) -> bool:
    """Whether there is anything to pronounce: a letter or a digit."""
    return any(map(str.isalnum, text))


def pause_after(word: str) -> Pause:
    """The pause that the punctuation at the end of ``word`` asks for."""
    bare = word.rstrip(CLOSERS)
    if bare.endswith(("...", "…")):
        return Pause.COMMA
    if bare[-1:] in _COMMA and bare:
        return Pause.COMMA
    if bare[-1:] not in _SENTENCE or not bare:
        return Pause.NONE
    return _stop_after(bare) if bare[-1] == "." else Pause.SENTENCE


def _stop_after(word: str) -> Pause:
    """The same for a word that ends in a full stop."""
    core = word.lstrip("\"'“‘«([{*_`~#").lower()[:-1]
    if core in _UNSURE:
        return Pause.UNSURE
    if core in _TITLES or not core.strip("."):
        return Pause.NONE
    # "I." ends a sentence far more often than it is an initial.
    return Pause.NONE if core != "i" and _DOTTED.fullmatch(f"{core}.") else Pause.SENTENCE


class ClauseSplitter:
    """Cuts text that arrives in any pieces; where the pieces end makes no difference.

    The texts of the clauses concatenate to the text, white space and markup included,
    but for an end that has no letter or digit, which nobody could speak.
    """

    def __init__(self, first_words: int = FIRST_WORDS) -> None:
        """``first_words``: about how long a first clause without punctuation gets."""
        self._first_words = first_words
        self._reset()

    def _reset(self) -> None:
        self._buffer = ""
        self._words: list[_Word] = []
        self._word_at = 0
        self._in_word = False
        self._unsure = False
        self._new_line = True
        self._spoken = False
        self._limit = FIRST_LIMIT

    def feed(self, text: str) -> list[Clause]:
        """Add text; return the clauses that are now certain."""
        return [clause for char in text for clause in self._push(char)]

    def flush(self, *, goes_on: bool = False) -> list[Clause]:
        """Return what is left; the splitter is then as new.

        ``goes_on``: the speech does, so the next clause is not cut as early as a first one.
        """
        rest = self._buffer
        spoken = is_speakable(rest)
        heard = goes_on and (spoken or self._spoken)
        self._reset()
        if heard:
            self._spoken, self._limit = True, HARD_LIMIT
        return [Clause(rest)] if spoken else []

    def _push(self, char: str) -> list[Clause]:
        cuts = self._resolve(char) if self._unsure and not char.isspace() else []
        if self._in_word and _begins_phrase(self._buffer[-1], char):
            # Japanese has no spaces: its phrases are the words here.
            cuts += self._end_word(len(self._buffer))
        self._buffer += char
        if char.isspace():
            cuts += self._space(char)
        else:
            if not self._in_word:
                self._in_word, self._word_at = True, len(self._buffer) - 1
            if char in _WIDE:
                cuts += self._end_word(len(self._buffer))
        return cuts + self._bound()

    def _space(self, char: str) -> list[Clause]:
        cuts: list[Clause] = []
        if self._in_word:
            end = len(self._buffer) - 1
            cuts = self._end_word(end, Pause.COMMA if char == "\n" else Pause.NONE)
        elif char == "\n":
            # Most likely the second line break of two: a paragraph ends.
            cuts = self._pause(Pause.SENTENCE)
        self._new_line = self._new_line or char == "\n"
        return cuts

    def _end_word(self, end: int, least: Pause = Pause.NONE) -> list[Clause]:
        text = self._buffer[self._word_at : end]
        self._in_word = False
        self._words.append(_Word(text, end))
        # The "1." at the start of a line is no sentence.
        listed = self._new_line and text[:-1].isdigit()
        pause = Pause.NONE if listed else pause_after(text)
        self._new_line = self._new_line and not is_speakable(text)
        if pause is Pause.UNSURE and least is Pause.NONE:
            self._unsure = True
            return []
        return self._pause(max(pause, least)) or self._crowded()

    def _resolve(self, char: str) -> list[Clause]:
        self._unsure = False
        word = self._words[-1].text.lower().strip(CLOSERS + ".")
        begins = not char.isdigit() if word in ("no", "nos", "p", "pp") else char.isupper()
        return self._pause(Pause.SENTENCE if begins else Pause.NONE) or self._crowded()

    def _pause(self, pause: Pause) -> list[Clause]:
        """Cut here if this kind of pause is worth it."""
        if pause is Pause.SENTENCE:
            enough = not self._spoken or self._length() >= SENTENCE_CHARS
        elif pause is Pause.COMMA:
            enough = self._length() >= COMMA_CHARS if self._spoken else self._weight() >= 2
        else:
            enough = False
        return self._cut(len(self._buffer)) if enough else []

    def _weight(self) -> int:
        """Words so far; two characters of a script without spaces count as one."""
        return sum(
            max(1, len(_CJK.findall(word.text)) // 2)
            for word in self._words
            if is_speakable(word.text)
        )

    def _length(self) -> int:
        return _length(self._buffer.strip())

    def _crowded(self) -> list[Clause]:
        """Cut at a good place if the clause grows too long without a pause."""
        words = self._words
        if self._spoken:
            if self._length() <= self._limit:
                return []
            ends = (_length(self._buffer[: word.end]) for word in words)
            low = next(i for i, end in enumerate(ends, 1) if 2 * end >= self._limit)
            return self._cut_after(self._best(min(low, len(words) - 1), len(words) - 1))
        low, high = max(1, self._first_words - 1), self._first_words + 1
        if len(words) > low and _fits(words, len(words) - 1):
            return self._cut_after(len(words) - 1)
        if len(words) >= high or self._length() > self._limit:
            return self._cut_after(self._best(min(low, len(words)), len(words)))
        return []

    def _best(self, low: int, high: int) -> int:
        """After how many words to cut, at least ``low``, at most ``high``."""
        places = range(high, max(low, 1) - 1, -1)
        natural = (n for n in places if n < len(self._words) and _fits(self._words, n))
        bearable = (n for n in places if not _leads(self._words[n - 1].text))
        return next(natural, next(bearable, high))

    def _cut_after(self, count: int) -> list[Clause]:
        if count < 1:
            return []
        if count == len(self._words):
            return self._cut(len(self._buffer))
        space = self._buffer[self._words[count - 1].end :]
        return self._cut(len(self._buffer) - len(space.lstrip()))

    def _bound(self) -> list[Clause]:
        """Keep the buffer bounded whatever comes: endless words, spaces, or markup."""
        if 2 * len(self._buffer) < HARD_LIMIT or _length(self._buffer) < HARD_LIMIT:
            return []
        if not is_speakable(self._buffer):
            self._drop(len(self._buffer))
            return []
        # Ahead of the word that is growing, unless it is all there is.
        before = self._word_at if self._in_word else len(self._buffer)
        return self._cut(before) or self._cut(len(self._buffer))

    def _cut(self, end: int) -> list[Clause]:
        text = self._buffer[:end]
        if not is_speakable(text):
            return []
        self._drop(end)
        self._spoken = True
        self._limit = min(max(GROWTH * _length(text.strip()), SHORTEST_LIMIT), HARD_LIMIT)
        return [Clause(text)]

    def _drop(self, end: int) -> None:
        self._buffer = self._buffer[end:]
        self._words = [_Word(w.text, w.end - end) for w in self._words if w.end > end]
        self._word_at = max(0, self._word_at - end)
        self._unsure = False
        if not self._buffer:
            self._in_word = False


def _begins_phrase(before: str, char: str) -> bool:
    """Whether Japanese may be cut between these two."""
    return bool(_PHRASE.match(char) and _HIRAGANA.match(before))


def _length(text: str) -> int:
    """Characters, those that take twice as long to say twice."""
    return len(text) if text.isascii() else len(text) + len(_CJK.findall(text))


def _fits(words: list[_Word], count: int) -> bool:
    """Whether a pause after ``count`` words sounds natural: a starter follows it."""
    return _plain(words[count].text) in _STARTERS and not _leads(words[count - 1].text)


def _leads(word: str) -> bool:
    plain = _plain(word)
    return plain in _STARTERS or plain in _LEADERS or plain.endswith(_LEADING_ENDS)


def _plain(word: str) -> str:
    return word.strip(CLOSERS + ".,;:!?").lower()
