"""What one family of diffusion pipelines does in its own way. No tensor library is loaded here."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from ..task import Kind, MediaTask

Settings: TypeAlias = Mapping[str, Any]
"""A part's ``config.json``."""

Configs: TypeAlias = Mapping[str, Settings]
"""Those of a pipeline's parts, by name; ``""`` is ``model_index.json``."""

Tensor: TypeAlias = Any
"""A tensor of torch."""

MODULES = (".stable_diffusion", ".stable_diffusion_3", ".flux", ".wan", ".animatediff")
"""Of the families; each has one ``FAMILY``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A pipeline class of the family, and what goes into it."""

    pipeline: str
    """Class of diffusers."""

    inputs: tuple[str, ...] = ()
    """Names out of ``image`` and ``mask``; all are needed."""

    strength: bool = False
    """Whether ``strength`` says how much of the image is made anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """How many frames a clip may have: ``1 + k * every``."""

    default: int
    most: int
    every: int = 1
    per_second: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sides in pixels."""

    width: int
    height: int
    multiple_of: int


def no_more(_task: MediaTask) -> dict[str, Any]:
    """A pipeline that is told nothing of its own."""
    return {}


def as_it_is(latents: Tensor, _pipe: Any, _size: tuple[int, int]) -> Tensor:
    """Latents that are a grid already."""
    return latents


def scaled(latents: Tensor, vae: Any) -> Tensor:
    """Latents of the loop as the decoder of a KL autoencoder takes them."""
    shift = getattr(vae.config, "shift_factor", None) or 0.0
    return latents / vae.config.scaling_factor + shift


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFamily:
    """A family: declarations, and a few functions of one line or two."""

    name: str
    kind: Kind
    variants: tuple[Variant, ...]
    """Those of text first. Those that a model's folder can't be made into are left out by :attr:`offers`."""

    denoisers: tuple[str, ...]
    """Parts that are called at each step; a pipeline need not have all."""

    sizes: Callable[[Configs], Sizes]
    frames: Callable[[Configs], Frames] | None = None
    steps: int = 28
    guidance: float = 5.0
    guidance_most: float = 20.0
    time: str = "timestep"
    """The denoiser's argument that tells the step; one for all rows may be of each row its own."""

    shared: tuple[str, ...] = ()
    """Its arguments that have no row for each picture: batch mates must have them alike."""

    rows: int = 8
    """Rows of one forward, where the deployment says nothing."""

    negative: bool = True
    """Whether it is told what not to show."""

    offers: Callable[[Configs, Variant], bool] = field(default=lambda configs, variant: True)
    call: Callable[[MediaTask], dict[str, Any]] = no_more
    """Arguments of its pipelines beside the common ones."""

    grid: Callable[[Tensor, Any, tuple[int, int]], Tensor] = as_it_is
    """Latents of the loop, the pipeline, ``(height, width)`` of the picture: to ``(1, C, h, w)``
    or ``(1, C, frames, h, w)``."""

    decodable: Callable[[Tensor, Any], Tensor] = scaled
    """Such a grid and the VAE: to what the VAE decodes."""

    video_vae: bool = False
    """Whether the VAE takes clips, ``(B, C, frames, h, w)``."""


@cache
def families() -> tuple[MediaFamily, ...]:
    """All of them."""
    return tuple(importlib.import_module(module, __package__).FAMILY for module in MODULES)


def family_of(pipeline: str) -> MediaFamily:
    """The family of a pipeline class.

    Raises:
        ValueError: there is none; the message lists the classes that are known.
    """
    known: list[str] = []
    for family in families():
        classes = [variant.pipeline for variant in family.variants]
        if pipeline in classes:
            return family
        known += classes
    raise ValueError(f"pipelines of class {pipeline} are not served; known are {', '.join(known)}")


def kl_factor(configs: Configs) -> int:
    """Pixels a latent of a KL autoencoder, along a side."""
    blocks = configs.get("vae", {}).get("block_out_channels", (1, 1, 1, 1))
    return 1 << (len(blocks) - 1)
