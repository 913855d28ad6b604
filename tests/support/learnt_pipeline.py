# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""A tiny Stable Diffusion that has learnt a handful of pictures by heart, in some seconds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from antiphon.engines.diffusion.abilities import Facts
from antiphon.engines.diffusion.placeholder import (
    clip_settings,
    clip_tokenizer,
    kl_autoencoder,
    save,
    stable_diffusion,
    unet,
)

SIDE = 32

COLOURS: Mapping[str, tuple[int, int, int]] = {
    "red": (220, 30, 40),
    "green": (30, 160, 60),
    "blue": (40, 70, 220),
}
PLACES = ("left", "top")

PROMPTS: Mapping[str, tuple[str, str]] = {
    f"{colour} {place}": (colour, place) for colour in COLOURS for place in PLACES
}
"""What it knows: half of the picture has a colour, the rest is white."""

_PICTURE_STEPS, _NOISE_STEPS = 160, 450


def half(colour: str, place: str) -> NDArray[np.uint8]:
    """A picture, ``(SIDE, SIDE, 3)``."""
    drawn = np.full((SIDE, SIDE, 3), 255, np.uint8)
    where = (slice(None), slice(SIDE // 2)) if place == "left" else (slice(SIDE // 2),)
    drawn[where] = COLOURS[colour]
    return drawn


def make(folder: Path) -> None:
    """Teach it, and write its folder."""
    from diffusers import DPMSolverMultistepScheduler
    from transformers import CLIPTextModel

    torch.manual_seed(0)
    drawn = np.stack([half(*PROMPTS[prompt]) for prompt in PROMPTS])
    pictures = torch.from_numpy(drawn).permute(0, 3, 1, 2) / 127.5 - 1
    vae = kl_autoencoder()
    latents = _learn_pictures(vae, pictures)
    vae.register_to_config(scaling_factor=1.0)
    words, reader = clip_tokenizer(), CLIPTextModel(clip_settings())
    read = words([*PROMPTS], padding="max_length", return_tensors="pt")
    denoiser = unet()
    scheduler = DPMSolverMultistepScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1
    )
    _learn_noise(denoiser, reader, scheduler, latents, read.input_ids)
    pipe = stable_diffusion(
        vae=vae,
        text_encoder=reader,
        tokenizer=words,
        unet=denoiser,
        scheduler=scheduler,
    )
    save(pipe, folder, Facts(steps=12, guidance=1.0))


def _learn_pictures(vae: Any, pictures: torch.Tensor) -> torch.Tensor:
    """Returns their latents, which are as different as can be: only the way back is learnt."""
    side = SIDE // 8
    latents = torch.randn(len(pictures), 4, side, side)
    optimizer = torch.optim.AdamW(vae.decoder.parameters(), lr=4e-3)
    for _ in range(_PICTURE_STEPS):
        # What is near a latent gives its picture as well.
        around = latents + 0.1 * torch.randn_like(latents)
        loss = functional.l1_loss(vae.decode(around).sample, pictures)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    vae.eval()
    return latents


def _learn_noise(
    denoiser: Any, reader: Any, scheduler: Any, latents: torch.Tensor, ids: torch.Tensor
) -> None:
    learning = [*denoiser.parameters(), *reader.parameters()]
    optimizer = torch.optim.AdamW(learning, lr=3e-3)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=_NOISE_STEPS)
    shares = scheduler.alphas_cumprod
    for _ in range(_NOISE_STEPS):
        which = torch.randint(len(latents), (24,))
        moments = torch.randint(len(shares), (24,))
        share = shares[moments][:, None, None, None]
        noise = torch.randn(24, *latents.shape[1:])
        mixed = share.sqrt() * latents[which] + (1 - share).sqrt() * noise
        states = reader(ids).last_hidden_state
        said = denoiser(mixed, moments, states[which]).sample
        loss = functional.mse_loss(said, noise)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        rate.step()
    denoiser.eval()
    reader.eval()
