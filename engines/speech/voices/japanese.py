"""Japanese text to the phonemes that Kokoro was trained with: the one file that imports pyopenjtalk.

Open JTalk finds the words of a text and their readings in katakana, figures and Latin letters
included. A reading becomes phonemes kana by kana; words that make one in a list stand together,
as they did in training, others a space apart. There are no marks of accents.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ...chunks import StageError
from ...stage import StageFailure
from .kana import STOP, sounds

_OPEN_JTALK = threading.Lock()
"""It may be shared between threads; taking turns costs nothing and needs no trust."""

MARKS = {
    **dict.fromkeys("。．.", "."),
    **dict.fromkeys("、，,", ","),
    **dict.fromkeys("！!", "!"),
    **dict.fromkeys("？?", "?"),
    **dict.fromkeys("：:", ":"),
    **dict.fromkeys("；;", ";"),
    **dict.fromkeys("「『“«", "“"),
    **dict.fromkeys("」』»", "”"),
    **dict.fromkeys("…‥", "…"),
    **dict.fromkeys("〜～—―", "—"),
}
"""What is written for each mark; others, and what Open JTalk can't read, are left out."""

_SILENT = frozenset(" ") | set(MARKS.values())

OPENING = frozenset("“")
"""Marks that belong to what follows them."""

_AFTER_SPACE = OPENING | {"—"}

_OPENERS = frozenset("「『“«（([【《〈")
"""The same as they are written, with those that are not read."""

_WITHIN_FIGURES = ".,:/-．，：／－"

_UNREAD = re.compile(
    r"(?<=\])\([^\s()]*\)|https?://[!-~]+"  # Addresses: nobody wants to hear them spelt.
    r"|(?:^|(?<=[\s、。，．]))[！？!?ー]+"  # Marks of nothing, of which Open JTalk complains.
)

LONGEST_ENTRY = 24
"""Kana and kanji of an entry in the list of words that is looked for."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A phoneme or mark, and the word of the text that it is of; -1 for a space."""

    char: str
    word: int

    @property
    def is_sound(self) -> bool:
        """Whether it is a phoneme."""
        return self.char not in _SILENT


@dataclass(frozen=True, slots=True)
class Spoken:
    """How a text is said."""

    words: tuple[str, ...]
    """As written; joined they are the text but for white space."""

    symbols: tuple[Symbol, ...]


@dataclass(slots=True)
class _Morpheme:
    """One of Open JTalk's words."""

    start: int
    """In the text."""

    surface: str
    kana: str
    """Its reading in katakana; empty for one that has no sound."""

    begins: bool
    """Whether a phrase begins with it."""

    mark: str = ""
    word: int = -1


@dataclass(slots=True)
class Pronouncer:
    """Reads Japanese text. Safe to share between threads."""

    entries: Container[str] = field(default_factory=frozenset[str])
    """Words of which several of Open JTalk's make one."""

    def __post_init__(self) -> None:
        """Load Open JTalk; takes half a second.

        Raises:
            StageFailure: pyopenjtalk is not installed.
        """
        _analyse("はい。")

    def read(self, text: str) -> Spoken | None:
        """How ``text`` is said, or ``None`` if nothing in it can be pronounced."""
        # Of the same length, so that places in it are places in the text.
        plain = _UNREAD.sub(lambda found: " " * len(found[0]), text)
        morphemes = _morphemes(_analyse(plain))
        if not any(each.kana for each in morphemes):
            return None
        words = _number_words(text, morphemes)
        return Spoken(words, tuple(self._symbols(morphemes)))

    def _symbols(self, morphemes: Sequence[_Morpheme]) -> Iterable[Symbol]:
        symbols: list[Symbol] = []
        for group in self._grouped(morphemes):
            if not group[0].kana:
                if group[0].mark:
                    _add_mark(symbols, group[0])
                continue
            if symbols and symbols[-1].char not in OPENING:
                symbols.append(Symbol(" ", -1))
            owners = [each.word for each in group for _ in each.kana]
            for at, sound in sounds("".join(each.kana for each in group)):
                symbols += (Symbol(char, owners[at]) for char in sound)
        return _without_spaces_at_stops(symbols)

    def _grouped(self, morphemes: Sequence[_Morpheme]) -> Iterable[list[_Morpheme]]:
        """Runs that are one entry of the list, the longest first; else each by itself."""
        at = 0
        while at < len(morphemes):
            stop = at + 1
            if morphemes[at].kana:
                surface = morphemes[at].surface
                for end in range(at + 1, len(morphemes)):
                    surface += morphemes[end].surface
                    if len(surface) > LONGEST_ENTRY or not morphemes[end].kana:
                        break
                    if surface in self.entries:
                        stop = end + 1
            yield list(morphemes[at:stop])
            at = stop


def _analyse(text: str) -> Sequence[Mapping[str, Any]]:
    """Open JTalk's words of a text, with their readings and places in it.

    Raises:
        StageFailure: pyopenjtalk is not installed.
    """
    with _OPEN_JTALK:
        try:
            import pyopenjtalk
        except ImportError:
            hint = "pyopenjtalk-plus is not installed: run `pip install 'antiphon[japanese]'`"
            raise StageFailure(StageError("package_missing", hint)) from None
        try:
            found: Sequence[Mapping[str, Any]]
            found = pyopenjtalk.g2p_mapping(text, use_sudachi_kanji_yomi=False)
        except (ImportError, ValueError):
            # For a kanji that it does not know it wants a dictionary that need not be there;
            # and it may lose its place in the text at accents without a letter.
            found = [each for run in re.finditer(r"\S+", text) for each in _plainly(run)]
        return found


def _plainly(run: re.Match[str]) -> Iterable[Mapping[str, Any]]:
    """The same of a run without white space, as if it were one word; unknown kanji are mute."""
    import pyopenjtalk

    place = run.span()
    for each in pyopenjtalk.run_frontend(run[0], use_vanilla=True):
        yield {**each, "surface": each["string"], "phonemes": [], "char_span": place}
        place = (run.end(), run.end())


def _morphemes(found: Iterable[Mapping[str, Any]]) -> list[_Morpheme]:
    made: list[_Morpheme] = []
    for each in found:
        start, end = each["char_span"]
        surface = str(each["surface"])
        silent = each["pos"] == "記号" or each["phonemes"] in (["unk"], ["sp"])
        kana = "" if silent else _plain_kana(str(each["pron"]))
        if start == end and made:
            # Said, and not written: the "ten" of "26" is said with what is ahead of it.
            made[-1].kana += kana
            continue
        begins = bool(kana) and each["chain_flag"] != 1
        made.append(_Morpheme(start, surface, kana, begins, _mark(surface) if silent else ""))
    return made


def _plain_kana(read: str) -> str:
    return "".join(char for char in read if "ァ" <= char <= "ヿ")


def _mark(surface: str) -> str:
    return next((MARKS[char] for char in surface if char in MARKS), "")


def _number_words(text: str, morphemes: Sequence[_Morpheme]) -> tuple[str, ...]:
    """Cut the text into phrases, also at white space; tell each morpheme which it is in.

    Marks are of the phrase before them, opening ones of that behind.
    """
    runs = [found.start() for found in re.finditer(r"\S+", text)]
    starts = set(runs)
    run, sounded = 0, False
    for each in morphemes:
        if (now := bisect_right(runs, each.start)) != run:
            run, sounded = now, False
        opens = not each.kana and text[each.start] in _OPENERS
        if sounded and (each.begins or opens) and not _in_number(text, each.start):
            starts.add(each.start)
            sounded = False
        sounded = sounded or bool(each.kana)
    cuts = sorted(starts)
    for each in morphemes:
        each.word = max(0, bisect_right(cuts, each.start) - 1)
    return tuple(text[at:to].strip() for at, to in pairwise([*cuts, len(text)]))


def _in_number(text: str, at: int) -> bool:
    """Whether a figure goes on there."""
    before, behind = text[:at].rstrip(_WITHIN_FIGURES), text[at:].lstrip(_WITHIN_FIGURES)
    return before[-1:].isdigit() and behind[:1].isdigit()


def _add_mark(symbols: list[Symbol], morpheme: _Morpheme) -> None:
    if symbols and morpheme.mark in _AFTER_SPACE:
        symbols.append(Symbol(" ", -1))
    symbols.append(Symbol(morpheme.mark, morpheme.word))


def _without_spaces_at_stops(symbols: Sequence[Symbol]) -> list[Symbol]:
    """Leave out spaces around the stop of a doubled consonant, as in training."""
    chars = [" ", *(each.char for each in symbols), " "]
    return [
        each
        for each, before, behind in zip(symbols, chars, chars[2:], strict=False)
        if each.char != " " or STOP not in (before, behind)
    ]
