"""What a deployment says of a talker that is a codec language model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeVar

from msgspec import Meta

from ..families.family import TokenSampling
from .config import TokenModelConfig

Name = Annotated[str, Meta(min_length=1, max_length=200)]
NumberT = TypeVar("NumberT", int, float)


class CodecTalkerConfig(
    TokenModelConfig, frozen=True, kw_only=True, tag_field="use", tag="codec-lm"
):
    """Text to codes of a codec, by a language model on vLLM in a process of its own.

    ``model`` and :attr:`codec` are folders, with a slash in them, or names of the catalogue.
    """

    family: Name
    """How the model is asked and read: a key of ``families.family.FAMILIES``."""

    codec: Name
    """The codec's own files."""

    device: Annotated[str, Meta(pattern=r"^(cpu|cuda(:\d+)?)$")] = "cpu"
    """Where the codec is decoded. (The language model is where vLLM's build runs.)"""

    codec_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Numbers of the codec."""

    language: Annotated[str, Meta(pattern=r"^[a-z]{2}$")] | None = None
    """ISO 639-1, of the model's own voices; ``null`` for the first that its family knows."""

    seed: Annotated[int, Meta(ge=0)] | None = None
    """A number for the same sound of the same text each time; ``null`` for another."""

    grammar: bool = True
    """Whether the model may only write whole frames of codes. Costs a look at each token."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """Of sampling; ``null`` for what the family's publishers found best, as in what follows."""

    top_k: Annotated[int, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] | None = None

    def sampling(self, usual: TokenSampling) -> TokenSampling:
        """How tokens are chosen, where ``usual`` is the family's own way."""
        return TokenSampling(
            temperature=_or(self.temperature, usual.temperature),
            top_k=_or(self.top_k, usual.top_k),
            top_p=_or(self.top_p, usual.top_p),
            min_p=usual.min_p,
            repetition_penalty=_or(self.repetition_penalty, usual.repetition_penalty),
            penalty_window=usual.penalty_window,
        )


def _or(said: NumberT | None, usual: NumberT) -> NumberT:
    return usual if said is None else said


def is_folder(named: str) -> bool:
    """Whether a model is named by its folder, rather than by its name in the catalogue."""
    return "/" in named or named in (".", "..")


def beside(named: str, folder: Path) -> str:
    """The name of a model whose folder may be beside the deployment file, in ``folder``; else
    it is where the server is started."""
    if not is_folder(named):
        return named
    path = Path(named).expanduser()
    return str(folder / path if (folder / path).exists() else path.absolute())
