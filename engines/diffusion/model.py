# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""A pipeline's folder, loaded: the one thing that calls diffusers to make something."""

from __future__ import annotations

import copy
import inspect
import logging
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from ..chunks import StageError
from ..stage import StageFailure
from .abilities import Abilities, family_in, read_configs, revision_of, variants_of
from .applying import apply, load_options
from .families.family import Variant
from .hub import StandIn
from .previews import Colours, fit_colours, render
from .quiet import hush
from .stepping import stepwise
from .switches import DiffuserConfig
from .task import Frames, Picture, TaskFailed
from .work import Work

log = logging.getLogger(__name__)

INPUTS: Mapping[str, tuple[str, str]] = {"image": ("image", "RGB"), "mask": ("mask_image", "L")}
"""How a pipeline's call names an input, and the colours that it has."""

MAX_PIXELS = 64_000_000
"""Of an input."""


class Model:
    """For use in one thread. See :class:`.hub.Runs`.

    Raises:
        StageFailure: the folder is no pipeline's, or a switch does not fit it.
    """

    def __init__(self, folder: Path, config: DiffuserConfig, abilities: Abilities) -> None:
        hush()
        import diffusers

        if config.switches.threads:
            torch.set_num_threads(config.switches.threads)
        configs = read_configs(folder)
        self.family = family_in(configs)
        self.abilities = abilities
        self.alone = config.max_tasks == 1
        self.time = self.family.time
        self.shared = self.family.shared
        self._dressed: tuple[tuple[str, float], ...] = ()
        # What a pipeline was saved without has to be said again, or it is asked for.
        absent = {
            name: None for name, part in configs[""].items() if part in ([None, None], (None, None))
        }
        try:
            self._base = diffusers.DiffusionPipeline.from_pretrained(
                str(folder), local_files_only=True, **absent, **load_options(config.switches)
            )
        except StageFailure:
            raise
        except Exception as error:
            raise StageFailure(
                StageError("model_broken", f"{folder}: {type(error).__name__}: {error}")
            ) from error
        self._base.set_progress_bar_config(disable=True)
        apply(self._base, self.family.denoisers, config.switches)
        if config.switches.loras:
            self._base.disable_lora()
        self._pipelines = {
            tuple(sorted(variant.inputs)): (variant, self._as(variant))
            for variant in variants_of(self.family, configs)
        }
        self._colours = self._fit()
        self.facts: dict[str, Any] = {
            "family": self.family.name,
            "revision": revision_of(folder),
            "scheduler": type(self._base.scheduler).__name__,
            "dtype": str(config.switches.dtype),
            "diffusers": version("diffusers"),
            "torch": version("torch"),
        }
        self.identity = " ".join(str(fact) for fact in self.facts.values())
        """Equal of models that go on with each other's work, bit for bit."""

    def _as(self, variant: Variant) -> Any:
        """The loaded parts as another pipeline class; nothing is copied."""
        import diffusers

        kind = getattr(diffusers, variant.pipeline)
        if type(self._base) is kind:
            return self._base
        names = inspect.signature(kind.__init__).parameters
        parts = {name: part for name, part in self._base.components.items() if name in names}
        settings = {
            name: value
            for name, value in self._base.config.items()
            if name in names and name not in parts and not name.startswith("_")
        }
        pipe = kind(**parts, **settings)
        pipe.set_progress_bar_config(disable=True)
        return pipe

    def _fit(self) -> Colours | None:
        try:
            return fit_colours(self._base.vae, self.family)
        except Exception as error:
            log.warning("no previews of this model: %s", type(error).__name__)
            return None

    @property
    def pipeline(self) -> Any:
        """As it was loaded, of diffusers."""
        return self._base

    def dress(self, adapters: tuple[tuple[str, float], ...]) -> None:
        """See :class:`.hub.Runs`."""
        if adapters == self._dressed:
            return
        if adapters:
            self._base.enable_lora()
            names, weights = zip(*adapters, strict=True)
            self._base.set_adapters(list(names), list(weights))
        else:
            self._base.disable_lora()
        self._dressed = adapters

    def settle(self) -> None:
        """See :class:`.hub.Runs`."""
        self._base.maybe_free_model_hooks()

    def make(self, work: Work, stand_in: Callable[[str, Any], StandIn]) -> Picture:
        """See :class:`.hub.Runs`.

        Raises:
            TaskFailed: an input can't be read.
        """
        task = work.task
        variant, base = self._pipelines[tuple(sorted(task.inputs))]
        # Shallow, and not through its __setattr__, which would write the shared settings too.
        pipe = copy.copy(base)
        own = pipe.__dict__
        own["scheduler"] = stepwise(base.scheduler, work)
        # One that ends would reset what others still use.
        own["maybe_free_model_hooks"] = lambda: None
        for name in self.family.denoisers:
            module = getattr(base, name, None)
            if module is not None:
                own[name] = stand_in(name, module)
        wanted = (task.width, task.height)
        size = width, height = self.abilities.drawn(*wanted)
        work.preview = lambda latents: self._preview(pipe, latents, (height, width))
        started = time.perf_counter()
        made = pipe(**self._arguments(pipe, variant, work, size))[0]
        facts = self.facts | {"seconds": round(time.perf_counter() - started, 3)}
        frames = _frames(made)
        if size != wanted:
            frames = _enlarged(frames, wanted)
            facts["enlarged_from"] = f"{width}x{height}"
        return Picture(frames, facts=facts)

    def _arguments(
        self, pipe: Any, variant: Variant, work: Work, size: tuple[int, int]
    ) -> dict[str, Any]:
        task = work.task
        known = inspect.signature(type(pipe).__call__).parameters
        said: dict[str, Any] = {
            "prompt": task.prompt,
            "num_inference_steps": task.steps,
            "guidance_scale": task.guidance,
            "generator": work.generator,
            "output_type": "np",
            "return_dict": False,
        }
        if task.negative_prompt and self.family.negative:
            said["negative_prompt"] = task.negative_prompt
        if "height" in known:
            said["width"], said["height"] = size
        if "num_frames" in known:
            said["num_frames"] = task.frames
        if variant.strength:
            said["strength"] = task.strength
        for name in variant.inputs:
            argument, colours = INPUTS[name]
            said[argument] = _read(work.inputs[name], name, colours, size)
        extra = self.family.call(task) | self.abilities.call
        unknown = sorted(extra.keys() - known.keys())
        if unknown:
            raise TaskFailed("bad_model", f"{variant.pipeline} has no argument {unknown[0]}")
        return said | extra

    def _preview(self, pipe: Any, latents: torch.Tensor, size: tuple[int, int]) -> bytes | None:
        if self._colours is None:
            return None
        try:
            return render(self._colours, self.family.grid(latents, pipe, size), size)
        except Exception as error:
            log.warning("no more previews of this model: %s", type(error).__name__)
            self._colours = None
            return None


def _frames(made: Any) -> Frames:
    """Values from 0 to 1 as bytes, ``(frames, height, width, 3)``."""
    values: NDArray[Any] = np.asarray(made)
    values = values[0] if values.ndim == 5 else values
    found: Frames = np.clip(np.nan_to_num(values) * 255, 0, 255).round().astype(np.uint8)
    return found


def _enlarged(frames: Frames, size: tuple[int, int]) -> Frames:
    """Brought to a width and a height."""
    return np.stack(
        [
            np.asarray(Image.fromarray(each).resize(size, Image.Resampling.LANCZOS))
            for each in frames
        ]
    )


def _read(path: Path, name: str, colours: str, size: tuple[int, int]) -> Image.Image:
    """An input as a picture of the size that is drawn."""
    try:
        with Image.open(path) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise TaskFailed("bad_input", f"{name}: more than {MAX_PIXELS} pixels")
            picture = opened.convert(colours)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise TaskFailed("bad_input", f"{name}: it is no picture that can be read") from error
    return picture if picture.size == size else picture.resize(size, Image.Resampling.LANCZOS)
