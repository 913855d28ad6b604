"""What the families share: marks and blocks of codes are looked up, texts are made safe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count

from ..tokens.layout import Layout, TokenBlock
from .family import Family, Mark, PromptRequest, Reader, Vocabulary


def bind(family: Family, vocabulary: Vocabulary) -> Reader:
    """The reader of a family for one vocabulary; takes up to a tenth of a second.

    Raises:
        ValueError: the vocabulary is none of this family, saying what it lacks.
        StageFailure: a package that the family needs is missing.
    """
    return family.read(vocabulary, find_marks(vocabulary, family.marks))


def find_marks(vocabulary: Vocabulary, marks: Mapping[str, Mark]) -> dict[str, int]:
    """The ids of marks: by name, else by their number where that is an id at all.

    Raises:
        ValueError: some have neither, naming them.
    """
    found: dict[str, int] = {}
    missing: list[str] = []
    for key, mark in marks.items():
        at = vocabulary.find(mark.name)
        at = mark.id if at is None else at
        if at is None or at >= vocabulary.size:
            missing.append(mark.name)
        else:
            found[key] = at
    if missing:
        raise ValueError(f"the vocabulary has no {', '.join(missing)}")
    return found


def numbered(vocabulary: Vocabulary, name: Callable[[int], str]) -> TokenBlock:
    """The block of tokens named by numbers from 0 on, as many as there are.

    Raises:
        ValueError: there is none, or their ids don't follow each other.
    """
    base = vocabulary.find(name(0))
    if base is None:
        raise ValueError(f"the vocabulary has no {name(0)}")
    for n in count(1):
        at = vocabulary.find(name(n))
        if at is None:
            return TokenBlock(base, n)
        if at != base + n:
            what = f"expected {name(n)} to be token {base + n}, as {name(0)} is {base}"
            raise ValueError(f"{what}, but it is {at}")
    raise AssertionError("not reached: a vocabulary is finite")


class Plain:
    """Encodes what people write: a mark or a code in it is not one of the model's.

    Otherwise a text could end the utterance, or put sounds into a prompt.
    """

    def __init__(
        self, vocabulary: Vocabulary, marks: Iterable[int], layout: Layout | None = None
    ) -> None:
        """Tokens that are ``marks``, or codes of ``layout``, are left out."""
        self._vocabulary = vocabulary
        self._marks = frozenset(marks)
        self._blocks = tuple(dict.fromkeys(layout.blocks)) if layout else ()

    def __call__(self, text: str) -> list[int]:
        """The tokens of ``text``."""
        return [token for token in self._vocabulary.encode(text) if self._is_text(token)]

    def _is_text(self, token: int) -> bool:
        if token in self._marks:
            return False
        return all(block.code(token) is None for block in self._blocks)


def named_voice(asked: PromptRequest, voices: Sequence[str], family: str) -> str:
    """The voice that is asked for, the first one where none is.

    Raises:
        ValueError: there is no such voice, or one of a recording is asked for.
    """
    if asked.reference is not None:
        raise ValueError(f"{family} can't take a voice from a recording")
    if asked.voice is None:
        return voices[0]
    if asked.voice not in voices:
        raise ValueError(f"voice: expected one of {', '.join(voices)}, got {asked.voice}")
    return asked.voice


def no_named_voice(asked: PromptRequest, family: str) -> None:
    """Make sure that no voice is asked for by a name that the model would have to know.

    Raises:
        ValueError: one is.
    """
    if asked.reference is None and asked.voice is not None:
        raise ValueError(f"voice: {family} knows none by name, got {asked.voice}")


def one_line(text: str) -> str:
    """``text`` with single spaces for white space, none at its ends."""
    return " ".join(text.split())
