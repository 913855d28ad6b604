"""Tiny NeuCodec and XCodec2 with random weights, in folders as transformers writes them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from .decoders import loud

WIDTH = 64
HEADS = 4


def write_semantic(kind: str, folder: Path, *, layers: int = 2) -> Any:
    """Write a codec, ``neucodec`` or ``xcodec2``; takes a tenth of a second. Returns its model."""
    import transformers
    from transformers.utils import logging

    name = {"neucodec": "NeuCodec", "xcodec2": "Xcodec2"}[kind]
    semantic = {
        "model_type": "wav2vec2-bert",
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    config = getattr(transformers, f"{name}Config")(
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        head_dim=WIDTH // HEADS,
        encoder_hidden_size=2,
        semantic_model_config=semantic,
        quantization_dim=WIDTH + 32,
    )
    model = loud(getattr(transformers, f"{name}Model")(config))
    for part in model.acoustic_encoder.modules():
        if isinstance(part, nn.Conv1d):
            # Of all its layers something has to come through.
            part.weight.mul_(2)
    model.quantizer.project_in.weight.mul_(5)
    head, bins = model.acoustic_decoder.head, config.n_fft // 2 + 1
    # Sound that falls with frequency, as speech does: a jump in it is heard.
    head.linear.weight[:bins].mul_(0.5)
    head.linear.bias[:bins].copy_(4 - 4 * torch.log1p(torch.arange(bins) * 30 / bins))
    logging.disable_progress_bar()
    model.save_pretrained(folder)
    return model
