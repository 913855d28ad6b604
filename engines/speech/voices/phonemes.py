"""Text to phoneme ids, by espeak through piper: the one file that imports piper.

piper is an optional extra with a licence of its own, so nothing else may depend on it.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ...chunks import StageError
from ...stage import StageFailure
from ..clauses import CLOSERS, Pause, is_speakable, pause_after

_ESPEAK = threading.Lock()
"""espeak keeps its state in globals of the process."""

_BEGIN, _PAD, _END = "^", "_", "$"
_BETWEEN = frozenset(" .,;:!?")
"""Symbols that are not sound."""

_COUNTED_WORDS = 4096
"""Words whose number of phonemes is remembered; a language's common words fit."""

_LINK = re.compile(r"\]\(\S*\)")
_TIMES = re.compile(r"(?<=\d)\*(?=\d)")
_CAPITALS = re.compile(r"(?:[A-Z]\.)+")
_OPENERS = "[*`#~|>"


@dataclass(frozen=True, slots=True)
class PhonemeSequence:
    """What the talker's graph reads, and where the spoken words are in it."""

    ids: tuple[int, ...]
    groups: tuple[tuple[int, int], ...]
    """Start and stop in ``ids`` of each run of sounds without a pause or space in it;
    each sound is followed by its pad. A group may hold several words, or part of one."""


class Phonemizer:
    """Turns text into the phoneme ids of one voice. Safe to share between threads."""

    def __init__(self, language: str, id_map: Mapping[str, tuple[int, ...]]) -> None:
        """``language`` as espeak names it; ``id_map`` from a symbol to its ids.

        Raises:
            StageFailure: piper is not installed.
        """
        self._espeak = _Espeak()
        self._language = language
        self._id_map = id_map
        self._count = lru_cache(_COUNTED_WORDS)(self._count_sounds)

    def ids(self, text: str) -> PhonemeSequence | None:
        """The phonemes of ``text``, or ``None`` if nothing in it can be pronounced."""
        symbols = self._symbols(spoken_form(text))
        ids = [*self._id_map[_BEGIN], *self._id_map[_PAD]]
        groups: list[tuple[int, int]] = []
        grouped = False
        for symbol in symbols:
            start = len(ids)
            ids += [*self._id_map[symbol], *self._id_map[_PAD]]
            if symbol in _BETWEEN:
                grouped = False
            elif grouped:
                groups[-1] = (groups[-1][0], len(ids))
            else:
                groups.append((start, len(ids)))
                grouped = True
        ids += self._id_map[_END]
        return PhonemeSequence(tuple(ids), tuple(groups)) if groups else None

    def sounds(self, word: str) -> int:
        """How many sounds a word has by itself; 0 if it is not spoken."""
        return self._count(word)

    def _count_sounds(self, word: str) -> int:
        return sum(symbol not in _BETWEEN for symbol in self._symbols(spoken_form(word)))

    def _symbols(self, spoken: str) -> list[str]:
        """The voice's symbols for a text, with a space between sentences."""
        if not spoken:
            return []
        joined = self._espeak.sounds(self._language, spoken)
        return [symbol for symbol in joined if symbol in self._id_map]


class Transcriber:
    """Writes a text down in the phonetic alphabet, for models that read that. Safe to share
    between threads."""

    def __init__(self, language: str) -> None:
        """``language`` as espeak names it.

        Raises:
            StageFailure: piper is not installed.
        """
        self._espeak = _Espeak()
        self._language = language

    def __call__(self, text: str) -> str:
        """The sounds of ``text`` with stress marks, a space between words, punctuation kept; one
        character a sound where there is one."""
        spoken = spoken_form(text)
        return unicodedata.normalize("NFC", self._espeak.sounds(self._language, spoken))


class _Espeak:
    """espeak, one call at a time."""

    def __init__(self) -> None:
        try:
            from piper.phonemize_espeak import EspeakPhonemizer
        except ImportError:
            hint = "piper-tts is not installed: run `pip install 'antiphon[piper]'`"
            raise StageFailure(StageError("package_missing", hint)) from None
        with _ESPEAK:
            self._espeak = EspeakPhonemizer()

    def sounds(self, language: str, text: str) -> str:
        """The sounds of all sentences, a space between them; accents apart from letters."""
        if not text:
            return ""
        with _ESPEAK:
            sentences = self._espeak.phonemize(language, text)
        return " ".join("".join(sentence) for sentence in sentences)


def spoken_form(text: str) -> str:
    """``text`` as it is read aloud: no markup or emoji, line breaks as pauses."""
    said: list[str] = []
    for word, space in re.findall(r"(\S+)(\s*)", text):
        spoken = _spoken(word)
        mark = _mark(word, space)
        if spoken:
            said.append(spoken if pause_after(spoken) is not Pause.NONE else spoken + mark)
        elif said and pause_after(said[-1]) is Pause.NONE:
            said[-1] += mark
    return " ".join(said)


def _spoken(word: str) -> str:
    """The word without markup; empty if there is nothing to pronounce."""
    bare = _TIMES.sub(" times ", _LINK.sub("", word.lstrip(_OPENERS))).replace("_", " ")
    bare = "".join(filter(_is_readable, bare)).strip()
    if not is_speakable(bare):
        return ""
    return _without_stop(bare) if pause_after(word) is Pause.NONE else bare


def _mark(word: str, space: str) -> str:
    """The punctuation that a word and the line breaks after it amount to."""
    pause = pause_after(word)
    if pause is Pause.SENTENCE or space.count("\n") > 1:
        return "."
    return "," if pause is Pause.COMMA or "\n" in space else ""


def _without_stop(word: str) -> str:
    """A title or initial without the full stop at which espeak would end a sentence."""
    bare = word.rstrip(CLOSERS)
    if _CAPITALS.fullmatch(bare):
        return bare.replace(".", " ").strip()
    return bare[:-1] if bare.endswith(".") and bare[:-1].isalpha() else word


def _is_readable(char: str) -> bool:
    """Whether espeak should see the character: no markup, emoji, or control."""
    if char in "*`#~|":
        return False
    kind = unicodedata.category(char)
    # Arrows, dingbats and emoji begin at U+2190; below are signs such as degrees.
    return kind[0] != "C" and not (kind in ("So", "Sk", "Mn") and ord(char) >= 0x2190)
