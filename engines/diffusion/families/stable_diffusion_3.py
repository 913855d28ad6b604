"""Stable Diffusion 3: a transformer over text and image together, trained by flow matching.

Esser et al. 2024, *Scaling Rectified Flow Transformers for High-Resolution Image Synthesis*.
"""

from __future__ import annotations

from .family import Configs, MediaFamily, Sizes, Variant, kl_factor


def _sizes(configs: Configs) -> Sizes:
    transformer, factor = configs["transformer"], kl_factor(configs)
    side = transformer.get("sample_size", 128) * factor
    return Sizes(width=side, height=side, multiple_of=factor * transformer.get("patch_size", 2))


FAMILY = MediaFamily(
    name="stable-diffusion-3",
    kind="image",
    variants=(
        Variant(pipeline="StableDiffusion3Pipeline"),
        Variant(pipeline="StableDiffusion3Img2ImgPipeline", inputs=("image",), strength=True),
        Variant(
            pipeline="StableDiffusion3InpaintPipeline", inputs=("image", "mask"), strength=True
        ),
    ),
    denoisers=("transformer",),
    sizes=_sizes,
    guidance=7.0,
)
