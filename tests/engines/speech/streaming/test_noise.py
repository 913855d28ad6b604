"""Noise that is a matter of the sample: the same in any chunks, and white all the same."""

from __future__ import annotations

import math

import numpy as np
import torch
from tests.support.decoders import fed, loud
from torch import nn

from antiphon.engines.speech.streaming.noise import AddressedNoise, WholeNoise, normal_noise

COUNT = 20_000


def noise(seed: int = 3, layer: int = 1, first: int = 0, count: int = COUNT) -> torch.Tensor:
    positions = torch.arange(first, first + count)[None]
    return normal_noise(torch.tensor([seed]), layer, positions)[0]


def splitmix64(state: int) -> int:
    """The generator's output function as its paper has it, on plain integers."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % 2**64
    return state ^ (state >> 31)


def test_it_is_splitmix64_and_box_muller() -> None:
    key = splitmix64((3 * 0x9E3779B97F4A7C15) % 2**64 ^ 2)
    for position in (0, 1, 12_345, -7):
        bits = splitmix64(((position + key) * 0x9E3779B97F4A7C15) % 2**64)
        high, low = bits >> 32, bits & 0xFFFFFFFF
        radius = math.sqrt(-2 * math.log((high + 1) / 2**32))
        expected = np.float32(radius * math.cos(2 * math.pi * low / 2**32))
        assert noise(first=position, count=1).item() == expected


def test_a_sample_has_its_number_in_any_chunk_and_any_batch() -> None:
    whole = noise()
    for size in (1, 7, 64, 999):
        chunks = [noise(first=at, count=min(size, 2000 - at)) for at in range(0, 2000, size)]
        assert torch.equal(torch.cat(chunks), whole[:2000])
    positions = torch.stack((torch.arange(500), torch.arange(900, 1400)))
    both = normal_noise(torch.tensor([5, 3]), 1, positions)
    assert torch.equal(both[1], whole[900:1400])
    assert torch.equal(both[0], noise(seed=5, count=500))


def test_it_is_normal_and_white() -> None:
    values = noise().double().numpy()
    bound = 5 / math.sqrt(COUNT)
    assert abs(values.mean()) < bound
    assert abs(values.var() - 1) < bound * math.sqrt(2)
    assert abs((values**4).mean() - 3) < bound * math.sqrt(96)
    for lag in (1, 2, 8, 64, 512):
        assert abs((values[lag:] * values[:-lag]).mean()) < bound
    others = (noise(seed=4), noise(layer=2), noise(first=COUNT), noise(seed=2**63 - 1))
    for other in others:
        assert abs((values * other.double().numpy()).mean()) < bound


def test_the_layer_is_the_whole_module_by_stretches() -> None:
    linear = loud(nn.Conv1d(3, 3, 1, bias=False)).double()
    values = torch.cos(torch.arange(60, dtype=torch.float64)).view(1, 3, 20)
    with torch.inference_mode():
        expected = WholeNoise(linear, layer=2)(values)
    made = fed(AddressedNoise(linear, layer=2), values, [1, 6, 4])
    torch.testing.assert_close(made, expected, rtol=0, atol=1e-14)
    assert (made - values).abs().max() > 0.1
