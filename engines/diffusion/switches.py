"""diffusers' own switches, as a deployment says them. No tensor library is loaded here.

Each is passed on as it is. What diffusers does not know is refused, and what would make tasks
that share a model change each other's pictures is refused unless ``max_tasks`` is 1.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from .abilities import Facts

Dtype: TypeAlias = Literal["float32", "bfloat16", "float16"]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]


class Named(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A class of diffusers, and what it is made with."""

    use: str
    """Its name, such as ``UniPCMultistepScheduler`` or ``FirstBlockCacheConfig``."""

    options: dict[str, Any] = {}


class Quantization(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A quantisation of one part of a pipeline."""

    use: str
    """``QuantoConfig``, ``TorchAoConfig``, ``BitsAndBytesConfig``, ..."""

    options: dict[str, Any] = {}


class Compile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``compile_repeated_blocks`` of the denoiser; the first tasks of a shape wait for it."""

    fullgraph: bool = True
    dynamic: bool = True
    """One program for all batch sizes; without, there is one for each."""

    mode: str | None = None


class Switches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one model. What is not said stays as the model's folder has it."""

    dtype: Dtype | dict[str, Dtype] = "float32"
    """Of all parts, or of parts by name, ``default`` for the others."""

    device: str = "cpu"
    """As torch names it: ``cpu``, ``cuda``, ``cuda:1``, ``mps``."""

    scheduler: Named | None = None
    """Another scheduler, or the model's own with other options."""

    loras: dict[str, str] = {}
    """Adapters that tasks may name, each a file or a folder; all are kept loaded."""

    quantization: dict[str, Quantization] = {}
    """By the part's name."""

    cache: Named | None = None
    """``enable_cache`` of the denoiser. Needs ``max_tasks: 1``."""

    offload: Literal["none", "model", "sequential", "group"] = "none"
    """``model`` needs ``max_tasks: 1``."""

    offload_options: dict[str, Any] = {}
    """Of ``enable_group_offload``."""

    attention_backend: str | None = None
    """It counts for all models of the process, and so it must be the same for all."""

    layerwise_casting: dict[str, Any] = {}
    """Options of ``enable_layerwise_casting`` of the denoiser, data types by name."""

    compile: Compile | None = None
    channels_last: bool = False
    vae_slicing: bool = False
    vae_tiling: bool = False
    threads: Positive | None = None
    """Of the CPU, for one forward."""

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.offload_options and self.offload != "group":
            raise ValueError("offload_options: only with offload: group")
        if self.offload in ("model", "sequential") and self.device == "cpu":
            raise ValueError(f"offload: {self.offload} needs an accelerator; device is cpu")

    @property
    def coupled(self) -> str | None:
        """Why tasks can't share the model, or ``None``."""
        if self.cache is not None:
            return (
                "cache: it decides for a whole batch which steps are skipped and keeps the state "
                "of one task, so that tasks would change each other's pictures"
            )
        if self.offload == "model":
            return "offload: model moves whole parts out and in again whenever a task joins"
        return None


class DiffuserConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a diffusion model is served."""

    path: str
    """A folder of a diffusers pipeline; ``embedded-image`` and ``embedded-video`` are the small
    trained ones that come with the package, ``placeholder-image`` and ``placeholder-video`` tiny
    ones with random weights, made on the spot."""

    max_tasks: Positive = 8
    """Tasks under way at once; each holds its latents and its text."""

    max_rows: Positive | None = None
    """Rows of one forward, of which a picture with guidance may need two; ``null`` for what
    suits the family."""

    exact: bool = False
    """Every forward has ``max_rows`` rows, so that a picture made in company is the same bit for
    bit as one made alone; costs the time of the rows that are not needed."""

    checkpoint_steps: Annotated[int, Meta(ge=0)] = 10
    """Steps after which the work is kept; 0 for never."""

    preview_ms: Annotated[int, Meta(ge=0)] = 500
    """Time between two previews of a picture, at least."""

    switches: Switches = Switches()
    facts: Facts = Facts()

    def __post_init__(self) -> None:
        """Refuse what would break step batching.

        Raises:
            ValueError: a switch needs the model for one task alone.
        """
        if self.switches.coupled and self.max_tasks != 1:
            raise ValueError(f"switches.{self.switches.coupled}; it needs max_tasks: 1")
