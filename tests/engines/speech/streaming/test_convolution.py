"""Convolutions by stretches are what they are in the whole."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.decoders import FLOAT64, fed, loud
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, weight_norm

from antiphon.engines.speech.streaming.convolution import (
    StreamConv,
    StreamTransposed,
    fold_weight_norm,
    same_conv,
    same_transposed,
)
from antiphon.engines.speech.streaming.walking import walk

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=4)


def signal(channels: int, count: int) -> torch.Tensor:
    torch.manual_seed(count)
    return torch.randn(1, channels, count, dtype=torch.float64)


def whole(module: nn.Module, values: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        made: torch.Tensor = module(values)
    return made


@settings(max_examples=15)
@given(
    st.integers(1, 7),
    st.integers(1, 4),
    st.sampled_from([1, 2]),
    st.floats(0, 1),
    st.integers(1, 20),
    SIZES,
)
def test_a_convolution_is_what_it_is_between_zeros(
    kernel: int, dilation: int, groups: int, share: float, count: int, sizes: list[int]
) -> None:
    conv = loud(nn.Conv1d(4, 6, kernel, dilation=dilation, groups=groups)).double()
    span = (kernel - 1) * dilation
    right = round(span * share)
    values = signal(4, count)
    expected = whole(conv, functional.pad(values, (span - right, right)))
    made = fed(StreamConv(conv, left=span - right, right=right), values, sizes)
    torch.testing.assert_close(made, expected, rtol=0, atol=FLOAT64)


@settings(max_examples=25)
@given(
    st.data(),
    st.integers(1, 5),
    st.integers(1, 11),
    st.sampled_from([(1, 1), (2, 1), (1, 2)]),
    st.booleans(),
    st.integers(1, 12),
    SIZES,
)
def test_a_transposed_convolution_is_what_it_is_in_the_whole(
    data: st.DataObject,
    stride: int,
    kernel: int,
    groups_dilation: tuple[int, int],
    bias: bool,
    count: int,
    sizes: list[int],
) -> None:
    groups, dilation = groups_dilation
    reach = (kernel - 1) * dilation + 1
    padding = data.draw(st.integers(0, reach // 2))
    extra = data.draw(st.integers(0, stride - 1))
    conv = loud(
        nn.ConvTranspose1d(
            4, 6, kernel, stride, padding, extra, groups=groups, bias=bias, dilation=dilation
        )
    ).double()
    length = (count - 1) * stride + reach - 2 * padding + extra
    if length > 0:
        values = signal(4, count)
        made = fed(same_transposed(conv), values, sizes)
        torch.testing.assert_close(made, whole(conv, values), rtol=0, atol=FLOAT64)


def test_a_causal_transposed_convolution_has_no_delay() -> None:
    conv = loud(nn.ConvTranspose1d(3, 3, 8, 4)).double()
    values = signal(3, 7)
    layer = StreamTransposed(conv, trim_left=0, trim_right=4)
    made = fed(layer, values, [1])
    assert layer.after.delay == layer.after.short == 0
    torch.testing.assert_close(made, whole(conv, values)[..., :-4], rtol=0, atol=FLOAT64)


@pytest.mark.parametrize("norm", [weight_norm, parametrizations.weight_norm])
@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_weight_norm_is_computed_once(norm: object) -> None:
    conv = nn.Conv1d(3, 4, 3, padding=1)
    assert callable(norm)
    norm(conv)
    values = torch.randn(1, 3, 9)
    before = whole(conv, values)
    fold_weight_norm(conv)
    assert sorted(name for name, _ in conv.named_parameters()) == ["bias", "weight"]
    torch.testing.assert_close(whole(conv, values), before)


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv1d(2, 2, 3, stride=2, padding=1),
        nn.Conv1d(2, 2, 3, padding=0),
        nn.Conv1d(2, 2, 3, padding=1, padding_mode="reflect"),
        nn.Conv1d(2, 2, 3, padding="same"),
    ],
)
def test_what_cannot_stream_is_refused(conv: nn.Conv1d) -> None:
    with pytest.raises(ValueError, match="expected"):
        same_conv(conv)


def test_a_module_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="got GRU"):
        walk(nn.Sequential(nn.Tanh(), nn.GRU(2, 2)), {})
