# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""The autoencoder of pictures: a small AutoencoderKL, four pixels a latent along a side.

When it has learnt, its latents are made to have no mean and unit variance in each channel, by
changing the two 1x1 convolutions beside them: the pipeline knows but one factor for all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .captions import scene
from .glyphs import Pixels
from .runner import Learner, Losses, Phase, Report, learn, tile, write_whole

LATENTS = 4
"""Channels."""

DOWN = 4
"""Pixels a latent, along a side."""

BATCH = 16
KL = 5e-4
"""What the divergence from the normal distribution counts, per latent, beside the pixels."""

COLOUR = 0.5
"""What differences between channels count, beside the pixels."""

CHANNELS = (24, 48, 64)


def autoencoder(channels: tuple[int, ...] | None = None) -> Any:
    """An untaught one, of :data:`CHANNELS` unless others are given."""
    from diffusers import AutoencoderKL

    channels = channels or CHANNELS
    kind: Any = AutoencoderKL
    return kind(
        block_out_channels=channels,
        down_block_types=("DownEncoderBlock2D",) * len(channels),
        up_block_types=("UpDecoderBlock2D",) * len(channels),
        layers_per_block=1,
        norm_num_groups=8,
        latent_channels=LATENTS,
        sample_size=64,
        scaling_factor=1.0,
    )


def as_tensor(pictures: Pixels) -> Tensor:
    """``(n, ..., 3)`` of 0 to 255, pictures or clips, to ``(n, 3, ...)`` of -1 to 1."""
    return torch.from_numpy(np.moveaxis(pictures, -1, 1).astype(np.float32) / 127.5 - 1)


def as_pixels(pictures: Tensor) -> Pixels:
    """The way back."""
    scaled = (pictures.float().clamp(-1, 1) + 1) * 127.5
    return np.moveaxis(scaled.round().byte().numpy(), 1, -1)


def pictures(count: int, rng: np.random.Generator) -> Pixels:
    """Scenes, a part of them with their channels exchanged, for more colours."""
    made = np.stack([scene(rng).picture for _ in range(count)])
    for number in np.flatnonzero(rng.random(count) < 0.3):
        made[number] = made[number][..., rng.permutation(3)]
    return made


def train_autoencoder(folder: Path, seconds: float, report: Report, seed: int = 1) -> Any:
    """Teach it, or take it as it is once taught; frozen, its latents normed."""
    torch.manual_seed(seed)
    model, path = autoencoder(), folder / "model.pt"
    if path.exists():
        model.load_state_dict(torch.load(path, weights_only=True))
        return model.requires_grad_(False).eval()
    rng = np.random.default_rng(seed)
    phase = Phase(seconds=seconds, rate=1.5e-3, average=0.998, sheet_seconds=300)
    learner = Learner({"autoencoder": model}, phase)
    shown = as_tensor(pictures(16, np.random.default_rng(0)))

    def losses() -> tuple[Losses, int]:
        wanted = as_tensor(pictures(BATCH, rng))
        with torch.autocast("cpu", torch.bfloat16):
            spread = model.encode(wanted).latent_dist
            made = model.decode(spread.sample(), return_dict=False)[0]
        away = made.float() - wanted
        square = away.square().mean()
        apart = spread.kl().mean() / spread.mean[0].numel()
        # Of the colour alone, in which pixels differ less: else all is drawn greyish for long.
        colour = (away - away.roll(1, 1)).abs().mean()
        loss = away.abs().mean() + square + COLOUR * colour + KL * apart.float()
        parts = {"loss": loss, "square": square.detach(), "kl": apart.detach()}
        return parts, BATCH

    def sheet(out: Path) -> None:
        back = reconstruct(model, shown)
        report(f"{folder.name}: {decibels(back, shown):.1f} dB on 16 scenes")
        both = torch.stack([shown, back], 1).flatten(0, 1)
        tile(as_pixels(both), 8, out)

    learn(learner, losses, folder, report, sheet)
    learner.swap()
    norm(model, as_tensor(pictures(256, rng)))
    write_whole(model.state_dict(), path)
    return model.requires_grad_(False).eval()


def reconstruct(model: Any, pictures: Tensor) -> Tensor:
    """Pictures there and back."""
    with torch.no_grad():
        made: Tensor = model.decode(model.encode(pictures).latent_dist.mode(), return_dict=False)[0]
    return made


def decibels(made: Tensor, wanted: Tensor) -> float:
    """How close pictures are: the mean over them of the peak signal to noise ratio."""
    square = (made.clamp(-1, 1) - wanted).square().mean((1, 2, 3)) / 4
    return float((-10 * square.clamp(min=1e-8).log10()).mean())


def norm(model: Any, pictures: Tensor) -> None:
    """Shift and scale the latents, so that those of ``pictures`` have no mean and variance 1."""
    with torch.no_grad():
        latents = torch.cat(
            [model.encode(part).latent_dist.mode() for part in torch.split(pictures, 32)]
        )
        mean, spread = latents.mean((0, 2, 3)), latents.std((0, 2, 3))
        into, out = model.quant_conv, model.post_quant_conv
        into.bias[:LATENTS] = (into.bias[:LATENTS] - mean) / spread
        into.weight[:LATENTS] /= spread[:, None, None, None]
        into.bias[LATENTS:] -= 2 * spread.log()
        out.bias += (out.weight[..., 0, 0] * mean).sum(1)
        out.weight *= spread[None, :, None, None]
