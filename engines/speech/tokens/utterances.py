"""Which text is asked of the language model at a time, and how long its answer may be."""

from __future__ import annotations

import math
import textwrap
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from ...chunks import Clause, StageError
from ...stage import StageFailure
from ...streams import Inbox
from ..families.family import Family
from .timing import letters

PATIENCE = 1.6
"""How much longer than expected an utterance may become."""

SPARE_SECONDS = 2.0
"""And this besides: a single word may be said slowly, and silence may be around it."""

LEAST_SECONDS = 1.0
"""What the context has to leave room for, or the utterance is refused."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """A text that is said in one go."""

    text: str
    clauses: int
    """How many clauses end with it; 0 of a part of a long one."""


async def utterances(inbox: Inbox[Clause], max_chars: int) -> AsyncGenerator[Utterance, None]:
    """Yield what to say next: all that waits, as far as it is short enough, and never nothing.

    Nothing is waited for if there is something to say. What can't be pronounced is left out.
    """
    waiting: deque[tuple[str, bool]] = deque()
    clauses = 0
    while waiting or await inbox.readable():
        text = ""
        while _fill(waiting, inbox, max_chars):
            if text and letters(text + waiting[0][0]) > max_chars:
                break
            part, ends = waiting.popleft()
            text += part
            clauses += ends
        if any(each.isalnum() for each in text):
            yield Utterance(" ".join(text.split()), clauses)
            clauses = 0


def token_budget(family: Family, text: str, room: int) -> int:
    """How many tokens the answer to ``text`` may have, where the context leaves ``room``.

    Raises:
        StageFailure: there is too little room (``context_full``).
    """
    if room < LEAST_SECONDS * family.tokens_per_second:
        what = "the recording of the voice and the text leave no room for speech in the context"
        raise StageFailure(StageError("context_full", what))
    seconds = PATIENCE * letters(text) / family.chars_per_second + SPARE_SECONDS
    return min(room, math.ceil(seconds * family.tokens_per_second))


def _fill(waiting: deque[tuple[str, bool]], inbox: Inbox[Clause], max_chars: int) -> bool:
    """Have the next part at hand, if there is one."""
    while not waiting and (clause := inbox.take()) is not None:
        parts = _parts(clause.text, max_chars)
        waiting.extend((part, number == len(parts)) for number, part in enumerate(parts, 1))
    return bool(waiting)


def _parts(text: str, max_chars: int) -> list[str]:
    """A clause in parts of bounded length; nearly always the clause itself, never nothing."""
    if (long := letters(text)) <= max_chars:
        return [text]
    # As long as they may be if all of it is alike.
    width = max(1, max_chars * len(text) // long - 1)
    return [part + " " for part in textwrap.wrap(text, width, break_on_hyphens=False)] or [""]
