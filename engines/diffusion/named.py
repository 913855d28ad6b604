"""The models that a deployment can name: folders, two that are shipped, and placeholders.

No tensor library is loaded here, so that a server can check what is asked of its workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .abilities import Abilities, Facts, find_abilities, read_abilities
from .families.family import Configs
from .switches import DiffuserConfig


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A tiny pipeline with random weights."""

    configs: Configs
    """As much of its parts' settings as its family looks at."""

    facts: Facts


MODELS = Path(__file__).with_name("models")

SHIPPED: Mapping[str, Path] = {
    "embedded-image": MODELS / "drawing",
    "embedded-video": MODELS / "motion",
}
"""Folders of the small trained models that are part of the package, by the ``path`` that a
deployment gives."""

PLACEHOLDERS: Mapping[str, Placeholder] = {
    "placeholder-image": Placeholder(
        {
            "": {"_class_name": "StableDiffusionPipeline"},
            "unet": {"sample_size": 8, "in_channels": 4},
            "vae": {"block_out_channels": (16, 16, 16, 16)},
        },
        Facts(steps=20, max_pixels=512 * 512, untrained=True),
    ),
    "placeholder-video": Placeholder(
        {
            "": {"_class_name": "WanPipeline"},
            "transformer": {"patch_size": (1, 2, 2)},
            "vae": {"scale_factor_spatial": 8, "scale_factor_temporal": 4},
        },
        Facts(
            width=64,
            height=64,
            steps=12,
            frames=17,
            frames_per_second=8,
            max_pixels=256 * 256,
            max_frames=81,
            untrained=True,
            call={"max_sequence_length": 32},
        ),
    ),
}
"""What is made on the spot, by the ``path`` that a deployment gives."""

NAMED = frozenset({*SHIPPED, *PLACEHOLDERS})
"""What ``path`` may be beside a folder."""

EMBEDDED: Mapping[str, str] = {
    "antiphon-draw": "embedded-image",
    "antiphon-move": "embedded-video",
}
"""What is served where a deployment names no model of its own: names, and their paths."""


def abilities_of(config: DiffuserConfig) -> Abilities:
    """What a deployment's model can make.

    Raises:
        StageFailure: the folder is missing, or no pipeline's that is known.
    """
    adapters = tuple(config.switches.loras)
    known = PLACEHOLDERS.get(config.path)
    if known is None:
        return read_abilities(_given(config), facts=config.facts, adapters=adapters)
    return find_abilities(
        config.path, known.configs, known.facts, facts=config.facts, adapters=adapters
    )


def folder_of(config: DiffuserConfig, cache: Path) -> Path:
    """The model's folder; a placeholder is made in ``cache``. It blocks, and may load torch."""
    if config.path not in PLACEHOLDERS:
        return _given(config)
    from .placeholder import ensure

    return ensure(config.path, cache)


def _given(config: DiffuserConfig) -> Path:
    return SHIPPED.get(config.path) or Path(config.path).expanduser()
