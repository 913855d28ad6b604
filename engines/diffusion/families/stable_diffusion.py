"""Stable Diffusion: a UNet with attention to text, on latents of a KL autoencoder.

Rombach et al. 2022, *High-Resolution Image Synthesis with Latent Diffusion Models*.
"""

from __future__ import annotations

from .family import Configs, MediaFamily, Sizes, Variant, kl_factor


def _sizes(configs: Configs) -> Sizes:
    factor = kl_factor(configs)
    side = configs["unet"].get("sample_size", 64) * factor
    return Sizes(width=side, height=side, multiple_of=max(8, factor))


def _offers(configs: Configs, variant: Variant) -> bool:
    # A UNet of nine channels was trained to fill in masks alone.
    inpaints = configs["unet"].get("in_channels", 4) != 4
    return "mask" in variant.inputs or not inpaints


FAMILY = MediaFamily(
    name="stable-diffusion",
    kind="image",
    variants=(
        Variant(pipeline="StableDiffusionPipeline"),
        Variant(pipeline="StableDiffusionImg2ImgPipeline", inputs=("image",), strength=True),
        Variant(pipeline="StableDiffusionInpaintPipeline", inputs=("image", "mask"), strength=True),
    ),
    denoisers=("unet",),
    sizes=_sizes,
    guidance=7.5,
    offers=_offers,
)
