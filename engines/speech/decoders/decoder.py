"""The contract of a codec's decoder: codes to samples, any stretch of many streams at a time.

A codec is one module here, named in :data:`DECODERS`, with ``load(folder, options)``. *Exact*
decoders give the samples of a whole decode by the codec's own class, whatever the stretches;
*windowed* ones, whose sound depends on the whole utterance, give the same samples for the same
codes, whatever the stretches, and cross-fade where windows meet.

Nothing here imports torch: the server knows codecs without it until one is loaded.

A *step* is the shortest stretch of codes a decoder takes. Codes are a matrix, a row a codebook
and a column a step; the code of a codebook that is slower than a step is repeated.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ...chunks import Samples, StageError
from ...stage import StageFailure

DECODERS = {
    "snac": ".snac",
    "dac": ".dac",
    "mimi": ".mimi",
    "encodec": ".encodec",
    "nanocodec": ".nanocodec",
    "vocos": ".vocos",
    "soprano": ".soprano",
    "neucodec": ".neucodec",
    "xcodec2": ".xcodec2",
    "joe-codes": ".joe_codes",
}
"""Modules by the name of the codec, relative to this package; imported when needed."""

Codes: TypeAlias = NDArray[np.int32]
"""``(codebooks, steps)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderCard:
    """What any code must know of a loaded decoder."""

    name: str
    """Of the codec: a key of :data:`DECODERS`."""

    sample_rate: int
    hop: int
    """Samples of one step."""

    sizes: tuple[int, ...]
    """Codes of each codebook: 0 to one less."""

    mode: Literal["exact", "windowed"] = "exact"
    lookahead: int = 0
    """Samples by which what is given lies behind what was pushed; none at the end of a stream.
    Of a windowed decoder the most that it can be."""

    first_steps: int = 1
    """Steps that the first push of a stream needs, unless it is the last as well."""

    short: int = 0
    """Samples that a whole decode has fewer than ``steps * hop``."""

    @property
    def step_ms(self) -> float:
        """Length of a step."""
        return 1000 * self.hop / self.sample_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderOptions:
    """How a decoder is to be loaded."""

    device: str = "cpu"
    """As torch names it."""

    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    threads: int = 1
    """Of one push on a CPU; applied to the threads that call, by who owns them."""

    ladder: tuple[int, ...] = ()
    """Sizes of pushes that will be asked for, steps: where graphs can be captured, of these.
    Empty for those of :func:`...scheduling.ladder.ladder_for`."""

    batch: int = 1
    """The most streams of one push."""


class DecoderState(Protocol):
    """One stream of a decoder; opaque. Let go of, it leaves nothing behind."""

    @property
    def steps(self) -> int:
        """Steps that were pushed."""
        ...


class Decoder(Protocol):
    """A loaded decoder. Several threads may push different streams at once."""

    @property
    def card(self) -> DecoderCard:
        """What it is."""
        ...

    def open(self, seed: int = 0) -> DecoderState:
        """Begin a stream. ``seed``: of the noise, where the codec has any."""
        ...

    def push(
        self, states: Sequence[DecoderState], codes: Sequence[Codes], last: Sequence[bool]
    ) -> list[Samples]:
        """Go on with some streams, all by the same number of steps; their samples so far certain.

        Each of ``codes`` is ``(codebooks, steps)`` of its stream; ``last`` says which streams
        end with it, of which all that is left is given. None may have been ended before.
        No step at all may be pushed where all of ``last`` are true.

        Raises:
            ValueError: the codes have another shape, or are not all of one size, or a code is
                out of its codebook; nothing has changed then.
        """
        ...

    def decode(self, codes: Codes) -> Samples:
        """A whole decode by the codec's own class: what :meth:`push` is measured by. Where there
        is noise, it is that of seed 0."""
        ...


class LeadsIn(Protocol):
    """A decoder whose streams may be told what was before them.

    Any decoder has an ``open``: what tells one of these is the argument ``lead`` of it.
    """

    def open(self, seed: int = 0, *, lead: Codes | None = None) -> DecoderState:
        """As :meth:`Decoder.open`. ``lead``: codes ahead of the first step, ``(codebooks, n)``,
        which are heard by the decoder but give no sound.

        Raises:
            ValueError: the lead has another shape, or a code is out of its codebook.
        """
        ...


@runtime_checkable
class GivesInWindows(Protocol):
    """A decoder that gives sound not at each push, but where a window of its own is complete."""

    def given(self, steps: int) -> int:
        """Steps whose sound was given once so many were pushed, as long as more may come."""
        ...


class Encoder(Protocol):
    """A loaded encoder of a codec, for references of voices."""

    @property
    def sample_rate(self) -> int:
        """That it wants."""
        ...

    def encode(self, samples: Samples) -> Codes:
        """The codes of a recording at :attr:`sample_rate`; as many steps as whole ones fit."""
        ...


class DecoderModule(Protocol):
    """A module of :data:`DECODERS`."""

    def load(self, folder: Path, options: DecoderOptions) -> Decoder:
        """Load the decoder from the codec's folder; takes seconds.

        Raises:
            StageFailure: a package is missing, or the folder can't be used.
        """
        ...

    def load_encoder(self, folder: Path, options: DecoderOptions) -> Encoder:
        """Load its encoder.

        Raises:
            StageFailure: a package is missing, the folder can't be used, or the codec has none
                (``encoder_missing``).
        """
        ...


def module_of(name: str) -> DecoderModule:
    """The module of a codec.

    Raises:
        StageFailure: there is none.
    """
    module = DECODERS.get(name)
    if module is None:
        what = f"expected a codec out of {', '.join(DECODERS)}, got {name}"
        raise StageFailure(StageError("model_unusable", what))
    return cast("DecoderModule", importlib.import_module(module, __package__))
