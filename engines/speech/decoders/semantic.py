# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false
# pyright: reportUnknownParameterType=false
"""What NeuCodec and XCodec2 share: one codebook, and attention over all of the utterance.

Both are transformers' own classes, from folders that transformers wrote. The decoder is made
without the two encoders, which are three times its size. The original classes need torchaudio
for the features of the semantic encoder; here they come from transformers' other statement of
the same features (Kaldi's filter banks), which needs numpy alone. Of values around 1 they differ
by 6e-5 at most.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...chunks import Samples
from .decoder import Codes, Decoder, DecoderCard, DecoderOptions, Encoder
from .folder import package, read_config, unusable
from .windowed import Schedule, WindowedDecoder

SCHEDULE = Schedule()
"""Of both: they have the same layers and the same 50 steps a second."""

HOP = 320
"""Samples of a step at the encoder's rate."""

BINS = 80
"""Of Kaldi's filter bank."""

STRIDE = 2
"""Frames of the filter bank, of 10 ms, in one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticCodec:
    """How one of the two differs from the other."""

    name: str
    """A key of :data:`.decoder.DECODERS`."""

    kind: str
    """``model_type`` of its ``config.json``."""

    model: str
    """Its class of transformers."""

    rate: Callable[[Any], int]
    """Samples a second of its sound, by its configuration."""

    margin: int = 0
    """Zeros on either side of what the semantic encoder is given, samples."""


def load_decoder(codec: SemanticCodec, folder: Path, options: DecoderOptions) -> Decoder:
    """As :meth:`.decoder.DecoderModule.load`."""
    import torch

    config, kind = _described(codec, folder)
    # Its layers are not needed; its width is, by the decoder's first layer.
    config.semantic_model_config.num_hidden_layers = 0
    model = _loaded(kind, folder, config, options)
    model.semantic_encoder = model.semantic_adapter = model.acoustic_encoder = None
    model.fc_encoder = None
    # The window is kept in full: the head works in float32, whatever the rest does.
    head = model.acoustic_decoder.head
    head.window = torch.hann_window(head.n_fft, dtype=torch.float32, device=head.window.device)

    def decode(codes: torch.Tensor) -> torch.Tensor:
        sound: torch.Tensor = model.decode(audio_codes=codes).audio_values[:, 0]
        return sound

    size = int(np.prod(config.quantization_levels))
    card = DecoderCard(
        name=codec.name,
        sample_rate=codec.rate(config),
        hop=int(config.hop_length),
        sizes=(size,),
        mode="windowed",
        lookahead=SCHEDULE.lookahead * int(config.hop_length),
    )
    return WindowedDecoder(card, SCHEDULE, decode, torch.device(options.device), options.batch)


def load_encoder(codec: SemanticCodec, folder: Path, options: DecoderOptions) -> Encoder:
    """As :meth:`.decoder.DecoderModule.load_encoder`."""
    config, kind = _described(codec, folder)
    model = _loaded(kind, folder, config, options)
    model.acoustic_decoder = None
    return _SemanticEncoder(model, codec.margin, options.device)


class _SemanticEncoder:
    """An :class:`.decoder.Encoder` of a recording as a whole."""

    def __init__(self, model: Any, margin: int, device: str) -> None:
        from transformers import SeamlessM4TFeatureExtractor

        self._model = model
        self._margin = margin
        self._device = device
        self._dtype = model.fc_encoder.weight.dtype
        self._features = SeamlessM4TFeatureExtractor(
            feature_size=BINS, num_mel_bins=BINS, sampling_rate=self.sample_rate, stride=STRIDE
        )

    @property
    def sample_rate(self) -> int:
        """That both want."""
        return 16_000

    def encode(self, samples: Samples) -> Codes:
        """As :meth:`.decoder.Encoder.encode`."""
        import torch

        steps = samples.size // HOP
        if not steps:
            return np.zeros((1, 0), np.int32)
        # At least one zero more than there are samples, as in the original.
        padded = np.pad(samples, (0, HOP - samples.size % HOP)).astype(np.float32)
        features = self._features(
            np.pad(padded, self._margin), sampling_rate=self.sample_rate, return_tensors="np"
        )["input_features"]
        with torch.inference_mode():
            made = self._model.encode(
                input_values=self._tensor(padded[None, None]),
                input_features=self._tensor(features),
            )
        codes: Codes = made.audio_codes[0, :, :steps].cpu().numpy().astype(np.int32)
        return codes

    def _tensor(self, values: Any) -> Any:
        import torch

        return torch.as_tensor(values).to(self._device, self._dtype)


def _described(codec: SemanticCodec, folder: Path) -> tuple[Any, Any]:
    """The configuration of a folder, and the class of its model."""
    kind: Any = getattr(package("transformers", codec=codec.name), codec.model, None)
    if kind is None:
        raise unusable(f"the codec {codec.name} needs a newer transformers, with {codec.model}")
    if (got := read_config(folder).get("model_type")) != codec.kind:
        raise unusable(f"expected a folder of the model type {codec.kind}, got {got}")
    try:
        config: Any = kind.config_class.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        # Whatever its values do to it.
        what = f"the configuration of {codec.name} can't be used ({type(error).__name__})"
        raise unusable(what) from None
    return config, kind


def _loaded(kind: Any, folder: Path, config: Any, options: DecoderOptions) -> Any:
    import torch

    try:
        with _quiet():
            # Files of tensors alone: none whose loading runs code.
            model, told = kind.from_pretrained(
                folder,
                config=config,
                dtype=getattr(torch, options.dtype),
                local_files_only=True,
                weights_only=True,
                output_loading_info=True,
            )
    except Exception as error:
        # The library's own error quotes paths of this machine.
        what = f"the weights in the folder of {config.model_type} can't be loaded"
        raise unusable(f"{what} ({type(error).__name__})") from None
    if missing := sorted(told["missing_keys"]):
        what = f"the weights of {config.model_type} lack {len(missing)} tensors"
        raise unusable(f"{what}, {missing[0]} among them")
    return model.eval().to(options.device)


@contextmanager
def _quiet() -> Generator[None]:
    """Keep the library from drawing bars, and from listing the weights of what is left out."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
