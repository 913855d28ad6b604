# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""The autoencoder of clips: a small AutoencoderKLWan, 8 by 8 pixels and 4 frames a latent.

The first frame has latents of its own, then every four frames together (Wan Team 2025). It learns
fast because its convolutions look at no frame before those of a latent: their taps are zero, and
stay so. Frames are joined where their number is halved or doubled, and only there. So whole clips
go through at once as if they were pictures, with fast kernels; the stock class, frame by frame,
gives the same.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .autoencoder import COLOUR, as_pixels, as_tensor
from .glyphs import Pixels
from .motions import choose, draw
from .runner import Learner, Losses, Phase, Report, learn, tile, write_whole

LATENTS = 16
"""Channels."""

DOWN, TIME = 8, 4
"""Pixels a latent along a side, and frames."""

PATCH = 2
"""Pixels of a side that are channels of one position from the start."""

BATCH, TAUGHT_FRAMES = 4, 5
"""Clips a step, and frames of each."""

KL = 2e-4
"""What the divergence from the normal distribution counts, per latent, beside the pixels."""

MOVING = 3.0
"""How much more than a pixel of the background one of the glyph counts."""


def autoencoder(base: int = 32) -> Any:
    """An untaught one."""
    from diffusers import AutoencoderKLWan
    from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d

    made = AutoencoderKLWan(
        base_dim=base,
        z_dim=LATENTS,
        dim_mult=[1, 2, 2],
        num_res_blocks=1,
        temperal_downsample=[True, True],
        is_residual=True,
        in_channels=3 * PATCH**2,
        out_channels=3 * PATCH**2,
        patch_size=PATCH,
        latents_mean=[0.0] * LATENTS,
        latents_std=[1.0] * LATENTS,
        scale_factor_spatial=DOWN,
        scale_factor_temporal=TIME,
    )
    for each in made.modules():
        if isinstance(each, WanCausalConv3d):
            _look_at_own_frames(each)
    return made


def _look_at_own_frames(convolution: Any) -> None:
    """Leave out the frames of the latent before: those taps are zero, and stay so."""
    kernel = convolution.weight
    taps = kernel.shape[2]
    own = 2 if convolution.stride[0] == 2 else 1
    kept = torch.zeros(1, 1, taps, 1, 1)
    kept[:, :, -own:] = 1
    with torch.no_grad():
        # As wide as if there were no others.
        kernel *= kept * (taps / own) ** 0.5

    def of_own(gradient: Tensor) -> Tensor:
        return gradient * kept

    kernel.register_hook(of_own)


@contextmanager
def folded(model: Any) -> Generator[None]:
    """Within it, the halves of the model take clips as pictures: ``(clips * frames, C, 1, h, w)``."""
    from diffusers.models.autoencoders.autoencoder_kl_wan import (
        WanCausalConv3d,
        WanResample,
        WanResidualDownBlock,
        WanResidualUpBlock,
        WanRMS_norm,
    )

    changed: list[Any] = []
    for each in model.modules():
        if isinstance(each, WanCausalConv3d) and each.kernel_size != (3, 1, 1):
            each.forward = MethodType(_spatial, each)
        elif isinstance(each, WanRMS_norm):
            each.forward = MethodType(_normed, each)
        elif isinstance(each, WanResample):
            each.forward = MethodType(_resampled, each)
        elif isinstance(each, WanResidualDownBlock):
            each.forward = MethodType(_down, each)
        elif isinstance(each, WanResidualUpBlock):
            each.forward = MethodType(_up, each)
        else:
            continue
        changed.append(each)
    try:
        yield
    finally:
        for each in changed:
            del each.forward


CLIPS = "_clips"
"""Attribute of what joins frames: how many clips are folded; set by :func:`_told`."""


def _spatial(self: Any, x: Tensor, cache_x: Any = None) -> Tensor:
    del cache_x
    kernel = self.weight[:, :, -1]
    return functional.conv2d(x[:, :, 0], kernel, self.bias, padding=kernel.shape[-1] // 2)[
        :, :, None
    ]


def _normed(self: Any, x: Tensor) -> Tensor:
    gain = x.square().sum(1, keepdim=True).add(1e-12).rsqrt()
    made: Tensor = x * (gain * self.scale) * self.gamma.to(x.dtype)
    return made


def _resampled(self: Any, x: Tensor, feat_cache: Any = None, feat_idx: Any = None) -> Tensor:
    del feat_cache, feat_idx
    if self.mode == "upsample3d":
        first, rest = _unfolded(x, self)
        if rest.shape[2]:
            clips, channels, frames, high, wide = rest.shape
            grown = self.time_conv(rest).view(clips, 2, channels, frames, high, wide)
            rest = grown.permute(0, 2, 3, 1, 4, 5).reshape(clips, channels, 2 * frames, high, wide)
        x = _fold(torch.cat([first, rest], 2))
    x = self.resample(x[:, :, 0])[:, :, None]
    if self.mode == "downsample3d":
        first, rest = _unfolded(x, self)
        if rest.shape[2]:
            rest = self.time_conv(torch.cat([first, rest], 2))
        x = _fold(torch.cat([first, rest], 2))
    return x


def _down(self: Any, x: Tensor, feat_cache: Any = None, feat_idx: Any = None) -> Tensor:
    del feat_cache, feat_idx
    first, rest = _unfolded(x, self)
    short = [self.avg_shortcut(part) for part in (first, rest) if part.shape[2]]
    for each in (*self.resnets, self.downsampler):
        x = x if each is None else each(x)
    return x + _fold(torch.cat(short, 2))


def _up(
    self: Any,
    x: Tensor,
    feat_cache: Any = None,
    feat_idx: Any = None,
    first_chunk: bool = False,
) -> Tensor:
    del feat_cache, feat_idx, first_chunk
    first, rest = _unfolded(x, self)
    for each in (*self.resnets, self.upsampler):
        x = x if each is None else each(x)
    if self.avg_shortcut is None:
        return x
    short = [self.avg_shortcut(first, first_chunk=True)]
    short += [self.avg_shortcut(rest)] if rest.shape[2] else []
    return x + _fold(torch.cat(short, 2))


def _unfolded(x: Tensor, joining: Any) -> tuple[Tensor, Tensor]:
    """Of all clips, the first frame and the others: ``(clips, C, frames, h, w)``."""
    whole = _clips_of(x, getattr(joining, CLIPS))
    return whole[:, :, :1], whole[:, :, 1:]


def _fold(whole: Tensor) -> Tensor:
    return whole.transpose(1, 2).flatten(0, 1)[:, :, None]


def _told(model: Any, clips: int) -> None:
    for each in model.modules():
        if hasattr(each, "resample") or hasattr(each, "avg_shortcut"):
            setattr(each, CLIPS, clips)


def encode(model: Any, clips: Tensor) -> Any:
    """The distribution of latents of ``(clips, 3, frames, height, width)``, all frames at once."""
    from diffusers.models.autoencoders.autoencoder_kl_wan import patchify
    from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution

    count = len(clips)
    with folded(model):
        _told(model, count)
        made = model.quant_conv(model.encoder(_fold(patchify(clips, PATCH))))
    return DiagonalGaussianDistribution(_clips_of(made, count))


def decode(model: Any, latents: Tensor) -> Tensor:
    """The way back, not cut off at -1 and 1."""
    from diffusers.models.autoencoders.autoencoder_kl_wan import unpatchify

    count = len(latents)
    with folded(model):
        _told(model, count)
        made = model.decoder(model.post_quant_conv(_fold(latents)))
    whole: Tensor = unpatchify(_clips_of(made, count), PATCH)
    return whole


def _clips_of(x: Tensor, count: int) -> Tensor:
    flat = x[:, :, 0]
    return flat.reshape(count, -1, *flat.shape[1:]).transpose(1, 2)


def clips(count: int, rng: np.random.Generator) -> Pixels:
    """Clips without held-out combinations, all frames: ``(count, frames, height, width, 3)``."""
    return np.stack([draw(choose(rng), rng) for _ in range(count)])


def taught(rng: np.random.Generator) -> Tensor:
    """Of a batch, some frames in a row of each, a part with their channels exchanged."""
    made = clips(BATCH, rng)
    start = int(rng.integers(made.shape[1] - TAUGHT_FRAMES + 1))
    made = made[:, start : start + TAUGHT_FRAMES]
    for number in np.flatnonzero(rng.random(BATCH) < 0.2):
        made[number] = made[number][..., rng.permutation(3)]
    return as_tensor(made)


def losses_of(model: Any, wanted: Tensor) -> Losses:
    """How far clips are from themselves when they were there and back."""
    with torch.autocast("cpu", torch.bfloat16):
        spread = encode(model, wanted)
        made = decode(model, spread.sample())
    away = made.float() - wanted
    corner = wanted[:, :, :, :1, :1]
    weight = 1 + MOVING * ((wanted - corner).abs().amax(1, keepdim=True) > 0.1)
    square = away.square().mean()
    apart = spread.kl().mean() / spread.mean[0].numel()
    colour = (away - away.roll(1, 1)).abs().mul(weight).mean()
    loss = (away.abs() + away.square()).mul(weight).mean() + COLOUR * colour + KL * apart.float()
    return {"loss": loss, "square": square.detach(), "kl": apart.detach()}


def train_autoencoder(folder: Path, seconds: float, report: Report, seed: int = 1) -> Any:
    """Teach it, or take it as it is once taught; frozen, with the mean and spread of its latents."""
    torch.manual_seed(seed)
    model, path = autoencoder(), folder / "model.pt"
    if path.exists():
        held = torch.load(path, weights_only=True)
        model.load_state_dict(held["model"])
        model.register_to_config(latents_mean=held["mean"], latents_std=held["std"])
        return model.requires_grad_(False).eval()
    rng = np.random.default_rng(seed)
    phase = Phase(seconds=seconds, rate=2e-3, average=0.998, sheet_seconds=240)
    learner = Learner({"autoencoder": model}, phase)
    shown = as_tensor(clips(12, np.random.default_rng(0)))

    def losses() -> tuple[Losses, int]:
        return losses_of(model, taught(rng)), BATCH

    def sheet(out: Path) -> None:
        with torch.no_grad():
            back = decode(model, encode(model, shown).mode())
        report(f"{folder.name}: {decibels(back, shown):.1f} dB on {len(shown)} clips")
        frames = torch.stack([shown, back], 1).flatten(0, 1)[:, :, [0, 3, 6, 9, 12, 15]]
        tile(as_pixels(frames.transpose(1, 2).flatten(0, 1)[:, :, None])[:, 0], 12, out)

    learn(learner, losses, folder, report, sheet)
    learner.swap()
    mean, std = spread_of(model, as_tensor(clips(256, rng)))
    model.register_to_config(latents_mean=mean, latents_std=std)
    write_whole({"model": model.state_dict(), "mean": mean, "std": std}, path)
    return model.requires_grad_(False).eval()


def spread_of(model: Any, shown: Tensor) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of the latents of clips, for each channel."""
    with torch.no_grad():
        made = torch.cat([encode(model, part).mode() for part in torch.split(shown, 16)])
    return made.mean((0, 2, 3, 4)).tolist(), made.std((0, 2, 3, 4)).tolist()


def decibels(made: Tensor, wanted: Tensor) -> float:
    """How close clips are: the mean over them of the peak signal to noise ratio."""
    square = (made.clamp(-1, 1) - wanted).square().mean((1, 2, 3, 4)) / 4
    return float((-10 * square.clamp(min=1e-8).log10()).mean())
