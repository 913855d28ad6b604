"""DAC of all rates by stretches: its whole decode, and as long as that is."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.decoders import (
    FLOAT32,
    FLOAT64,
    assert_streams,
    difference,
    random_codes,
    streamed,
    tiny_dac,
)
from torch.utils.flop_counter import FlopCounterMode

from antiphon.engines.speech.decoders import dac
from antiphon.engines.speech.decoders.decoder import DecoderOptions, module_of
from antiphon.engines.speech.streaming.runner import StreamRunner
from antiphon.engines.stage import StageFailure

KINDS = {
    # Hop, samples ahead, samples that a whole decode lacks.
    "24k": (320, 3141, 8),
    "44k": (512, 4757, 0),
    "higgs": (960, 9458, 0),
}


@cache
def decoder_of(kind: str, dtype: torch.dtype = torch.float64) -> StreamRunner:
    return dac.decoder_of(tiny_dac(kind, dtype=dtype))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 13])
def test_every_chunking_is_the_whole(kind: str, steps: int) -> None:
    decoder = decoder_of(kind)
    card = decoder.card
    codes = random_codes(decoder, steps)
    assert (card.hop, card.lookahead, card.short) == KINDS[kind]
    for sizes in ([1], [5, 3], [steps]):
        assert_streams(decoder, codes, sizes)


@pytest.mark.parametrize("kind", KINDS)
def test_float32_is_as_near_as_float32_gets(kind: str) -> None:
    decoder = decoder_of(kind, torch.float32)
    codes = random_codes(decoder, 17)
    for sizes in ([1], [17]):
        assert_streams(decoder, codes, sizes, within=FLOAT32)


@pytest.mark.parametrize("code", [0, 63])
def test_the_first_and_the_last_code_are_codes(code: int) -> None:
    decoder = decoder_of("24k")
    codes = random_codes(decoder, 12)
    assert_streams(decoder, np.full_like(codes, code), [5])
    codes[0, 3] = codes[1, 7] = code
    assert_streams(decoder, codes, [5])


def test_streams_share_pushes_and_one_ends_ahead_of_the_others() -> None:
    decoder = decoder_of("24k")
    codes = [random_codes(decoder, steps, seed=steps) for steps in (8, 16, 24)]
    states = [decoder.open() for _ in codes]
    given = [decoder.push([states[2]], [codes[2][:, :8]], [False]), [], []][::-1]
    given[0] += decoder.push([states[0]], [codes[0][:, :4]], [False])
    for piece, at in zip(
        decoder.push(
            states,
            [codes[0][:, 4:], codes[1][:, :4], codes[2][:, 8:12]],
            [True, False, False],
        ),
        range(3),
        strict=True,
    ):
        given[at].append(piece)
    made = decoder.push(states[1:], [codes[1][:, 4:], codes[2][:, 12:]], [True, True])
    for at, piece in enumerate(made, start=1):
        given[at].append(piece)
    for each, pieces in zip(codes, given, strict=True):
        assert difference(np.concatenate(pieces), decoder.decode(each)) < FLOAT64


def test_ten_steps_on_each_side_are_needed() -> None:
    """Windows of nine are not the whole, so that the tests above would see it."""
    decoder = decoder_of("24k")
    codes = random_codes(decoder, 30)
    whole = decoder.decode(codes)[15 * 320 : 16 * 320]
    for sides, differs in ((4, True), (9, True), (10, False)):
        window = decoder.decode(codes[:, 15 - sides : 16 + sides])
        apart = difference(window[sides * 320 : (sides + 1) * 320], whole)
        assert (apart > FLOAT64) == differs


def test_codebooks_in_a_wrong_order_are_not_the_whole() -> None:
    decoder = decoder_of("24k")
    codes = random_codes(decoder, 12)
    made = np.concatenate(streamed(decoder, codes[::-1], [4]))
    assert difference(made, decoder.decode(codes)) > 0.01


def test_five_seconds_are_no_more_work_than_in_the_whole() -> None:
    decoder = decoder_of("24k", torch.float32)
    codes = random_codes(decoder, 375)
    with FlopCounterMode(display=False) as whole:
        decoder.decode(codes)
    with FlopCounterMode(display=False) as by_stretches:
        streamed(decoder, codes, [25])
    ratio = by_stretches.get_total_flops() / whole.get_total_flops()
    assert 0.9 < ratio < 1.05


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dac")
    tiny_dac(dtype=torch.float32).save_pretrained(place)
    return place


def test_a_folder_is_loaded_and_encodes(folder: Path) -> None:
    loaded = module_of("dac").load(folder, DecoderOptions())
    codes = random_codes(loaded, 12)
    assert difference(loaded.decode(codes), decoder_of("24k", torch.float32).decode(codes)) == 0
    assert_streams(loaded, codes, [4], within=FLOAT32)
    encoder = module_of("dac").load_encoder(folder, DecoderOptions())
    recording = np.sin(np.arange(1000, dtype=np.float32) / 9)
    made = encoder.encode(recording)
    with torch.inference_mode():
        values = torch.from_numpy(recording[:960])[None, None]
        expected = tiny_dac(dtype=torch.float32).encode(values).audio_codes[0]
    assert encoder.sample_rate == 24_000
    assert made.shape == (2, 3)
    assert np.array_equal(made, expected.numpy())


def test_a_folder_of_another_codec_is_refused(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(
        json.dumps(config | {"model_type": "encodec"}), encoding="utf-8"
    )
    with pytest.raises(StageFailure, match="model_unusable"):
        module_of("dac").load(tmp_path, DecoderOptions())
