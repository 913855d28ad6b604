"""How streaming layers are put together: one after the other, around, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from .convolution import fold_weight_norm
from .layer import Extent, Rate, State, StreamLayer


class Pointwise(StreamLayer):
    """Anything that treats each moment by itself: an activation, a convolution of kernel 1."""

    def __init__(self, module: nn.Module | Callable[[Tensor], Tensor]) -> None:
        """Take over ``module``, whose weight norm is folded."""
        super().__init__()
        if isinstance(module, nn.Module):
            fold_weight_norm(module)
        self.module = module

    def _joined(self, before: Rate) -> Rate:
        return before

    def new_state(self, batch: int, like: Tensor) -> State:
        """None."""
        return []

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """``(batch, channels, count)`` to ``(batch, any, count)``."""
        return cast("Tensor", self.module(values))


class DelayLine(StreamLayer):
    """Hands out what came in, later. State: ``(batch, channels, delay)``."""

    def __init__(self, channels: int, delay: int) -> None:
        """``delay``: values, at least 1."""
        super().__init__()
        self.channels = channels
        self.delay = delay

    def _joined(self, before: Rate) -> Rate:
        return Rate(before.per_step, before.delay + self.delay, before.short)

    def new_state(self, batch: int, like: Tensor) -> State:
        """Zeros."""
        return [like.new_zeros(batch, self.channels, self.delay)]

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """``(batch, channels, count)``, the same shape out."""
        (tail,) = state
        joined = torch.cat((tail, values), -1)
        tail.copy_(joined[..., -self.delay :])
        return joined[..., : values.shape[-1]]


class Parts(StreamLayer):
    """A layer of layers, whose states lie one after the other; what they are fed is up to the
    class that builds on this."""

    def __init__(self, layers: Sequence[StreamLayer]) -> None:
        """``layers``: in the order of their states."""
        super().__init__()
        self.parts = nn.ModuleList(layers)
        self._tensors: list[int] = []

    @property
    def layers(self) -> list[StreamLayer]:
        """Those inside."""
        return [cast("StreamLayer", part) for part in self.parts]

    def new_state(self, batch: int, like: Tensor) -> State:
        """Theirs."""
        return [tensor for part in self.layers for tensor in part.new_state(batch, like)]

    def _count_states(self) -> None:
        """Note how many tensors each of them has; once they are joined."""
        nothing = torch.empty(0)
        self._tensors = [len(part.new_state(0, nothing)) for part in self.layers]

    def _split(self, state: State) -> list[State]:
        """The state of each."""
        parts: list[State] = []
        at = 0
        for count in self._tensors:
            parts.append(state[at : at + count])
            at += count
        return parts


class Chain(Parts):
    """One after the other."""

    def _joined(self, before: Rate) -> Rate:
        for part in self.layers:
            before = part.join(before)
        self._count_states()
        return before

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """Through all of them."""
        for part, own in zip(self.layers, self._split(state), strict=True):
            values = part.feed(values, own, extent)
        return values


class _Aligned(Parts):
    """Layers with the same input, whose outputs are made to run behind by the same."""

    def __init__(self, layers: Sequence[StreamLayer], channels: int | None) -> None:
        super().__init__([Chain([each]) for each in layers])
        self._channels = channels

    def _joined(self, before: Rate) -> Rate:
        branches = [cast("Chain", part) for part in self.layers]
        ends = [branch.join(before) for branch in branches]
        if len({(end.per_step, end.short) for end in ends}) > 1:
            raise ValueError(f"expected branches of one rate and length, got {ends}")
        delay = max(end.delay for end in ends)
        for number, (branch, end) in enumerate(zip(branches, ends, strict=True)):
            if end.delay < delay:
                channels = self._channels or channels_out(branch) or self._any_channels()
                line = DelayLine(channels, delay - end.delay)
                self.parts[number] = Chain([*branch.layers, line])
                cast("Chain", self.parts[number]).join(before)
        self._count_states()
        return Rate(ends[0].per_step, delay, ends[0].short)

    def _any_channels(self) -> int:
        """Of the branches that tell; all are added up."""
        for part in self.layers:
            found = channels_out(part)
            if found is not None:
                return found
        raise ValueError("expected channels, as no layer tells them")

    def _outputs(self, values: Tensor, state: State, extent: Extent) -> list[Tensor]:
        """Of each branch."""
        owns = zip(self.layers, self._split(state), strict=True)
        return [part.feed(values, own, extent) for part, own in owns]


class Residual(_Aligned):
    """What goes through a branch, plus what goes past it, which waits for as long as the branch
    runs behind."""

    def __init__(
        self,
        branch: StreamLayer,
        shortcut: StreamLayer | None = None,
        *,
        channels: int | None = None,
    ) -> None:
        """``shortcut``: what is done on the way past; ``None`` for nothing. ``channels``: of
        what comes out, where no convolution or linear layer of the branch tells it."""
        super().__init__([branch, shortcut or Chain([])], channels)

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """The sum of both."""
        through, past = self._outputs(values, state, extent)
        return past + through


class Mean(_Aligned):
    """Branches side by side, and the mean of what comes out of them."""

    def __init__(self, branches: Sequence[StreamLayer], *, channels: int | None = None) -> None:
        """``channels``: of what comes out, where no convolution of a branch tells it."""
        super().__init__(branches, channels)

    def feed(self, values: Tensor, state: State, extent: Extent) -> Tensor:
        """Added in the order of the branches, then divided."""
        first, *others = self._outputs(values, state, extent)
        for other in others:
            first = first + other
        return first / len(self.parts)


def channels_out(layer: nn.Module) -> int | None:
    """The channels that come out of the last convolution or linear layer within."""
    found: int | None = None
    for part in layer.modules():
        if isinstance(part, nn.Conv1d | nn.ConvTranspose1d):
            found = part.out_channels
        elif isinstance(part, nn.Linear):
            found = part.out_features
        elif isinstance(part, DelayLine):
            found = part.channels
    return found
