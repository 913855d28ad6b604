"""AnimateDiff: a UNet of pictures with layers between that make them move.

Guo et al. 2024, *AnimateDiff: Animate Your Personalized Text-to-Image Diffusion Models without
Specific Tuning*.
"""

from __future__ import annotations

from typing import Any

from ..task import MediaTask
from .family import Configs, Frames, MediaFamily, Sizes, Variant, kl_factor

DECODED = 16
"""Frames that the VAE decodes at once."""


def _sizes(configs: Configs) -> Sizes:
    factor = kl_factor(configs)
    side = configs["unet"].get("sample_size", 64) * factor
    return Sizes(width=side, height=side, multiple_of=max(8, factor))


def _frames(configs: Configs) -> Frames:
    most = configs["unet"].get("motion_max_seq_length", 32)
    return Frames(default=min(16, most), most=most, per_second=8)


def _call(_task: MediaTask) -> dict[str, Any]:
    return {"decode_chunk_size": DECODED}


FAMILY = MediaFamily(
    name="animatediff",
    kind="video",
    variants=(Variant(pipeline="AnimateDiffPipeline"),),
    denoisers=("unet",),
    sizes=_sizes,
    frames=_frames,
    guidance=7.5,
    rows=4,
    call=_call,
)
