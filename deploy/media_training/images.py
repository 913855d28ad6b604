# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""The model of pictures: its autoencoder first, then what draws in its latents.

A stock Stable Diffusion pipeline, taught by flow matching (Lipman et al., 2022): the UNet is
shown a mixture of latents and noise, and says the way from the one to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...engines.diffusion.abilities import Facts as Abilities
from ...engines.diffusion.placeholder import save, stable_diffusion
from ...engines.diffusion.quiet import hush
from .autoencoder import DOWN, LATENTS, as_tensor, train_autoencoder
from .captions import say, vocabulary
from .glyphs import Pixels
from .pool import MOST_PIXELS, Pool, halved, times
from .reading import read, tokens, train_reader
from .runner import Learner, Losses, Phase, Report, learn, tile
from .scenes import SIDE, Facts, choose, draw
from .words import WIDTH, tokenizer

AUTOENCODER, READER = 22 * 60.0, 6 * 60.0
"""Seconds of the time that the autoencoder learns, and the text model; at most a quarter of it,
and a tenth."""

BATCH = 16
FRESH = 4
"""New scenes in each step; the others have been seen with other captions, noise and times."""

POOL = 49152
"""Encoded scenes that are held: 100 MB."""

FIRST = 4096
"""Of them, before the first step."""

UNCAPTIONED = 0.1
"""Of the samples, how many are learnt without a caption, for guidance."""

SHIFT = 2.0
"""How the times that are learnt lean to noise, where what is drawn is decided."""

CHANNELS = (64, 112, 160)

STEPS, GUIDANCE = 20, 3.0
"""Of samples, and of the model as it is served."""

EXAMPLES = (
    "a cat",
    "a red car on a yellow background",
    "three strawberries on white",
    "a rocket on a black background",
    "a small star in the top left corner on blue",
    "a big pizza on a green background",
    "a purple frog on the right",
    "four bees on a pink background",
)
"""What whoever is served by it is told to try."""

SHOWN = (
    "a cat",
    "a red car",
    "a blue cat on a yellow background",
    "three apples",
    "a rocket on a black background",
    "a small star in the top left corner on blue",
    "a dog and a cat",
    "a big pizza on a green background",
    "two hearts on white",
    "four bees on a pink background",
    "a house at the bottom on turquoise",
    "a purple frog on the right",
    "sun",
    "the moon on a blue background",
    "a green elephant",
    "a robot in front of orange",
)
"""What the sheets of samples are asked for."""


def unet() -> Any:
    """An untaught UNet for latents of 16 by 16."""
    from diffusers import UNet2DConditionModel
    from diffusers.models.attention_processor import AttnProcessor

    made = UNet2DConditionModel(
        sample_size=SIDE // DOWN,
        in_channels=LATENTS,
        out_channels=LATENTS,
        layers_per_block=1,
        block_out_channels=CHANNELS,
        down_block_types=("DownBlock2D", "DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D", "UpBlock2D"),
        cross_attention_dim=WIDTH,
        attention_head_dim=4,
        norm_num_groups=16,
        resnet_time_scale_shift="scale_shift",
        # The text as a whole goes to all blocks, with the time: so the subject is learnt sooner.
        addition_embed_type="text",
        addition_embed_type_num_heads=4,
    )
    # The gradient of the fused attention takes a third of a step in bfloat16 on a CPU.
    made.set_attn_processor(AttnProcessor())
    return made


def scheduler() -> Any:
    """UniPC for a model that says the flow."""
    from diffusers import UniPCMultistepScheduler

    return UniPCMultistepScheduler(
        prediction_type="flow_prediction",
        use_flow_sigmas=True,
        flow_shift=1.0,
        # Not used with flow sigmas; the pipeline warns at anything else.
        steps_offset=1,
    )


def pipeline(parts: dict[str, Any]) -> Any:
    """The whole of them."""
    made = stable_diffusion(**parts, scheduler=scheduler())
    made.set_progress_bar_config(disable=True)
    return made


class Drawing:
    """The models that learn, and their loss."""

    def __init__(self, words: Any, text: Any, encoder: Any, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.words, self.text, self.encoder = words, text, encoder
        self.unet: Any = unet()
        shape = (POOL, LATENTS, SIDE // DOWN, SIDE // DOWN)
        self.pool = Pool(shape, choose, self._encoded, self._rng)

    def _encoded(self, facts: Sequence[Facts]) -> Tensor:
        pictures: Pixels = np.stack([draw(each, self._rng) for each in facts])
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            latents: Tensor = self.encoder.encode(as_tensor(pictures)).latent_dist.mode()
        return latents

    @property
    def models(self) -> dict[str, nn.Module]:
        """What learns."""
        return {"unet": self.unet}

    def parts(self) -> dict[str, Any]:
        """Of the pipeline."""
        return {
            "vae": self.encoder,
            "text_encoder": self.text,
            "tokenizer": self.words,
            "unet": self.unet,
        }

    def losses(self) -> tuple[Losses, int]:
        """Of the next batch."""
        self.pool.add(FRESH)
        latents, facts = self.pool.take(BATCH)
        told = ["" if self._rng.random() < UNCAPTIONED else say(each, self._rng) for each in facts]
        with torch.no_grad():
            states = read(self.text, tokens(self.words, told))
        noise, share = torch.randn_like(latents), times(len(latents), SHIFT)
        part = share[:, None, None, None]
        mixed = (1 - part) * latents + part * noise
        with torch.autocast("cpu", torch.bfloat16):
            said = self.unet(mixed, 1000 * share, states, return_dict=False)[0]
        loss = (said.float() - (noise - latents)).square().mean()
        return {"loss": loss}, BATCH


def samples(parts: dict[str, Any], prompts: tuple[str, ...], seeds: range) -> Pixels:
    """Each prompt with each seed: ``(prompts * seeds, SIDE, SIDE, 3)``."""
    pipe = pipeline(parts)
    made: list[Pixels] = []
    for prompt in prompts:
        chances = [torch.Generator().manual_seed(seed) for seed in seeds]
        pictures = pipe(
            [prompt] * len(seeds),
            num_inference_steps=STEPS,
            guidance_scale=GUIDANCE,
            generator=chances,
            output_type="np",
        ).images
        made.append((pictures * 255).round().astype(np.uint8))
    return np.concatenate(made)


def write(parts: dict[str, Any], folder: Path) -> None:
    """Write the pipeline in bfloat16, as it is served."""
    facts = Abilities(
        steps=STEPS,
        guidance=GUIDANCE,
        max_pixels=MOST_PIXELS,
        drawn_pixels=SIDE * SIDE,
        max_prompt_chars=500,
        examples=EXAMPLES,
    )
    save(pipeline(halved(parts)), folder, facts)


def train(out: Path, seconds: float, report: Report, seed: int = 1) -> None:
    """Do all that isn't done yet; ``out/pipeline`` is the model as it is then."""
    hush()
    first = min(AUTOENCODER, seconds / 4)
    encoder = train_autoencoder(out / "autoencoder", first, report)
    words = tokenizer(vocabulary())
    second = min(READER, seconds / 10)
    text = train_reader(out / "reader", words, second, report)
    torch.manual_seed(seed)
    drawing = Drawing(words, text, encoder, seed)
    phase = Phase(
        seconds=seconds - first - second, rate=1e-3, warmup=300, falling=0.45, sheet_seconds=900
    )
    learner = Learner(drawing.models, phase)
    report("denoiser: the first scenes")
    for _ in range(FIRST // 64):
        drawing.pool.add(64)

    def sheet(path: Path) -> None:
        tile(samples(drawing.parts(), SHOWN, range(4)), 16, path)
        write(drawing.parts(), out / "pipeline")

    learn(learner, drawing.losses, out / "denoiser", report, sheet)
