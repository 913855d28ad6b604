"""Our own talker is told sound after sound, by what espeak makes of the text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from antiphon.engines.speech.families.binding import bind
from antiphon.engines.speech.families.family import PromptRequest, Reader, family
from antiphon.engines.speech.families.joe_units import ANY, ASK, BEGIN, STOP, code_name, pair_name
from antiphon.engines.speech.tokens.rows import Row, Ruler
from antiphon.engines.speech.tokens.rules import Rules

CODES = 4
PAIRS = [
    *[(unit, ANY) for unit in ("j", "ˈɛ", "s", ".", "n", "ˈo", "ʊ")],
    ("j", "ɛ"),
    ("ˈɛ", "s"),
    (".", "$"),
]
NAMES = [
    BEGIN,
    ASK,
    STOP,
    *(code_name(book, code) for book in (0, 1) for code in range(CODES)),
    *(pair_name(*pair) for pair in PAIRS),
]


class Names:
    """A vocabulary of nothing but marks."""

    size = len(NAMES)
    opening = ()

    def find(self, name: str) -> int | None:
        """The id of a token by its exact text."""
        return NAMES.index(name) if name in NAMES else None

    def encode(self, text: str) -> list[int]:
        """No text is ever encoded."""
        raise AssertionError(f"asked for the tokens of {text!r}")

    def decode(self, tokens: Sequence[int]) -> str:
        """The names of some tokens."""
        return "".join(NAMES[each] for each in tokens)


@pytest.fixture(scope="module")
def reader() -> Reader:
    return bind(family("joe-lm"), Names())


def names(tokens: tuple[int, ...]) -> list[str]:
    return [NAMES[each] for each in tokens]


def test_first_sound_is_the_prompt_and_the_others_are_its_script(reader: Reader) -> None:
    prompt = reader.prompt(PromptRequest(text="Yes."))
    assert [NAMES[each] for each in prompt.tokens] == [BEGIN, "<|j>ɛ|>"]
    assert prompt.script is not None
    assert names(prompt.script.tokens) == ["<|ˈɛ>s|>", "<|s>*|>", "<|.>$|>"]
    assert (NAMES[prompt.script.ask], prompt.script.each) == (ASK, 1)
    assert reader.stop == (NAMES.index(STOP),)


def test_it_may_ask_between_frames(reader: Reader) -> None:
    prompt, known = reader.prompt(PromptRequest(text="Yes.")), family("joe-lm")
    assert prompt.script is not None
    frames = tuple((each.base, each.size) for each in reader.layout.blocks)
    rules = Rules(frames=frames, ends=reader.stop, markup=known.markup, script=prompt.script)
    ruler, logits = Ruler(), torch.zeros(1, len(NAMES))
    ruler.put(0, Row(rules, prompt.tokens, []))
    ruler.apply(logits)
    assert logits[0, prompt.script.ask] > -math.inf


def test_sounds_that_are_not_known_are_left_out(reader: Reader) -> None:
    prompt = reader.prompt(PromptRequest(text="Yes, no."))
    assert prompt.script is not None
    assert names(prompt.script.tokens) == [
        "<|ˈɛ>s|>",
        "<|s>*|>",
        "<|n>*|>",
        "<|ˈo>*|>",
        "<|ʊ>*|>",
        "<|.>$|>",
    ]


def test_codes_are_two_blocks_and_a_frame_is_one_of_each(reader: Reader) -> None:
    assert [block.base for block in reader.layout.blocks] == [3, 3 + CODES]
    assert {block.size for block in reader.layout.blocks} == {CODES}
    assert [slot.codebook for slot in reader.layout.slots] == [0, 1]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (PromptRequest(text="☃"), "pronounced"),
        (PromptRequest(text="Yes.", voice="ann"), "one of joe"),
    ],
)
def test_what_cannot_be_said_is_refused(reader: Reader, asked: PromptRequest, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        reader.prompt(asked)


def test_figures_are_said_as_words() -> None:
    assert family("joe-lm").normalise("It  costs 5 dollars.") == "It costs five dollars."
