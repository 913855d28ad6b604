# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""From spectra to samples: the inverse short-time Fourier transform, whole and in stretches."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from .layer import Extent, Rate, State, StreamLayer

Padding: TypeAlias = Literal["center", "same"]
"""Where the samples of the first spectrum lie: around the first sample, so that the last hop of
the whole is missing; or so that each spectrum has its hop."""

TINY = 1e-11
"""Windows that overlap add up to more wherever there are samples."""


class InverseTransform(nn.Module):
    """Spectra as magnitudes and phases to samples; the whole at once.

    The magnitude comes as a logarithm, of which more than :attr:`limit` is cut off, the phase as
    any number: Siuzdak 2023, "Vocos: closing the gap between time-domain and Fourier-based neural
    vocoders". Computed in single precision at the least.
    """

    window: Tensor

    def __init__(
        self, size: int, hop: int, padding: Padding, *, limit: float = 100.0, silent: bool = False
    ) -> None:
        """``size``: of the transform and of its Hann window, samples. ``silent``: whether the
        constant and the fastest part of each spectrum are left out.

        Raises:
            ValueError: ``size`` is not a multiple of ``hop``.
        """
        super().__init__()
        if size % hop or size < 2 * hop:
            raise ValueError(f"expected a transform of several whole hops, got {size} and {hop}")
        self.size = size
        self.hop = hop
        self.padding: Padding = padding
        self.limit = limit
        self.silent = silent
        self.register_buffer("window", torch.hann_window(size), persistent=False)

    @property
    def bins(self) -> int:
        """Frequencies of a spectrum."""
        return self.size // 2 + 1

    @property
    def trim(self) -> int:
        """Samples that are cut off at the start of what the windows add up to."""
        return self.size // 2 if self.padding == "center" else (self.size - self.hop) // 2

    def forward(self, values: Tensor) -> Tensor:
        """``(batch, 2 * bins, count)`` to ``(batch, 1, samples)``."""
        spectra = self.spectra(values)
        window = self.window.to(spectra.real.dtype)
        count = values.shape[-1]
        if self.padding == "center":
            if count < 2:
                return spectra.real.new_zeros(values.shape[0], 1, 0)
            whole: Tensor = torch.istft(spectra, self.size, self.hop, window=window)
            return whole[:, None]
        frames = torch.fft.irfft(spectra, self.size, dim=1) * window[:, None]
        squares = window.square()[None, :, None].expand(1, -1, count)
        total = (1, (count - 1) * self.hop + self.size)
        shape = {"kernel_size": (1, self.size), "stride": (1, self.hop)}
        added = functional.fold(frames, total, **shape) / functional.fold(squares, total, **shape)
        return added[:, 0, :, self.trim : total[1] - (self.size - self.hop - self.trim)]

    def spectra(self, values: Tensor) -> Tensor:
        """``(batch, 2 * bins, count)`` to complex ``(batch, bins, count)``."""
        if values.dtype not in (torch.float32, torch.float64):
            values = values.float()
        magnitude, phase = values.chunk(2, dim=1)
        spectra = torch.polar(magnitude.exp().clamp(max=self.limit), phase)
        if self.silent:
            spectra[:, 0] = 0
            spectra[:, -1] = 0
        return spectra


class WindowSum(StreamLayer):
    """What the squared windows of a stream's spectra add up to; the same everywhere but at the
    edges. A layer of its own so that its :attr:`before` tells how far the edges reach."""

    squares: Tensor
    steady: Tensor

    def __init__(self, window: Tensor, hop: int) -> None:
        super().__init__()
        squares = window.double().square().view(-1, hop)
        self.register_buffer("squares", squares, persistent=False)
        self.register_buffer("steady", squares.sum(0), persistent=False)

    def _joined(self, before: Rate) -> Rate:
        return before

    def new_state(self, batch: int, like: Tensor) -> State:
        """None: positions tell all."""
        return []

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """Of ``values``, ``(batch, any, count)``: ``(batch or 1, count or 1, hop)``."""
        if not extent.edges:
            return self.steady[None, None].to(values.dtype)
        reach = self.squares.shape[0]
        count = values.shape[-1]
        # One spectrum adds to its own hop and those after it: those before count here as well.
        there = extent.inside(self.before, count + reach - 1)[:, 0, :, None].to(values.dtype)
        squares = self.squares.to(values.dtype)
        total = there[:, :count] * squares[reach - 1]
        for late in range(reach - 1):
            total = total + there[:, reach - 1 - late : reach - 1 - late + count] * squares[late]
        return total.clamp(min=TINY)


class StreamInverse(StreamLayer):
    """:class:`InverseTransform`, a stretch at a time.

    State: what the windows so far add to samples that are not complete, ``(batch, size - hop)``,
    in the precision of the samples.
    """

    def __init__(self, inverse: InverseTransform) -> None:
        super().__init__()
        self.inverse = inverse
        self.windows = WindowSum(inverse.window, inverse.hop)
        self.reach = inverse.size // inverse.hop

    def _joined(self, before: Rate) -> Rate:
        hop, trim = self.inverse.hop, self.inverse.trim
        # So that its first position is that of the first spectrum that reaches into a stretch.
        self.windows.join(Rate(before.per_step, before.delay + self.reach - 1, before.short))
        missing = hop if self.inverse.padding == "center" else 0
        return Rate(before.per_step * hop, before.delay * hop + trim, before.short * hop + missing)

    def new_state(self, batch: int, like: Tensor) -> State:
        """Zeros: nothing came before the start."""
        return [like.new_zeros(batch, 1, (self.reach - 1) * self.inverse.hop)]

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """``(batch, 2 * bins, count)`` to ``(batch, 1, count * hop)``."""
        (tail,) = state
        inverse = self.inverse
        hop = inverse.hop
        batch, _, count = values.shape
        frames = torch.fft.irfft(inverse.spectra(values), inverse.size, dim=1)
        frames = frames * inverse.window.to(frames.dtype)[:, None]
        parts = extent.mask(frames, self.before).transpose(1, 2).reshape(batch, count, -1, hop)
        added = functional.pad(tail[:, 0].view(batch, -1, hop).to(frames.dtype), (0, 0, 0, count))
        for late in range(self.reach):
            added[:, late : late + count] += parts[:, :, late]
        tail.copy_(added[:, count:].reshape(batch, 1, -1))
        sums = self.windows.feed(frames, [], extent)
        return (added[:, :count] / sums).reshape(batch, 1, -1)
