"""NeuTTS Air and Nano: small models that speak NeuCodec with the voice of a recording.

Text goes in as phonemes, of the recording's text as well. They come from espeak, reached as
everywhere through the ``piper`` extra; the publishers' own rules for French and German on top of
espeak are not repeated here. Nano has one checkpoint a language. The publisher's own program puts a
watermark into the sound; nothing here does.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..tokens.layout import Layout, Slot
from ..voices.phonemes import Transcriber
from .binding import Plain, no_named_voice, numbered, one_line
from .family import Family, Licences, Mark, Prompt, PromptRequest, TokenSampling, Vocabulary

ESPEAK = {"en": "en-us", "de": "de", "fr": "fr-fr", "es": "es"}
"""Languages by the names that espeak has for them."""

_BEFORE, _BETWEEN = "user: Convert the text to speech:", "\nassistant:"


class NeuttsReader:
    """See :class:`.family.Reader`."""

    def __init__(self, vocabulary: Vocabulary, marks: Mapping[str, int]) -> None:
        """Raises ``StageFailure`` where piper is not installed."""
        self._codes = numbered(vocabulary, lambda n: f"<|speech_{n}|>")
        self.layout = Layout((Slot(0),), (self._codes,), steps=1, codebooks=1)
        self.stop = (marks["speech_end"],)
        self._plain = Plain(vocabulary, marks.values(), self.layout)
        before = [*vocabulary.opening, *vocabulary.encode(_BEFORE)]
        self._before = [*before, marks["text_start"]]
        between = vocabulary.encode(_BETWEEN)
        self._after = [marks["text_end"], *between, marks["speech_start"]]
        self._phonemes = {code: Transcriber(name) for code, name in ESPEAK.items()}

    def prompt(self, asked: PromptRequest) -> Prompt:
        """Phonemes of the recording and of the text, then the recording's codes."""
        no_named_voice(asked, "neutts")
        reference = asked.reference
        if reference is None:
            raise ValueError("voice: neutts speaks with the voice of a recording; add one first")
        phonemes = self._phonemes.get(asked.language)
        if phonemes is None:
            known = ", ".join(ESPEAK)
            raise ValueError(f"language: expected one of {known}, got {asked.language}")
        said = f"{phonemes(reference.text)} {phonemes(asked.text)}"
        codes = [self._codes.base + int(code) for code in reference.codes[0]]
        tokens = [*self._before, *self._plain(said), *self._after, *codes]
        return Prompt(tokens=tokens, lead=reference.codes)

    def markup(self) -> None:
        """Nothing is said beside the codes."""


FAMILY = Family(
    name="neutts",
    summary="NeuTTS Air and Nano: small, the voice of a recording of 3 to 15 s",
    architectures=("Qwen2ForCausalLM", "LlamaForCausalLM"),
    codec="neucodec",
    mode="windowed",
    licences=Licences(
        code="Apache-2.0",
        model="Air: Apache-2.0; Nano: NeuTTS Open License 1.0",
        codec="Apache-2.0",
    ),
    marks={
        "text_start": Mark(name="<|TEXT_PROMPT_START|>"),
        "text_end": Mark(name="<|TEXT_PROMPT_END|>"),
        "speech_start": Mark(name="<|SPEECH_GENERATION_START|>"),
        "speech_end": Mark(name="<|SPEECH_GENERATION_END|>"),
    },
    read=NeuttsReader,
    languages=tuple(ESPEAK),
    reference="codes",
    reference_seconds=(3.0, 15.0),
    sampling=TokenSampling(temperature=1.0, top_k=50),
    context_tokens=2048,
    tokens_per_second=50.0,
    first_audio_tokens=16,
    # The recording's 15 s and their phonemes leave about 14 s of the context.
    max_chars=160,
    normalise=one_line,
)
