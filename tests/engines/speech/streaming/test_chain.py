"""Layers of layers: what runs ahead waits for what runs behind."""

from __future__ import annotations

import pytest
import torch
from tests.support.decoders import FLOAT64, fed, loud
from torch import nn

from antiphon.engines.speech.streaming.chain import Chain, Mean, Pointwise, Residual
from antiphon.engines.speech.streaming.convolution import same_conv, same_transposed
from antiphon.engines.speech.streaming.layer import Rate, StreamLayer

SIZES = ([1], [3, 1, 4], [11])


def conv(kernel: int, *, dilation: int = 1) -> nn.Conv1d:
    padding = (kernel - 1) * dilation // 2
    made = nn.Conv1d(3, 3, kernel, padding=padding, dilation=dilation)
    layer: nn.Conv1d = loud(made, seed=kernel).double()
    return layer


VALUES = torch.sin(torch.arange(33, dtype=torch.float64) ** 2).view(1, 3, 11)


@pytest.mark.parametrize("sizes", SIZES)
def test_what_goes_past_a_branch_waits_for_it(sizes: list[int]) -> None:
    through, past, last = conv(7, dilation=2), conv(3), conv(5)
    with torch.inference_mode():
        once = VALUES + through(torch.tanh(VALUES))
        expected = last(past(once) + through(once))
    layer = Chain(
        [
            Residual(Chain([Pointwise(torch.tanh), same_conv(through)])),
            Residual(same_conv(through), same_conv(past)),
            same_conv(last),
        ]
    )
    torch.testing.assert_close(fed(layer, VALUES, sizes), expected, rtol=0, atol=FLOAT64)


@pytest.mark.parametrize("sizes", SIZES)
def test_a_branch_waits_for_a_slower_way_past_it(sizes: list[int]) -> None:
    through, past = conv(3), conv(9)
    with torch.inference_mode():
        expected = past(VALUES) + through(VALUES)
    layer = Residual(same_conv(through), same_conv(past))
    torch.testing.assert_close(fed(layer, VALUES, sizes), expected, rtol=0, atol=FLOAT64)


@pytest.mark.parametrize("sizes", SIZES)
def test_branches_meet_at_the_slowest(sizes: list[int]) -> None:
    kernels = (3, 11, 7)
    with torch.inference_mode():
        expected = sum((conv(k)(VALUES) for k in kernels), start=VALUES * 0) / 3
    layer = Mean([same_conv(conv(k)) for k in kernels])
    torch.testing.assert_close(fed(layer, VALUES, sizes), expected, rtol=0, atol=FLOAT64)


def test_a_residual_of_pointwise_layers_keeps_nothing() -> None:
    layer = Residual(Pointwise(torch.tanh))
    made = fed(layer, VALUES, [4])
    assert layer.new_state(1, VALUES) == []
    torch.testing.assert_close(made, VALUES + torch.tanh(VALUES), rtol=0, atol=0)


class Behind(StreamLayer):
    """Runs behind, and tells no channels."""

    def _joined(self, before: Rate) -> Rate:
        return Rate(before.per_step, before.delay + 2, before.short)

    def new_state(self, batch: int, like: torch.Tensor) -> list[torch.Tensor]:
        return []

    def feed(self, values: torch.Tensor, state: object, extent: object) -> torch.Tensor:
        return values


def test_channels_must_be_told_where_no_layer_tells_them() -> None:
    with pytest.raises(ValueError, match="expected channels"):
        Residual(Behind()).join(Rate())
    told = Residual(Behind(), channels=3)
    told.join(Rate())
    assert [tuple(tensor.shape) for tensor in told.new_state(2, VALUES)] == [(2, 3, 2)]


def test_branches_of_different_rates_are_refused() -> None:
    up = same_transposed(nn.ConvTranspose1d(3, 3, 4, 2, 1))
    with pytest.raises(ValueError, match="one rate"):
        Residual(up).join(Rate())
