# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""The codec that the student speaks: latents of the teacher, four frames at a time, as codes.

Two residual codebooks on the strongest directions of four frames, found by k-means. What the
codes stand for is then learned with their neighbours: the sound of a code depends on what is
beside it. The way back is in the server, :mod:`antiphon.engines.speech.decoders.joe_latents`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...engines.speech.decoders.joe_latents import LatentNet, LatentShape
from ...engines.speech.voices.piper import PiperDecoder

PART = 8192
"""Points whose distances are held at once."""

TRIED = 40
"""Frames of each stretch by which the sensitivity is measured."""


def sensitivity(
    decoder: PiperDecoder, latents: NDArray[np.float32], stretches: int = 3
) -> NDArray[np.float32]:
    """How much each channel of ``latents``, ``(channels, n)``, is heard: ``(channels,)``, mean 1.

    By the change of the spectrum, in decibels, that a change of the channel makes.
    """
    rng = np.random.default_rng(0)
    starts = rng.integers(0, max(1, latents.shape[1] - TRIED), stretches)
    tried = np.stack([latents[:, at : at + TRIED] for at in starts])
    spread = latents.std(axis=1) + 1e-6
    before = _spectrum(decoder.run(tried))
    found = np.zeros(len(latents))
    for channel in range(len(latents)):
        size = 0.3 * spread[channel]
        changed = tried.copy()
        changed[:, channel] += rng.normal(size=changed[:, channel].shape) * size
        found[channel] = np.square(_spectrum(decoder.run(changed)) - before).mean() / size**2
    share: NDArray[np.float32] = (found / found.mean()).astype(np.float32)
    return share


def _spectrum(samples: NDArray[np.float32]) -> NDArray[np.float64]:
    """Logarithms of the power in bands that grow with their pitch."""
    size = min(512, samples.shape[1])
    windows = np.lib.stride_tricks.sliding_window_view(samples, size, axis=1)[:, :: size // 2]
    power = np.abs(np.fft.rfft(windows * np.hanning(size))) ** 2
    edges = np.unique(np.geomspace(3, size // 2 + 1, 33).round().astype(int))
    bands = [power[..., low:high].mean(-1) for low, high in zip(edges, edges[1:], strict=False)]
    return np.log(np.stack(bands, -1) + 1e-4)


def kmeans(points: Tensor, count: int, rounds: int, seed: int = 0) -> Tensor:
    """``count`` centres of ``points``, ``(n, size)``."""
    chance = torch.Generator().manual_seed(seed)
    # With fewer points than centres, some are taken twice.
    picks = torch.randperm(max(len(points), count), generator=chance)[:count] % len(points)
    centres = points[picks].clone()
    for _ in range(rounds):
        at = nearest(points, centres)
        held = torch.bincount(at, minlength=count)
        sums = torch.zeros_like(centres).index_add_(0, at, points)
        centres = torch.where(held[:, None] > 0, sums / held.clamp(min=1)[:, None], centres)
        lone = (held < 2).nonzero().ravel()
        centres[lone] = points[torch.randint(len(points), (len(lone),), generator=chance)]
    return centres


def nearest(points: Tensor, centres: Tensor) -> Tensor:
    """Which of ``centres`` is nearest to each of ``points``: ``(n,)`` int64."""
    half = centres.square().sum(1) / 2
    parts = (points[at : at + PART] for at in range(0, len(points), PART))
    found = [(half - part @ centres.T).argmin(1) for part in parts]
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.int64)


def encode(net: LatentNet, latents: NDArray[np.floating]) -> NDArray[np.int32]:
    """``(channels, n)`` to ``(books, n // frames)``."""
    with torch.no_grad():
        rest = net.compress(rows_of(latents, net))
        codes: list[Tensor] = []
        for book in net.books:
            codes.append(nearest(rest, book))
            rest = rest - book[codes[-1]]
    made: NDArray[np.int32] = torch.stack(codes).numpy().astype(np.int32)
    return made


def rows_of(latents: NDArray[np.floating], net: LatentNet) -> Tensor:
    """Latents as rows of several frames, each channel by how much it is heard."""
    shape, count = net.shape, latents.shape[1] // net.shape.frames
    weighted = torch.from_numpy(latents[:, : count * shape.frames].astype(np.float32).T)
    rows: Tensor = (weighted * net.weights).reshape(count, shape.frames * shape.channels)
    return rows


def fit(
    latents: Sequence[NDArray[np.floating]],
    weights: NDArray[np.float32],
    shape: LatentShape,
    *,
    points: int = 60_000,
    rounds: int = 8,
) -> LatentNet:
    """Find codebooks, and a linear decoder of codes and their neighbours."""
    net = LatentNet(shape).requires_grad_(False)
    with torch.no_grad():
        net.weights.copy_(torch.from_numpy(np.sqrt(weights)))
        parts = [rows_of(each, net) for each in latents]
        rows = torch.cat(parts)
        net.mean.copy_(rows.mean(0))
        centred = rows - net.mean
        _, directions = torch.linalg.eigh(centred.T @ centred / len(rows))
        net.directions.copy_(directions[:, -shape.size :].T)
        rest = net.compress(rows)
        for book in net.books:
            some = torch.randperm(len(rest), generator=torch.Generator().manual_seed(1))[:points]
            book.copy_(kmeans(rest[some], shape.codes, rounds))
            rest = rest - book[nearest(rest, book)]
        _solve(net, parts, rows)
    return net


def _solve(net: LatentNet, parts: Sequence[Tensor], rows: Tensor) -> None:
    """Set the linear decoder to what fits best."""
    wide: list[Tensor] = []
    for part in parts:
        given, sums = net.compress(part), torch.zeros(len(part), net.shape.size)
        for book in net.books:
            sums = sums + book[nearest(given - sums, book)]
        wide.append(net.beside(sums.T[None])[0].T)
    seen = torch.cat([torch.cat(wide), torch.ones(len(rows), 1)], 1)
    normal = seen.T @ seen
    normal += torch.eye(len(normal)) * 1e-4 * normal.diagonal().mean()
    found = torch.linalg.solve(normal, seen.T @ rows)
    net.linear.weight.copy_(found[:-1].T)
    net.linear.bias.copy_(found[-1])


def refine(
    net: LatentNet,
    codes: Sequence[NDArray[np.int32]],
    latents: Sequence[NDArray[np.floating]],
    seconds: float,
    *,
    stretch: int = 48,
    batch: int = 16,
) -> float:
    """Teach the part of the decoder that isn't linear; the share of the error that is left."""
    rows = [rows_of(each, net) for each in latents]
    held = [n for n in range(len(rows)) if len(rows[n]) >= stretch]
    rng = np.random.default_rng(0)
    learned = list(net.correction.requires_grad_(True).parameters())
    optimizer = torch.optim.AdamW(learned, 2e-3, weight_decay=0.01)
    began, before, after = time.monotonic(), 1e-9, 0.0
    while (done := (time.monotonic() - began) / seconds) < 1:
        picks = rng.choice(held, batch)
        starts = [int(rng.integers(0, len(rows[n]) - stretch + 1)) for n in picks]
        given = torch.stack(
            [
                torch.from_numpy(codes[n][:, at : at + stretch].astype(np.int64))
                for n, at in zip(picks, starts, strict=True)
            ]
        )
        wanted = torch.stack(
            [rows[n][at : at + stretch] for n, at in zip(picks, starts, strict=True)]
        )
        inner = slice(net.shape.reach, stretch - net.shape.reach)
        loss = (net.rows(given) - wanted)[:, inner].square().mean()
        with torch.no_grad():
            plain = (net.rows(given, corrected=False) - wanted)[:, inner].square().mean()
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * (0.5 + 0.5 * float(np.cos(np.pi * done)))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        before = 0.98 * before + 0.02 * float(plain)
        after = 0.98 * after + 0.02 * float(loss.detach())
    return after / before
