"""The contract of a family: how one kind of codec language model is asked, and read.

A family is one module here, named in :data:`FAMILIES`, whose ``FAMILY`` declares everything
that shared code has to know: no other code knows any of them by name. Ids are never constants:
marks are looked up in the model's own vocabulary by name, with a number to fall back on where
a vocabulary has no such name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from ...chunks import Samples, StageError, Word
from ...stage import StageFailure
from ..decoders.decoder import Codes
from ..tokens.layout import Layout
from ..tokens.rules import Script

FAMILIES = {
    "orpheus": ".orpheus",
    "neutts": ".neutts",
    "llasa": ".llasa",
    "outetts": ".outetts",
    "kani": ".kani",
    "soprano": ".soprano",
    "joe-lm": ".joe_lm",
}
"""Modules by name, relative to this package; imported when needed."""

ReferenceKind: TypeAlias = Literal["none", "codes", "profile"]
"""What a voice of one's own is made of: nothing, so that there are none; the codes of a
recording and its text; or these with times and features of its words."""


class Vocabulary(Protocol):
    """The tokens of a language model."""

    def find(self, name: str) -> int | None:
        """The id of a token by its exact text; ``None`` where there is none."""
        ...

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, in which marks are text as well. Nothing is added around it."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of some tokens, marks included; what is no token has none."""
        ...

    @property
    def opening(self) -> Sequence[int]:
        """What the model's own tokenizer puts ahead of a text by itself; often nothing."""
        ...

    @property
    def size(self) -> int:
        """Ids are smaller, those without a name included."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A token with a meaning."""

    name: str
    """Its exact text in the vocabulary."""

    id: int | None = None
    """Where the vocabulary has no such text; ``None`` where it must have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Licences:
    """Under which licences the parts are given, as their publishers say."""

    code: str
    model: str
    codec: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSampling:
    """How tokens are chosen."""

    temperature: float = 1.0
    top_k: int = 0
    """0 for all."""

    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    penalty_window: int | None = None
    """Of how many of the last tokens; ``None`` for all, prompt included, by the engine itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A recording that a voice is taken from."""

    text: str
    """What is said in it."""

    codes: Codes
    words: tuple[Word, ...] = ()
    """With times, where the family wants them."""

    features: Mapping[str, object] = field(default_factory=dict[str, object])
    """More that the family's own :attr:`Family.describe` has found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRequest:
    """What is to be said, and by whom."""

    text: str
    voice: str | None = None
    """One of :attr:`Family.voices`; ``None`` with a reference, or where there are none."""

    reference: Reference | None = None
    language: str = "en"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What the language model is given."""

    tokens: Sequence[int]
    lead: Codes | None = None
    """Codes at the end of the prompt, which the decoder may have as what was before."""

    script: Script | None = None
    """What the model is told while it speaks."""


class Markup(Protocol):
    """Reads the tokens of one utterance that are no codes."""

    def feed(self, tokens: Sequence[int], step: int) -> list[Word]:
        """Take some in, which came ahead of ``step`` of the codes; return the words now known,
        times from the start of the utterance."""
        ...


class Reader(Protocol):
    """A family bound to one vocabulary."""

    @property
    def layout(self) -> Layout:
        """Where the codes are."""
        ...

    @property
    def stop(self) -> tuple[int, ...]:
        """Tokens that end an utterance."""
        ...

    def prompt(self, asked: PromptRequest) -> Prompt:
        """What to give the language model for an utterance.

        Raises:
            ValueError: the voice or the reference is none that it can use.
        """
        ...

    def markup(self) -> Markup | None:
        """What reads the other tokens of a new utterance; ``None`` where they say nothing."""
        ...


def _as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Everything that is known of a family."""

    name: str
    """A key of :data:`FAMILIES`."""

    summary: str
    architectures: tuple[str, ...]
    """Of the language model, as its ``config.json`` says; others are refused."""

    codec: str
    """A key of :data:`..decoders.decoder.DECODERS`."""

    mode: Literal["exact", "windowed"] = "exact"
    """Of the codec's decoder, as its card says when it is loaded."""

    licences: Licences
    marks: Mapping[str, Mark]
    """By the name that the family's own code uses."""

    read: Callable[[Vocabulary, Mapping[str, int]], Reader]
    """Bind it to a vocabulary; the second are the ids of :attr:`marks`.

    Raises ``ValueError`` where the vocabulary is not of this family, saying what it lacks.
    """

    markup: bool = False
    """Whether its models say tokens that are no codes, ahead of frames or between them."""

    languages: tuple[str, ...]
    """ISO 639-1."""

    voices: tuple[str, ...] = ()
    """Names that the model knows; the default one first."""

    reference: ReferenceKind = "none"
    reference_seconds: tuple[float, float] = (0.0, 0.0)
    """How short and how long a reference may be."""

    describe: Callable[[Reference, Samples, int], Reference] | None = None
    """Finds what the family needs of a reference besides, given the recording, float32 mono, and
    its sample rate. What it adds to :attr:`Reference.features` can be written as JSON.

    Raises ``ValueError`` where something is missing in the reference, saying what.
    """

    sampling: TokenSampling = TokenSampling()
    context_tokens: int = 2048
    """Prompt and speech together."""

    tokens_per_second: float
    """Of speech, markup included."""

    first_audio_tokens: int
    """After so many the first sample is certain, where no markup lies between."""

    chars_per_second: float = 14.0
    """Of text, as it is mostly spoken: bounds how long an utterance may become."""

    max_chars: int = 300
    """Of one utterance; a longer text is spoken in several."""

    normalise: Callable[[str], str] = _as_it_is
    """Makes of a text what the model was taught on."""


def family(name: str) -> Family:
    """A family by its name.

    Raises:
        StageFailure: there is none.
    """
    module = FAMILIES.get(name)
    if module is None:
        what = f"expected a family out of {', '.join(FAMILIES)}, got {name}"
        raise StageFailure(StageError("model_unusable", what))
    found: Family = importlib.import_module(module, __package__).FAMILY
    return found
