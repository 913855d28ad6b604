"""From spectra to samples, whole and in stretches."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from antiphon.engines.speech.streaming.layer import UNKNOWN, Extent, Rate
from antiphon.engines.speech.streaming.spectrum import InverseTransform, Padding, StreamInverse

WINDOW = 1e-6
"""Windows are of single precision, as those of the originals."""


def spectra_of(samples: Tensor, size: int, hop: int, *, center: bool) -> Tensor:
    """Logarithms of magnitudes, and phases, of a recording: ``(1, size + 2, count)``."""
    window = torch.hann_window(size, dtype=samples.dtype)
    spectra = torch.stft(
        samples, size, hop, window=window, center=center, pad_mode="constant", return_complex=True
    )
    return torch.cat((spectra.abs().log(), spectra.angle()))[None]


def test_a_recording_comes_out_of_its_spectra_centred() -> None:
    samples = torch.randn(96, dtype=torch.float64)
    inverse = InverseTransform(32, 8, "center", limit=1e6)
    told = inverse(spectra_of(samples, 32, 8, center=True))
    assert torch.allclose(told[0, 0], samples, rtol=0, atol=WINDOW)


def test_a_recording_comes_out_of_its_spectra_hop_by_hop() -> None:
    samples = torch.randn(96, dtype=torch.float64)
    inverse = InverseTransform(32, 8, "same", limit=1e6)
    told = inverse(spectra_of(samples, 32, 8, center=False))
    # The first spectrum is of the first 32 samples: its own hop begins at 12.
    assert torch.allclose(told[0, 0], samples[12:-12], rtol=0, atol=WINDOW)


def test_magnitudes_are_cut_off_and_ends_of_the_spectrum_left_out() -> None:
    values = torch.zeros(1, 34, 2, dtype=torch.float64)
    values[:, 3] = 50.0
    spectra = InverseTransform(32, 8, "same", silent=True).spectra(values)
    assert spectra[0, :, 0].abs().tolist() == [0, 1, 1, 100, *[1] * 12, 0]


def test_half_precision_is_widened() -> None:
    values = torch.zeros(1, 34, 4, dtype=torch.bfloat16)
    assert InverseTransform(32, 8, "center")(values).dtype == torch.float32


@pytest.mark.parametrize("padding", ["center", "same"])
@pytest.mark.parametrize(("size", "hop"), [(32, 8), (16, 8)])
@pytest.mark.parametrize("chunk", [1, 3, 9])
def test_stretches_give_what_the_whole_gives(
    padding: Padding, size: int, hop: int, chunk: int
) -> None:
    """Also where edges are told of only as far as the layers' delays make it needed."""
    torch.manual_seed(0)
    count = 9
    inverse = InverseTransform(size, hop, padding)
    layer = StreamInverse(inverse)
    rate = layer.join(Rate())
    values = torch.randn(1, size + 2, count, dtype=torch.float64)
    flush = -(-(rate.delay - rate.short) // hop)
    garbage = torch.full((1, size + 2, flush), 2.0, dtype=torch.float64)
    state = layer.new_state(1, values)
    parts: list[Tensor] = []
    settled = layer.windows.before.delay
    stretches = [(at, values[..., at : at + chunk]) for at in range(0, count, chunk)]
    for first, stretch in [*stretches, *([(count, garbage)] if flush else [])]:
        length = UNKNOWN if first + chunk < count else count
        edges = first < settled or first >= count
        where = torch.tensor([[first], [length], [0]])
        parts.append(layer(stretch, state, Extent(where[0], where[1], where[2], edges)))
    told = torch.cat(parts, -1)[..., rate.delay :]
    whole = inverse(values)
    assert whole.shape[-1] == count * hop - rate.short
    assert torch.allclose(told[..., : whole.shape[-1]], whole, rtol=0, atol=1e-12)


def test_hops_have_to_fill_the_transform() -> None:
    with pytest.raises(ValueError, match="whole hops"):
        InverseTransform(32, 12, "same")
