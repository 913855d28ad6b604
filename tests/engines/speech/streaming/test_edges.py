"""A mirror at the start of a stream."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from antiphon.engines.speech.streaming.edges import ReflectedConv
from antiphon.engines.speech.streaming.layer import UNKNOWN, Extent, Rate


def extent(first: list[int]) -> Extent:
    count = torch.tensor(first)
    return Extent(count, torch.full_like(count, UNKNOWN), torch.zeros_like(count))


def test_only_streams_that_begin_are_mirrored() -> None:
    torch.manual_seed(0)
    conv = nn.Conv1d(2, 3, 3, dilation=2).double()
    layer = ReflectedConv(conv)
    layer.join(Rate())
    assert layer.needs == 5
    values = torch.randn(2, 2, 11, dtype=torch.float64)
    whole = conv(functional.pad(values, (4, 0), "reflect"))
    old = layer.new_state(1, values)
    begun = layer(values[:1, :, :5], old, extent([0]))
    both = [torch.cat(pair) for pair in zip(old, layer.new_state(1, values), strict=True)]
    new = torch.cat((values[:1, :, 5:], values[1:, :, :6]))
    told = layer(new, both, extent([5, 0]))
    rest = layer(values[1:, :, 6:7], [both[0][1:]], extent([6]))
    assert torch.allclose(torch.cat((begun[0], told[0]), -1), whole[0], rtol=0, atol=1e-12)
    assert torch.allclose(torch.cat((told[1], rest[0]), -1), whole[1, :, :7], rtol=0, atol=1e-12)


def test_nothing_may_be_delayed_ahead_of_a_mirror() -> None:
    with pytest.raises(ValueError, match="ahead of"):
        ReflectedConv(nn.Conv1d(1, 1, 3)).join(Rate(delay=1))
