"""Llasa: Llama 3.2 with 65,536 more tokens, the codes of XCodec2.

The prompt is the chat template of Llama 3.2 Instruct, whose system message names a day: the one
that the template itself falls back on is given, so that a prompt is the same every day.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..tokens.layout import Layout, Slot
from .binding import Plain, no_named_voice, numbered, one_line
from .family import Family, Licences, Mark, Prompt, PromptRequest, TokenSampling, Vocabulary

_SYSTEM = "\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
_ASK = "\n\nConvert the text to speech:"


class LlasaReader:
    """See :class:`.family.Reader`."""

    def __init__(self, vocabulary: Vocabulary, marks: Mapping[str, int]) -> None:
        self._codes = numbered(vocabulary, lambda n: f"<|s_{n}|>")
        self.layout = Layout((Slot(0),), (self._codes,), steps=1, codebooks=1)
        self.stop = (marks["speech_end"], marks["end_of_turn"])
        self._plain = Plain(vocabulary, marks.values(), self.layout)
        encode = vocabulary.encode

        def head(role: str) -> list[int]:
            return [marks["header_start"], *encode(role), marks["header_end"]]

        turn = marks["end_of_turn"]
        system = [marks["begin_of_text"], *head("system"), *encode(_SYSTEM), turn]
        self._before = [*system, *head("user"), *encode(_ASK), marks["text_start"]]
        answer = [*head("assistant"), *encode("\n\n"), marks["speech_start"]]
        self._after = [marks["text_end"], turn, *answer]

    def prompt(self, asked: PromptRequest) -> Prompt:
        """The recording's text and the new one, then the recording's codes, if there is one."""
        no_named_voice(asked, "llasa")
        reference = asked.reference
        text = f"{one_line(reference.text)} {asked.text}" if reference else asked.text
        row = reference.codes[0] if reference else ()
        codes = [self._codes.base + int(code) for code in row]
        tokens = [*self._before, *self._plain(text), *self._after, *codes]
        return Prompt(tokens=tokens, lead=reference.codes if reference else None)

    def markup(self) -> None:
        """Nothing is said beside the codes."""


FAMILY = Family(
    name="llasa",
    summary="Llasa 1B, 3B and 8B: any voice, or that of a recording",
    architectures=("LlamaForCausalLM",),
    codec="xcodec2",
    mode="windowed",
    licences=Licences(
        code="CC-BY-NC-4.0",
        model="CC-BY-NC-4.0; made from Llama 3.2, whose licence may apply too",
        codec="CC-BY-NC-4.0, as far as is known",
    ),
    marks={
        "begin_of_text": Mark(name="<|begin_of_text|>", id=128000),
        "header_start": Mark(name="<|start_header_id|>", id=128006),
        "header_end": Mark(name="<|end_header_id|>", id=128007),
        "end_of_turn": Mark(name="<|eot_id|>", id=128009),
        "text_start": Mark(name="<|TEXT_UNDERSTANDING_START|>", id=128258),
        "text_end": Mark(name="<|TEXT_UNDERSTANDING_END|>", id=128259),
        "speech_start": Mark(name="<|SPEECH_GENERATION_START|>", id=128260),
        "speech_end": Mark(name="<|SPEECH_GENERATION_END|>", id=128261),
    },
    read=LlasaReader,
    languages=("en", "zh"),
    reference="codes",
    reference_seconds=(2.0, 15.0),
    sampling=TokenSampling(temperature=0.9, top_p=0.95),
    context_tokens=2048,
    tokens_per_second=50.0,
    first_audio_tokens=16,
    max_chars=200,
    normalise=one_line,
)
