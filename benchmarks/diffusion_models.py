# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""Pipelines with random weights for the benchmark of jobs, and the plain loop over them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.engines.diffusion.switches import Switches
from antiphon.engines.diffusion.task import MediaTask

ONE_THREAD = Switches(threads=1)
"""For the model, in whatever way it is run: what two of a busy machine do is chance."""


@dataclass(frozen=True)
class Case:
    """A pipeline and what is asked of it."""

    name: str
    side: int
    """Pixels."""

    steps: int
    make: Callable[[Path], Path]
    """Writes the pipeline into a folder; returns the pipeline's own."""

    batched: float
    """Of the pictures that one by one come in a second, so many have to come of eight that
    arrive over time."""

    def task(self, seed: int, steps: int | None = None) -> MediaTask:
        return MediaTask(
            kind="image",
            model=self.name,
            prompt=f"a cat in {seed} colours",
            width=self.side,
            height=self.side,
            steps=steps or self.steps,
            guidance=7.5,
            seed=seed,
        )


def _placeholder(folder: Path) -> Path:
    from antiphon.engines.diffusion.placeholder import ensure

    return ensure("placeholder-image", folder)


def _small(folder: Path) -> Path:
    """Stable Diffusion whose UNet has 7 million weights: tens of ms for a step on one core."""
    import torch
    from diffusers import DPMSolverMultistepScheduler
    from transformers import CLIPTextModel

    from antiphon.engines.diffusion import placeholder
    from antiphon.engines.diffusion.abilities import Facts

    torch.manual_seed(0)
    pipe = placeholder.stable_diffusion(
        vae=placeholder.kl_autoencoder(block_out_channels=(32, 32, 64, 64)),
        text_encoder=CLIPTextModel(placeholder.clip_settings()),
        tokenizer=placeholder.clip_tokenizer(),
        unet=placeholder.unet(
            sample_size=32,
            block_out_channels=(48, 96, 192),
            down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
            attention_head_dim=8,
            norm_num_groups=16,
        ),
        scheduler=DPMSolverMultistepScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1
        ),
    )
    placeholder.save(pipe, folder / "small", Facts(steps=20, untrained=True))
    return folder / "small"


CASES: Mapping[str, Case] = {
    "sd-256": Case("sd-256", 256, 20, _small, 0.97),
    "tiny-64": Case("tiny-64", 64, 20, _placeholder, 1.25),
}
"""One whose model is all of the work, so that batches save nothing, and one of calls so small
that most of a step is Python's."""


class Plain:
    """What one would write without a server: diffusers' own pipeline in a loop."""

    def __init__(self, folder: Path, case: Case) -> None:
        import torch
        from diffusers import DiffusionPipeline

        from antiphon.engines.diffusion.quiet import hush

        hush()
        torch.set_num_threads(1)
        kind: Any = DiffusionPipeline
        self._pipe = kind.from_pretrained(
            str(folder), safety_checker=None, feature_extractor=None, local_files_only=True
        )
        self._pipe.set_progress_bar_config(disable=True)
        self._case = case

    def make(self, seed: int, target: Path) -> tuple[float, float]:
        """Make a picture and save it as PNG; returns seconds for the picture, and for both."""
        import torch

        task, began = self._case.task(seed), time.perf_counter()
        picture = self._pipe(
            prompt=task.prompt,
            num_inference_steps=task.steps,
            guidance_scale=task.guidance,
            height=task.height,
            width=task.width,
            generator=torch.Generator("cpu").manual_seed(seed),
        ).images[0]
        made = time.perf_counter() - began
        picture.save(target)
        return made, time.perf_counter() - began
