"""Whether what was said sounds finished, and so how long to wait for more.

Judged by the words alone, as a recognizer wrote them: its punctuation, and for English how
the last words usually go on. Where a language is not told, plain ASCII counts as English.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from .settings import Eagerness


class Finish(Enum):
    """How finished something sounds."""

    FINISHED = auto()
    """A sentence, or an answer that stands alone."""

    UNCLEAR = auto()
    """It may be all, or not."""

    DICTATED = auto()
    """Numbers, of which more may follow after a breath."""

    UNFINISHED = auto()
    """More has to come."""


_SILENCE_MS: dict[Eagerness, dict[Finish, int]] = {
    Eagerness.LOW: {
        Finish.FINISHED: 500,
        Finish.UNCLEAR: 2500,
        Finish.DICTATED: 4000,
        Finish.UNFINISHED: 8000,
    },
    Eagerness.MEDIUM: {
        Finish.FINISHED: 400,
        Finish.UNCLEAR: 1200,
        Finish.DICTATED: 2000,
        Finish.UNFINISHED: 4000,
    },
    Eagerness.HIGH: {
        Finish.FINISHED: 300,
        Finish.UNCLEAR: 700,
        Finish.DICTATED: 1200,
        Finish.UNFINISHED: 2000,
    },
}
_SILENCE_MS[Eagerness.AUTO] = _SILENCE_MS[Eagerness.MEDIUM]


def longest_silence_ms(eagerness: Eagerness) -> int:
    """Return the silence that ends a turn whatever was said in it."""
    return _SILENCE_MS[eagerness][Finish.UNFINISHED]


def silence_ms(finish: Finish, eagerness: Eagerness) -> int:
    """Return the silence that ends a turn which sounds like this."""
    return _SILENCE_MS[eagerness][finish]


_CLOSING = "\"'”’»›)]}」』）】"
_ASKS = "?!\uff1f\uff01\u061f\u037e"
"""Also as Chinese and Japanese, Arabic and Greek write it."""

_STOPS = ".\u3002\uff0e\u06d4\u0964\u0965\u0589\u1362"
"""Also of Chinese and Japanese, Urdu, Hindi, Armenian, Amharic."""

_GOES_ON = ",;:-\u2013\u2014\u2026\u3001\uff0c\uff1a\uff1b\u060c\u061b"
"""Commas, colons, dashes, an ellipsis."""

_JOINING = frozenset(
    # Hardly any sentence ends in these, whatever the recognizer wrote behind them.
    "and or but nor because cause cuz if unless although though whereas while whether since "
    "until than the a an my your our their its every i'm i'll i'd i've you're we're they're "
    "he's she's gonna wanna gotta very".split()
)
_LEADING = frozenset(
    # They lead on to something, but a sentence may end in them.
    "to of in on at for from with by about into onto over under up as like through between "
    "against without when where which who that then also is are was were be am do does did "
    "well like so have has had can could will would should shall may might must his her this these those "
    "some any what how why not i we they he she maybe just".split()
)
_FILLERS = frozenset("um umm uh uhm uhh er erm eh hm hmm mm ah".split())
_OPENERS = frozenset((("well",), ("so",), ("like",), ("you", "see")))
_FILLER_ENDS = tuple(
    tuple(phrase.split())
    for phrase in (
        "you know",
        "i mean",
        "let me see",
        "let me think",
        "let's see",
        "hold on",
        "kind of",
        "sort of",
        "one moment",
        "one second",
        "wait",
    )
)
_ANSWERS = frozenset(
    (
        "yes",
        "yeah",
        "yep",
        "yup",
        "no",
        "nope",
        "nah",
        "ok",
        "okay",
        "sure",
        "right",
        "correct",
        "exactly",
        "absolutely",
        "definitely",
        "of course",
        "maybe",
        "please",
        "yes please",
        "no thanks",
        "no thank you",
        "thanks",
        "thank you",
        "stop",
        "cancel",
        "help",
        "hello",
        "hi",
        "hey",
        "bye",
        "goodbye",
        "good morning",
        "never mind",
        "not really",
        "not yet",
        "i do",
        "i don't",
        "i am",
        "go on",
        "go ahead",
    )
)
_NUMBERS = frozenset(
    "zero oh one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty "
    "ninety hundred double triple".split()
)
_NUMBERED = frozenset("number code pin phone card account zip postcode extension".split())
"""Where these are spoken of, even one number may be the first of several."""

_DIGITS = re.compile(r"[+(]?\d[\d().,/-]*")

MANY_DIGITS = 10
"""A number of so many digits is likely complete: a telephone number."""


def judge(text: str | None, language: str | None = None) -> Finish:
    """Return how finished ``text`` sounds; ``language`` is an ISO 639-1 code, if known.

    A text that is empty or not known counts as unfinished: nothing speaks for an end.
    """
    said = (text or "").strip()
    bare = said.rstrip(_CLOSING).rstrip()
    if not bare:
        return Finish.UNFINISHED
    if bare[-1] in _GOES_ON or bare.endswith(("..", "\u3002\u3002")):
        return Finish.UNFINISHED
    if bare[-1] in _ASKS:
        return Finish.FINISHED
    stopped = bare[-1] in _STOPS
    spoken = bare.rstrip(_STOPS)
    english = _english(said, language)
    if (dictated := _judge_numbers(spoken.split(), english)) is not None:
        return dictated
    if english and (judged := _judge_english(spoken, stopped)) is not None:
        return judged
    return Finish.FINISHED if stopped else Finish.UNCLEAR


def _judge_numbers(said: list[str], english: bool) -> Finish | None:
    """Judge a text that ends in numbers: one is an answer, several are dictated."""
    digits = numbers = 0
    for word in reversed(said):
        if _DIGITS.fullmatch(word):
            digits += sum(char.isdigit() for char in word)
        elif word.casefold().strip(",-") in _NUMBERS:
            digits += 1
        else:
            break
        numbers += 1
    if numbers == 0:
        return None
    last = said[-1]
    grouped = "-" in last or last[0] in "0+("
    named = english and not _NUMBERED.isdisjoint(word.casefold() for word in said)
    if numbers == 1 and not grouped and not named:
        return None
    return Finish.UNCLEAR if digits >= MANY_DIGITS else Finish.DICTATED


def _english(said: str, language: str | None) -> bool:
    if language:
        return language.casefold().startswith("en")
    return said.replace("’", "'").isascii()


def _judge_english(spoken: str, stopped: bool) -> Finish | None:
    plain = re.sub(r"[^\w\s']", " ", spoken.casefold().replace("’", "'"))
    said = tuple(plain.split())
    if not said:
        return None
    if " ".join(said) in _ANSWERS:
        return Finish.FINISHED
    last = said[-1]
    if last in _JOINING or last in _FILLERS or said in _OPENERS:
        return Finish.UNFINISHED
    if any(said[-len(phrase) :] == phrase for phrase in _FILLER_ENDS):
        return Finish.UNFINISHED
    if last in _LEADING:
        return Finish.UNCLEAR if stopped else Finish.UNFINISHED
    return None
