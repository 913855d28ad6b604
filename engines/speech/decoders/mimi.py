"""Mimi: 12.5 steps a second, a transformer between the codebooks and a causal decoder.

Défossez et al. 2024, "Moshi: a speech-text foundation model for real-time dialogue"; the class
is transformers' ``MimiModel``. Nothing looks ahead: each step is heard at once. What a step's
sound depends on goes back by the transformer's window in each of its layers.

Talkers use the first codebooks only: set ``num_quantizers`` in ``config.json`` to how many; the
weights of the others are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...chunks import Samples
from ..streaming.attention import StreamTransformer
from ..streaming.chain import Chain
from ..streaming.layer import StreamLayer
from ..streaming.runner import StreamRunner, as_samples, exact_card
from .decoder import Codes, DecoderOptions
from .folder import unusable
from .pretrained import load_pretrained
from .seanet import seanet, seanet_layer

NAME = "mimi"


def load(folder: Path, options: DecoderOptions) -> StreamRunner:
    """As :meth:`.decoder.DecoderModule.load`."""
    return decoder_of(load_pretrained(NAME, "MimiModel", folder, options), options)


def load_encoder(folder: Path, options: DecoderOptions) -> MimiEncoder:
    """As :meth:`.decoder.DecoderModule.load_encoder`."""
    return MimiEncoder(load_pretrained(NAME, "MimiModel", folder, options))


def decoder_of(model: Any, options: DecoderOptions | None = None) -> StreamRunner:
    """The decoder of a ``MimiModel``, which it goes on using.

    Raises:
        StageFailure: it has a part that can't stream.
    """
    config = model.config
    layers: list[StreamLayer] = []
    if model.upsample is not None:
        layers.append(seanet_layer(model.upsample))
    try:
        window = int(config.sliding_window)
        layers.append(StreamTransformer(model.decoder_transformer, window=window))
    except ValueError as error:
        raise unusable(f"this Mimi can't stream: {error}") from None
    body = Chain([*layers, *seanet(model.decoder.layers).layers])
    # The codebooks' vectors are kept once computed; here, not in two threads at once.
    model.quantizer.decode(
        torch.zeros(1, _books(config), 1, dtype=torch.int64, device=model.device)
    )
    card = exact_card(
        NAME,
        sample_rate=int(config.sampling_rate),
        sizes=(int(config.codebook_size),) * _books(config),
        body=body,
    )

    def whole(codes: Codes) -> Samples:
        if not codes.shape[1]:
            return np.zeros(0, np.float32)
        ids = torch.as_tensor(codes.astype(np.int64))[None].to(model.device)
        return as_samples(model.decode(ids, return_dict=True).audio_values[0, 0])

    return StreamRunner(card, front=model.quantizer.decode, body=body, whole=whole, options=options)


def _books(config: Any) -> int:
    return int(config.num_quantizers)


class MimiEncoder:
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
        steps = samples.size // int(config.frame_size)
        if not steps:
            return np.zeros((_books(config), 0), np.int32)
        values = torch.as_tensor(samples[: steps * int(config.frame_size)])[None, None]
        with torch.inference_mode():
            made = self._model.encode(
                values.to(self._model.device, self._model.dtype), return_dict=True
            )
        codes: Codes = made.audio_codes[0].cpu().numpy().astype(np.int32)
        return codes
