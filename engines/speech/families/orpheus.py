"""Orpheus: a Llama of 3B that speaks SNAC, seven tokens a frame.

Token ``<custom_token_N>`` is mark ``N`` below 10; above, code ``c`` at place ``p`` of a frame is
``N = 10 + size * p + c``. The places name the three codebooks of SNAC in the order of time,
so half of a frame is known after its fourth token.

Offered is the tuned model, with voices by name. The pretrained one takes a voice from pairs of
text and speech ahead of the new text; it was not trained for that, and it isn't offered.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..tokens.layout import Layout, Slot, TokenBlock
from .binding import Plain, named_voice, numbered, one_line
from .family import Family, Licences, Mark, Prompt, PromptRequest, TokenSampling, Vocabulary

VOICES = ("tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe")

FIRST_CODE = 10
"""Custom tokens ahead of the codes."""

SLOTS = (
    Slot(0, 0, 4),
    Slot(1, 0, 2),
    Slot(2, 0),
    Slot(2, 1),
    Slot(1, 2, 2),
    Slot(2, 2),
    Slot(2, 3),
)
"""A frame is four of the finest steps, 512 samples each: the coarse code says all four, the
middle codes two each."""


def _name(number: int) -> str:
    return f"<custom_token_{number}>"


def _layout(vocabulary: Vocabulary) -> Layout:
    """Seven blocks of one size, one after the other behind the marks; a few tokens more than
    these are no codes."""
    tokens = numbered(vocabulary, _name)
    size = (tokens.size - FIRST_CODE) // len(SLOTS)
    if size < 1:
        raise ValueError(f"expected custom tokens beyond the {FIRST_CODE} marks")
    first = tokens.base + FIRST_CODE
    blocks = tuple(TokenBlock(first + size * place, size) for place in range(len(SLOTS)))
    return Layout(SLOTS, blocks, steps=4, codebooks=3)


class OrpheusReader:
    """See :class:`.family.Reader`."""

    def __init__(self, vocabulary: Vocabulary, marks: Mapping[str, int]) -> None:
        self.layout = _layout(vocabulary)
        self.stop = (marks["end_of_speech"], marks["end_of_ai"])
        self._plain = Plain(vocabulary, marks.values(), self.layout)
        self._before = [marks["start_of_human"], marks["begin_of_text"]]
        after = ("end_of_turn", "end_of_human", "start_of_ai", "start_of_speech")
        self._after = [marks[name] for name in after]

    def prompt(self, asked: PromptRequest) -> Prompt:
        """The voice's name and the text, as said by a person."""
        voice = named_voice(asked, VOICES, "orpheus")
        said = self._plain(f"{voice}: {asked.text}")
        return Prompt(tokens=[*self._before, *said, *self._after])

    def markup(self) -> None:
        """Nothing is said beside the codes."""


FAMILY = Family(
    name="orpheus",
    summary="Orpheus 3B, tuned: eight voices, <laugh>, <sigh> and the like in the text",
    architectures=("LlamaForCausalLM",),
    codec="snac",
    licences=Licences(
        code="Apache-2.0",
        model="Apache-2.0; made from Llama 3.2, whose licence may apply too",
        codec="MIT",
    ),
    marks={
        "begin_of_text": Mark(name="<|begin_of_text|>", id=128000),
        "end_of_turn": Mark(name="<|eot_id|>", id=128009),
        "start_of_speech": Mark(name=_name(1), id=128257),
        "end_of_speech": Mark(name=_name(2), id=128258),
        "start_of_human": Mark(name=_name(3), id=128259),
        "end_of_human": Mark(name=_name(4), id=128260),
        "start_of_ai": Mark(name=_name(5), id=128261),
        "end_of_ai": Mark(name=_name(6), id=128262),
    },
    read=OrpheusReader,
    languages=("en",),
    voices=VOICES,
    sampling=TokenSampling(temperature=0.6, top_p=0.8, repetition_penalty=1.3),
    context_tokens=8192,
    tokens_per_second=7 * 24_000 / 2048,
    first_audio_tokens=18,
    normalise=one_line,
)
