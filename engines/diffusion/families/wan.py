"""Wan: clips by a transformer over space and time, from text, or from text and a first picture.

Wan Team 2025, *Wan: Open and Advanced Large-Scale Video Generative Models*.
"""

from __future__ import annotations

from typing import Any

from .family import Configs, Frames, MediaFamily, Sizes, Tensor, Variant


def _sizes(configs: Configs) -> Sizes:
    transformer = configs.get("transformer") or configs["transformer_2"]
    space = configs["vae"].get("scale_factor_spatial", 8)
    return Sizes(width=832, height=480, multiple_of=space * transformer["patch_size"][1])


def _frames(configs: Configs) -> Frames:
    time = configs["vae"].get("scale_factor_temporal", 4)
    return Frames(default=81, most=161, every=time, per_second=16)


def _decodable(latents: Tensor, vae: Any) -> Tensor:
    """Each channel has a mean and a spread of its own."""
    shape = (1, -1, 1, 1, 1)
    mean = latents.new_tensor(vae.config.latents_mean).view(shape)
    return latents * latents.new_tensor(vae.config.latents_std).view(shape) + mean


FAMILY = MediaFamily(
    name="wan",
    kind="video",
    variants=(
        Variant(pipeline="WanPipeline"),
        Variant(pipeline="WanImageToVideoPipeline", inputs=("image",)),
    ),
    denoisers=("transformer", "transformer_2"),
    sizes=_sizes,
    frames=_frames,
    steps=50,
    rows=2,
    # The two are models of their own: the one has channels for the picture.
    offers=lambda configs, variant: configs[""]["_class_name"] == variant.pipeline,
    decodable=_decodable,
    video_vae=True,
)
