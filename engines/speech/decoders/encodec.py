"""EnCodec: 75 steps a second, causal but for its beginning.

Défossez et al. 2022, "High fidelity neural audio compression"; the class is transformers'
``EncodecModel``, of which the causal models can stream (24 kHz). It pads by reflection, so that
the first sound depends on some steps that come after it: the first push of a stream has to bring
them, see :attr:`.decoder.DecoderCard.first_steps`. A stream that ends with fewer is decoded as a
whole by the codec's own class, which treats it in a way of its own.

Talkers use some of the codebooks: put the bandwidth of these last in ``target_bandwidths`` of
``config.json``; the weights of the others are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...chunks import Samples
from ..streaming.edges import ReflectedConv
from ..streaming.layer import StreamLayer
from ..streaming.runner import StreamRunner, as_samples, exact_card
from .decoder import Codes, DecoderOptions, DecoderState
from .folder import unusable
from .pretrained import load_pretrained
from .seanet import seanet

NAME = "encodec"


def load(folder: Path, options: DecoderOptions) -> StreamRunner:
    """As :meth:`.decoder.DecoderModule.load`."""
    return decoder_of(load_pretrained(NAME, "EncodecModel", folder, options), options)


def load_encoder(folder: Path, options: DecoderOptions) -> EncodecEncoder:
    """As :meth:`.decoder.DecoderModule.load_encoder`."""
    return EncodecEncoder(load_pretrained(NAME, "EncodecModel", folder, options))


def decoder_of(model: Any, options: DecoderOptions | None = None) -> StreamRunner:
    """The decoder of an ``EncodecModel``, whose weight norm is folded.

    Raises:
        StageFailure: it has a part that can't stream.
    """
    config = model.config
    if config.normalize or config.chunk_length_s is not None or config.audio_channels != 1:
        raise unusable("expected an EnCodec of one channel without chunks, such as that of 24 kHz")
    body = seanet(model.decoder.layers)
    card = exact_card(
        NAME,
        sample_rate=int(config.sampling_rate),
        sizes=(int(config.codebook_size),) * int(config.num_quantizers),
        body=body,
    )

    def front(codes: Tensor) -> Tensor:
        vectors: Tensor = model.quantizer.decode(codes.transpose(0, 1))
        return vectors

    def whole(codes: Codes) -> Samples:
        if not codes.shape[1]:
            return np.zeros(0, np.float32)
        ids = torch.as_tensor(codes.astype(np.int64))[None, None].to(model.device)
        return as_samples(model.decode(ids, [None], return_dict=True).audio_values[0, 0])

    card = replace(card, first_steps=_first_steps(body))
    return MirroredRunner(card, front=front, body=body, whole=whole, options=options)


def _first_steps(body: StreamLayer) -> int:
    """How many steps the mirrors at a stream's start need."""
    mirrors = [part for part in body.modules() if isinstance(part, ReflectedConv)]
    return max((-(-part.needs // part.before.per_step) for part in mirrors), default=1)


class MirroredRunner(StreamRunner):
    """A runner of a decoder whose streams begin with a mirror."""

    def push(
        self, states: Sequence[DecoderState], codes: Sequence[Codes], last: Sequence[bool]
    ) -> list[Samples]:
        """As :meth:`.decoder.Decoder.push`.

        Raises:
            ValueError: as there; or the first push of a stream that goes on is too short.
        """
        streams = self._checked(states, codes, last)
        first = self.card.first_steps
        count = codes[0].shape[1] if codes else 0
        short = [0 < count < first and not stream.steps for stream in streams]
        if any(is_short and not ends for is_short, ends in zip(short, last, strict=True)):
            raise ValueError(f"expected a stream to begin with {first} steps, got {count}")
        going = [at for at, is_short in enumerate(short) if not is_short]
        given: dict[int, Samples] = {}
        for at, stream in enumerate(streams):
            if short[at]:
                given[at] = self.decode(codes[at])
                stream.steps = stream.length = count
                stream.tensors = []
        if going:
            pushed = super().push(
                [states[at] for at in going],
                [codes[at] for at in going],
                [last[at] for at in going],
            )
            given.update(zip(going, pushed, strict=True))
        return [given[at] for at in range(len(streams))]


class EncodecEncoder:
    """An :class:`.decoder.Encoder` of a recording as a whole."""

    def __init__(self, model: Any) -> None:
        self._model = model

    @property
    def sample_rate(self) -> int:
        """24,000 as a rule."""
        return int(self._model.config.sampling_rate)

    def encode(self, samples: Samples) -> Codes:
        """As :meth:`.decoder.Encoder.encode`."""
        config = self._model.config
        steps = samples.size // int(config.hop_length)
        if not steps:
            return np.zeros((int(config.num_quantizers), 0), np.int32)
        values = torch.as_tensor(samples[: steps * int(config.hop_length)])[None, None]
        with torch.inference_mode():
            made = self._model.encode(
                values.to(self._model.device, self._model.dtype),
                bandwidth=config.target_bandwidths[-1],
                return_dict=True,
            )
        codes: Codes = made.audio_codes[0, 0].cpu().numpy().astype(np.int32)
        return codes
