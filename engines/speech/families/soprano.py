"""Soprano: a Qwen3 of 80M whose hidden states are the speech, 15.6 of them a second.

The decoder eats the state of the last layer, not the token. A stock engine gives tokens only, so
the decoder runs the same body over prompt and tokens again, which is cheap for a model of this
size; that is why every token is a "code" here, and the prompt goes along as what was before.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..reading.reader import normalize
from ..tokens.layout import Layout, Slot, TokenBlock
from .binding import Plain, no_named_voice, one_line
from .family import Family, Licences, Mark, Prompt, PromptRequest, TokenSampling, Vocabulary
from .spelled import spelled


class SopranoReader:
    """See :class:`.family.Reader`."""

    def __init__(self, vocabulary: Vocabulary, marks: Mapping[str, int]) -> None:
        block = TokenBlock(0, vocabulary.size)
        self.layout = Layout((Slot(0),), (block,), steps=1, codebooks=1)
        self.stop = (marks["stop"],)
        self._plain = Plain(vocabulary, marks.values())
        self._before = [marks["stop"], marks["text"]]
        self._after = [marks["start"]]

    def prompt(self, asked: PromptRequest) -> Prompt:
        """The text between its marks, which the decoder needs as well."""
        no_named_voice(asked, "soprano")
        if asked.reference is not None:
            raise ValueError("soprano can't take a voice from a recording")
        tokens = [*self._before, *self._plain(asked.text), *self._after]
        return Prompt(tokens=tokens, lead=np.array([tokens], np.int32))

    def markup(self) -> None:
        """Every token is speech."""


def _normalise(text: str) -> str:
    """Words for figures and signs, in small letters, on one line."""
    return one_line(spelled(normalize(text))).lower()


FAMILY = Family(
    name="soprano",
    summary="Soprano 80M: one voice, 32 kHz, 15.6 tokens a second",
    architectures=("Qwen3ForCausalLM",),
    codec="soprano",
    licences=Licences(code="Apache-2.0", model="Apache-2.0", codec="Apache-2.0"),
    marks={
        "stop": Mark(name="[STOP]"),
        "text": Mark(name="[TEXT]"),
        "start": Mark(name="[START]"),
    },
    read=SopranoReader,
    languages=("en",),
    sampling=TokenSampling(temperature=0.0, top_p=0.95, repetition_penalty=1.2),
    # At most 512 tokens of speech, and one sentence.
    context_tokens=1024,
    tokens_per_second=15.625,
    first_audio_tokens=4,
    max_chars=300,
    normalise=_normalise,
)
