"""How many words of a text were heard wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
).split()

_SPOKEN: dict[str, str] = {
    **{str(number): word for number, word in enumerate(_NUMBERS)},
    "+": "plus",
    "=": "equals",
    "%": "percent",
    "&": "and",
}
"""Signs that sound like words."""


@dataclass(frozen=True, slots=True)
class WordErrors:
    """The outcome of a comparison."""

    errors: int
    """Words put in, left out, or taken for others: the least number that explains it."""

    words: int
    """Of what was said."""

    @property
    def rate(self) -> float:
        """Errors a word said."""
        return self.errors / max(1, self.words)


def spoken_words(text: str) -> list[str]:
    """The words of a text as they sound: no case, no punctuation, small numbers as words."""
    marks: list[str] = re.findall(r"[^\W_]+(?:['’][^\W_]+)*|[+=%&]", text.lower())
    return [_SPOKEN.get(mark, mark.replace("’", "'")) for mark in marks]


def word_errors(said: str, heard: str) -> WordErrors:
    """Compare what was heard with what was said."""
    wanted, found = spoken_words(said), spoken_words(heard)
    ahead = list(range(len(found) + 1))
    for count, word in enumerate(wanted, 1):
        row = [count]
        for index, other in enumerate(found):
            swapped = ahead[index] + (word != other)
            row.append(min(swapped, ahead[index + 1] + 1, row[index] + 1))
        ahead = row
    return WordErrors(ahead[-1], len(wanted))
