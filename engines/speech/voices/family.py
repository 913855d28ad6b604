"""The contract of a voice: what the talker and code2wav ask of any, whatever makes its sound.

A *voice model* is a folder with ``voice.json`` and the files of its *family*. It has one voice
or several that share its files. A family is one module here, named in :data:`FAMILIES`, that
loads the two halves of such a folder: text to latents, and latents to samples.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeAlias, cast

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from ...chunks import Latents, StageError
from ...stage import StageFailure

FAMILIES = {"piper": ".piper", "kokoro": ".kokoro"}
"""Modules by the ``family`` of a model, relative to this package; imported when needed."""

VOICE_FILE = "voice.json"

NAME = r"^[A-Za-z0-9][A-Za-z0-9._:+-]{0,99}$"
"""What a voice may be called."""

Count: TypeAlias = Annotated[int, Meta(ge=1)]
NotNegative: TypeAlias = Annotated[int, Meta(ge=0)]


class VoiceModel(msgspec.Struct, frozen=True, kw_only=True):
    """What any code must know of a voice model; its family reads more of the same file."""

    family: str
    voices: Annotated[tuple[Annotated[str, Meta(pattern=NAME)], ...], Meta(min_length=1)]
    """As clients ask for them, the default one first."""

    language: str
    """ISO 639-1, of the text that they read."""

    summary: str = ""
    """For people: in a few words, who speaks."""

    slow: bool = False
    """Whether a clause takes its first half seconds: it then has a thread apart, so that no
    other voice waits for it."""

    sample_rate: Count
    hop: Count
    """Samples of one frame of latents."""

    channels: Count
    context_frames: NotNegative
    """How far a frame reaches into the waveform of its neighbours, on each side."""

    @property
    def frame_ms(self) -> float:
        """Length of one frame."""
        return 1000 * self.hop / self.sample_rate


class Draft(Protocol):
    """A clause of which the words' times are known and the latents are still to be made."""

    @property
    def left(self) -> int:
        """Frames not made yet."""
        ...

    def next(self, size: int) -> Latents:
        """Make the next frames, at most ``size``; the words come with the first of them."""
        ...


class VoiceTalker(Protocol):
    """The loaded first half of a model, for all of its voices. For use in one thread."""

    @property
    def model(self) -> VoiceModel:
        """What it was loaded from."""
        ...

    def draft(self, text: str, speed: float, voice: str) -> Draft | None:
        """Begin a clause, or ``None`` if nothing in it can be pronounced.

        ``voice``: one of the model's. Silence at the ends has the length that the punctuation
        asks for.
        """
        ...


class VoiceDecoder(Protocol):
    """The loaded second half of a model. Several threads may use it at once."""

    @property
    def model(self) -> VoiceModel:
        """What it was loaded from."""
        ...

    def run(
        self, frames: NDArray[np.float32], left: int = 0, right: int = 0
    ) -> NDArray[np.float32]:
        """Samples of frames ``(batch, channels, n)`` but for so many at both ends.

        ``(batch, (n - left - right) * hop)``: what is only there as context need not be made.
        """
        ...


class Family(Protocol):
    """A module of :data:`FAMILIES`.

    It may say what it needs beside this project's own requirements as ``NEEDS``: names of
    modules, and what to install where one is not there; see :func:`missing_package`.
    """

    def load_talker(self, folder: Path, threads: int, variation: float) -> VoiceTalker:
        """Load the first half; takes up to some seconds.

        ``variation``: of rhythm and sound from one time to the next, 1 the voice's own.

        Raises:
            StageFailure: a package is missing or the folder can't be used.
        """
        ...

    def load_decoder(self, folder: Path, threads: int) -> VoiceDecoder:
        """Load the second half.

        Raises:
            StageFailure: a package is missing or the folder can't be used.
        """
        ...


def family_of(model: VoiceModel) -> Family:
    """The module that loads a model.

    Raises:
        StageFailure: there is none.
    """
    module = FAMILIES.get(model.family)
    if module is None:
        known = ", ".join(FAMILIES)
        what = f"expected a voice of a family out of {known}, got {model.family}"
        raise StageFailure(StageError("model_unusable", what))
    return cast("Family", importlib.import_module(module, __package__))


def missing_package(model: VoiceModel) -> str | None:
    """What to install before a model can be loaded; ``None`` where nothing is missing.

    Raises:
        StageFailure: its family is unknown.
    """
    needs: Mapping[str, str] = getattr(family_of(model), "NEEDS", {})
    absent = (what for module, what in needs.items() if find_spec(module) is None)
    return next(absent, None)


def read_model(folder: Path, kind: Any = VoiceModel) -> Any:
    """Read the description in a model's folder, as ``kind``: :class:`VoiceModel` or more.

    Raises:
        StageFailure: it is not there or does not describe a voice.
    """
    try:
        return msgspec.json.decode((folder / VOICE_FILE).read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        hint = "the model's folder does not hold a voice: fetch it again"
        raise StageFailure(StageError("model_unusable", hint)) from None
