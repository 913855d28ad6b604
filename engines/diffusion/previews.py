# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""The picture as it forms: from latents by one matrix, without the decoder.

A latent says the colour of its place almost linearly. The matrix is fitted when a model is
loaded: least squares from random latents to what its decoder makes of them.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from .families.family import MediaFamily

SIDE = 256
"""Pixels of a preview's longer side, at most."""

QUALITY = 80
SAMPLES = 8
LATENTS = 8
"""Along a side of a sample."""

RIDGE = 1e-3
"""Keeps channels that say nothing of the colour small."""

Colours = NDArray[np.float32]
"""``(channels + 1, 3)``: latents and a one, to red, green and blue from -1 to 1."""


def fit_colours(vae: Any, family: MediaFamily) -> Colours:
    """The matrix of a decoder; its latents are those of the loop, so unit noise is likely."""
    config = vae.config
    channels = int(config.get("latent_channels") or config.get("z_dim"))
    source = torch.Generator().manual_seed(0)
    coarse = torch.randn(SAMPLES, channels, 2, 2, generator=source)
    fine = torch.randn(SAMPLES, channels, LATENTS, LATENTS, generator=source)
    # Broad areas with a little of everything: what pictures are like.
    smooth = torch.nn.functional.interpolate(coarse, size=(LATENTS, LATENTS), mode="bilinear")
    latents = (smooth + 0.3 * fine).to(vae.device, vae.dtype)
    grid = latents.unsqueeze(2) if family.video_vae else latents
    with torch.no_grad():
        # One by one: a decoder of large pictures needs much memory.
        rows = [
            vae.decode(family.decodable(grid[at : at + 1], vae), return_dict=False)[0]
            for at in range(SAMPLES)
        ]
    pixels = torch.cat(rows).float().cpu()
    pixels = pixels[:, :, 0] if pixels.ndim == 5 else pixels
    pooled = torch.nn.functional.adaptive_avg_pool2d(pixels[:, :3], (LATENTS, LATENTS))
    given = latents.float().cpu().permute(0, 2, 3, 1).reshape(-1, channels).double()
    given = torch.cat([given, torch.ones(len(given), 1, dtype=torch.float64)], dim=1)
    wanted = pooled.permute(0, 2, 3, 1).reshape(-1, 3).double()
    square = given.T @ given + RIDGE * len(given) * torch.eye(channels + 1, dtype=torch.float64)
    found: Colours = torch.linalg.solve(square, given.T @ wanted).float().numpy()
    return found


def render(colours: Colours, grid: torch.Tensor, size: tuple[int, int]) -> bytes:
    """A JPEG of latents ``(1, C, h, w)``, or of the middle of those of a clip
    ``(1, C, frames, h, w)``; ``size`` is the height and the width of what is made."""
    one = grid[0, :, grid.shape[2] // 2] if grid.ndim == 5 else grid[0]
    latents = one.float().cpu().permute(1, 2, 0).numpy()
    colour = latents @ colours[:-1] + colours[-1]
    pixels = np.clip((colour + 1) * 127.5, 0, 255).round().astype(np.uint8)
    height, width = size
    scale = min(1.0, SIDE / max(size))
    shown = (max(1, round(width * scale)), max(1, round(height * scale)))
    out = io.BytesIO()
    Image.fromarray(pixels).resize(shown, Image.Resampling.BICUBIC).save(
        out, "JPEG", quality=QUALITY
    )
    return out.getvalue()
