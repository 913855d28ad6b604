"""Straight lines between values, as torch draws them."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from antiphon.engines.speech.streaming.interpolation import LinearUpsample
from antiphon.engines.speech.streaming.layer import UNKNOWN, Extent, Rate


@pytest.mark.parametrize("size", [1, 3, 8])
def test_stretches_give_what_torch_gives_of_the_whole(size: int) -> None:
    layer = LinearUpsample(2, 4)
    rate = layer.join(Rate())
    values = torch.randn(1, 2, 8, dtype=torch.float64)
    state = layer.new_state(1, values)
    nowhere = torch.tensor([0])
    extent = Extent(nowhere, torch.tensor([UNKNOWN]), nowhere)
    parts = [values[..., at : at + size] for at in range(0, 8, size)]
    told = torch.cat([layer(part, state, extent) for part in parts], -1)
    whole = functional.interpolate(values, size=29, mode="linear", align_corners=True)
    assert rate == Rate(per_step=4, delay=3, short=3)
    assert told.shape[-1] - rate.delay == whole.shape[-1]
    assert torch.allclose(told[..., rate.delay :], whole, rtol=0, atol=1e-15)


def test_the_rate_follows_what_comes_in() -> None:
    assert LinearUpsample(1, 4).join(Rate(per_step=2, delay=5, short=1)) == Rate(8, 23, 7)
