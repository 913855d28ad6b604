"""The contract of a streaming layer: a causal filter that knows how far behind it is.

A decoder looks ahead: a sample depends on frames that come after it. Here every layer works
on what it has and keeps the rest, so that a stretch of a stream costs what it costs in the
whole, and nothing is computed twice. All streams have one shape of state and one shape of
work, whatever their position, so that they can share a batch and a captured graph: a layer
gives as many values as it was given times its rate, always, and runs behind by a fixed
:attr:`Rate.delay`. The values that lie ahead of a stream's start, the first ones, are thrown
away at the end of the decoder, and a stream that ends is pushed on for as long as the delay.

Where a whole decode pads with zeros, the values of a layer outside of the stream have to be
zero, not what was computed there: each layer that mixes times *masks* its input by what
:class:`Extent` says. In the middle of all streams of a batch nothing is masked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

UNKNOWN = 1 << 40
"""Length of a stream that has not ended, steps."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How values at some place of a decoder relate to the steps that go into it."""

    per_step: int = 1
    """Values of one step."""

    delay: int = 0
    """Values that come later than in a whole decode: the first so many belong to nothing."""

    short: int = 0
    """Values that a whole decode of ``n`` steps has fewer than ``n * per_step``."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Where the stretch of each stream of a batch lies."""

    first: Tensor
    """``(batch,)`` int64: steps that were pushed before."""

    length: Tensor
    """``(batch,)`` int64: steps of the whole stream, :data:`UNKNOWN` before its end is known."""

    seed: Tensor
    """``(batch,)`` int64: of the stream's noise."""

    edges: bool = True
    """Whether any stream is so near to its start or its end that values have to be masked."""

    def positions(self, rate: Rate, count: int) -> Tensor:
        """Where ``count`` values lie in the whole: ``(batch, count)`` int64, negative ahead of
        the start."""
        begin = self.first * rate.per_step - rate.delay
        return begin[:, None] + torch.arange(count, device=begin.device)

    def inside(self, rate: Rate, count: int) -> Tensor:
        """Which of them are in the stream: ``(batch, 1, count)`` bool."""
        at = self.positions(rate, count)
        end = self.length * rate.per_step - rate.short
        return ((at >= 0) & (at < end[:, None]))[:, None]

    def mask(self, values: Tensor, rate: Rate) -> Tensor:
        """``values``, ``(batch, channels, count)``, with zeros outside of the stream."""
        if not self.edges:
            return values
        return values.masked_fill(~self.inside(rate, values.shape[-1]), 0.0)


State: TypeAlias = list[Tensor]
"""What a layer keeps of a batch of streams: tensors whose first dimension is the batch, each
changed in place. Those of all layers of a decoder, one after the other, are its state."""


class StreamLayer(nn.Module, ABC):
    """A layer that is fed a stretch at a time.

    Life: made from a module of the original decoder, whose parameters it shares; told once by
    :meth:`join` what comes in; then fed. Not bound to a device: it goes where its parameters go.
    """

    before: Rate
    """Of what comes in; set by :meth:`join`."""

    after: Rate
    """Of what goes out; set by :meth:`join`."""

    def join(self, before: Rate) -> Rate:
        """Take note of what will come in; return what will go out."""
        self.before = before
        self.after = self._joined(before)
        return self.after

    @abstractmethod
    def _joined(self, before: Rate) -> Rate:
        """What goes out where ``before`` comes in; joins the layers inside, if there are any."""

    @abstractmethod
    def new_state(self, batch: int, like: Tensor) -> State:
        """The state of streams that begin: mostly zeros, of ``like``'s dtype and device.

        Every tensor is ``(batch, ...)``, and its other dimensions never change.
        """

    @abstractmethod
    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """Go on by a stretch.

        ``values``: ``(batch, channels, count)``, where ``count`` is any number of steps times
        :attr:`before`'s ``per_step``. ``state``: exactly this layer's tensors, changed in place.
        Returns ``(batch, channels, count * after.per_step / before.per_step)``. With one shape
        of ``values`` always the same operations, so that it can be captured, but for
        :attr:`Extent.edges`.
        """

    def forward(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """As :meth:`feed`."""
        return self.feed(values, state, extent)
