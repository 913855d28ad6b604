# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""An eye that tells glyphs: a small net that puts pictures of them into a space of features.

It is taught apart from what draws, on glyphs rendered from the atlas, on any background, in any
tint, blurred, shifted and noisy. What it looks at is named by the nearest rendered glyphs.

    python -m benchmarks.drawing_eye [--minutes 4]

teaches it anew and writes ``drawing_eye.npz``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.deploy.media_training.glyphs import (
    COLOURS,
    TINTS,
    Pixels,
    glyphs,
    paste,
    sprite,
    tinted,
    visible,
)

WEIGHTS = Path(__file__).with_suffix(".npz")

SIDE = 32
"""Pixels of a side of what it looks at."""

FEATURES = 64
SHARP = 16.0
"""What likeness, -1 to 1, is multiplied with while it learns."""


class Eye(nn.Module):
    """Pictures ``(n, 3, SIDE, SIDE)`` of 0 to 1 to features ``(n, FEATURES)`` of length 1."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 96, 3, 2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(96 * 16, FEATURES),
        )

    def forward(self, pictures: Tensor) -> Tensor:
        """See the class."""
        return functional.normalize(self.layers(2 * pictures - 1), dim=1)


def seen(picture: Pixels, box: tuple[int, int, int, int]) -> Tensor:
    """A part of a picture ``(height, width, 3)`` as the eye looks at it: ``(3, SIDE, SIDE)``.

    ``box``: top, left, bottom, right of what is drawn; it is looked at as a square around it.
    """
    top, left, bottom, right = box
    half = max(bottom - top, right - left) / 2 + 1
    middle = (top + bottom) / 2, (left + right) / 2
    pixels = torch.from_numpy(picture.astype(np.float32) / 255).permute(2, 0, 1)[None]
    steps = (torch.arange(SIDE) + 0.5) / SIDE * 2 - 1
    height, width = picture.shape[:2]
    down = ((middle[0] + steps * half) / height) * 2 - 1
    across = ((middle[1] + steps * half) / width) * 2 - 1
    grid = torch.stack(
        [across[None, :].expand(SIDE, SIDE), down[:, None].expand(SIDE, SIDE)], dim=-1
    )
    # What lies outside is as the edge is: background.
    return functional.grid_sample(pixels, grid[None], padding_mode="border", align_corners=False)[0]


def rendered(number: int, side: int, background: Sequence[int], tint: str | None = None) -> Pixels:
    """One glyph on a square that is a little larger."""
    name = glyphs()[number].name
    picture = np.empty((side + 12, side + 12, 3), np.uint8)
    picture[:] = background
    paste(picture, sprite(name, side) if tint is None else tinted(name, side, tint), 6, 6)
    return picture


def example(rng: np.random.Generator) -> tuple[Tensor, int]:
    """A spoilt picture of any glyph, and the glyph's number."""
    number, side = int(rng.integers(len(glyphs()))), int(rng.integers(20, 56))
    tint = TINTS[int(rng.integers(len(TINTS)))] if rng.random() < 0.3 else None
    while True:
        ground = tuple(COLOURS)[int(rng.integers(len(COLOURS)))]
        if visible(glyphs()[number].name, tint, ground):
            break
    colour = (np.array(COLOURS[ground]) + rng.integers(-15, 16, 3)).clip(0, 255)
    picture = rendered(number, side, colour.tolist(), tint)
    low, high = 6 + rng.uniform(-2, 2, 2), 6 + side + rng.uniform(-2, 2, 2)
    box = (round(low[0]), round(low[1]), round(high[0]), round(high[1]))
    made = seen(picture, box)
    if rng.random() < 0.7:
        made = _blurred(made, float(rng.uniform(0.3, 1.6)))
    return made + 0.04 * float(rng.random()) * torch.randn(made.shape), number


def _blurred(picture: Tensor, width: float) -> Tensor:
    steps = torch.arange(-3, 4).float()
    weights = torch.softmax(-(steps**2) / (2 * width**2), 0)
    across = functional.conv2d(
        functional.pad(picture[:, None], (3, 3, 3, 3), mode="replicate"), weights.view(1, 1, 1, 7)
    )
    return functional.conv2d(across, weights.view(1, 1, 7, 1))[:, 0]


@cache
def eye() -> Eye:
    """The eye as it has been taught."""
    made = Eye()
    with np.load(WEIGHTS) as held:
        made.load_state_dict({name: torch.from_numpy(held[name]).float() for name in held})
    return made.requires_grad_(False).eval()


def features_of_glyphs(net: Eye) -> Tensor:
    """Of each glyph, over a few backgrounds and sizes: ``(glyphs, FEATURES)`` of length 1."""
    grounds = [COLOURS[name] for name in ("white", "grey", "turquoise", "black")]
    made = [
        torch.stack(
            [
                seen(rendered(number, side, ground), (6, 6, 6 + side, 6 + side))
                for side in (24, 40)
                for ground in grounds
            ]
        )
        for number in range(len(glyphs()))
    ]
    with torch.no_grad():
        return functional.normalize(torch.stack([net(each).mean(0) for each in made]), dim=1)


@cache
def _known() -> Tensor:
    return features_of_glyphs(eye())


def nearest(pictures: Tensor, count: int = 3) -> list[list[str]]:
    """The names of the glyphs nearest to each of ``(n, 3, SIDE, SIDE)``, the nearest first."""
    with torch.no_grad():
        likeness = eye()(pictures) @ _known().T
    return [[glyphs()[n].name for n in row] for row in likeness.topk(count).indices.tolist()]


def teach(seconds: float, seed: int = 0) -> Eye:
    """Teach a new one; prints how often it is right."""
    torch.manual_seed(seed)
    rng, net = np.random.default_rng(seed), Eye()
    proxies = nn.Parameter(torch.randn(len(glyphs()), FEATURES))
    optimizer = torch.optim.AdamW([*net.parameters(), proxies], 2e-3, weight_decay=0.02)
    began, step, right = time.monotonic(), 0, 0.0
    while (done := (time.monotonic() - began) / seconds) < 1:
        pairs = [example(rng) for _ in range(64)]
        wanted = torch.tensor([number for _, number in pairs])
        likeness = net(torch.stack([each for each, _ in pairs])) @ functional.normalize(proxies).T
        torch.autograd.backward(functional.cross_entropy(SHARP * likeness, wanted))
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1.0, 2 * (1 - done) + 0.01)
        optimizer.step()
        optimizer.zero_grad()
        right = 0.98 * right + 0.02 * float((likeness.argmax(1) == wanted).float().mean())
        step += 1
        if step % 100 == 0:
            print(f"step {step}: {100 * right:.1f} % right", flush=True)
    return net


def main(arguments: Sequence[str] | None = None) -> int:
    """Teach and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drawing_eye")
    parser.add_argument("--minutes", type=float, default=4)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    net = teach(60 * asked.minutes)
    held = {name: each.numpy().astype(np.float16) for name, each in net.state_dict().items()}
    np.savez_compressed(WEIGHTS, **held)
    return 0


if __name__ == "__main__":
    sys.exit(main())
