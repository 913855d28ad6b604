"""Flux: a transformer of packed latents that is told the guidance, without a second forward."""

from __future__ import annotations

from typing import Any

from .family import Configs, MediaFamily, Sizes, Tensor, Variant, kl_factor

SIDE = 128
"""Latents along a side of a picture as the models were trained for."""


def _sizes(configs: Configs) -> Sizes:
    factor = kl_factor(configs)
    return Sizes(width=SIDE * factor, height=SIDE * factor, multiple_of=2 * factor)


def _grid(latents: Tensor, pipe: Any, size: tuple[int, int]) -> Tensor:
    """Tokens of two by two latents, ``(1, h / 2 * w / 2, 4 * C)``, laid out again."""
    height, width = (side // (2 * pipe.vae_scale_factor) for side in size)
    tokens = latents.reshape(1, height, width, -1, 2, 2)
    return tokens.permute(0, 3, 1, 4, 2, 5).reshape(1, -1, 2 * height, 2 * width)


FAMILY = MediaFamily(
    name="flux",
    kind="image",
    variants=(
        Variant(pipeline="FluxPipeline"),
        Variant(pipeline="FluxImg2ImgPipeline", inputs=("image",), strength=True),
        Variant(pipeline="FluxInpaintPipeline", inputs=("image", "mask"), strength=True),
    ),
    denoisers=("transformer",),
    sizes=_sizes,
    guidance=3.5,
    shared=("img_ids", "txt_ids"),
    # It takes one only with a second scale for it, for which a task has no field.
    negative=False,
    grid=_grid,
)
