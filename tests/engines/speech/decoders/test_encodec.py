"""EnCodec: its beginning, folders, and what can't stream."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.codec_models import tiny_decoder, tiny_encodec
from tests.support.decoders import FLOAT32, FLOAT64, assert_streams, difference, random_codes

from antiphon.engines.speech.decoders import encodec
from antiphon.engines.speech.decoders.decoder import DecoderOptions
from antiphon.engines.stage import StageFailure

FIRST = 7


def test_the_card_says_how_a_stream_has_to_begin() -> None:
    assert tiny_decoder("encodec").card.first_steps == FIRST


@pytest.mark.parametrize("steps", range(1, FIRST))
def test_a_stream_shorter_than_that_is_what_the_original_makes_of_it(steps: int) -> None:
    decoder = tiny_decoder("encodec")
    codes = random_codes(decoder, steps)
    model = tiny_encodec()
    whole = model.decode(torch.as_tensor(codes[None, None].astype(np.int64)), [None])
    stream = decoder.open()
    sound = decoder.push([stream], [codes], [True])[0]
    assert difference(sound, whole.audio_values[0, 0].numpy()) < FLOAT64
    assert stream.ended


def test_a_first_push_that_is_too_short_is_refused_and_changes_nothing() -> None:
    decoder = tiny_decoder("encodec")
    codes = random_codes(decoder, 12)
    stream, other = decoder.open(), decoder.open()
    with pytest.raises(ValueError, match="begin with 7 steps, got 6"):
        decoder.push([other, stream], [codes[:, :6]] * 2, [True, False])
    assert not other.ended
    begun = decoder.push([stream], [codes[:, :7]], [False])[0]
    ended = decoder.push([stream], [codes[:, 7:]], [True])[0]
    assert difference(np.concatenate((begun, ended)), decoder.decode(codes)) < FLOAT64


def test_a_short_stream_shares_a_push_with_one_on_its_way() -> None:
    decoder = tiny_decoder("encodec")
    codes, short = random_codes(decoder, 11), random_codes(decoder, 4, seed=1)
    stream = decoder.open()
    begun = decoder.push([stream], [codes[:, :7]], [False])[0]
    alone, ended = decoder.push([decoder.open(), stream], [short, codes[:, 7:]], [True, True])
    assert difference(alone, decoder.decode(short)) < FLOAT64
    assert difference(np.concatenate((begun, ended)), decoder.decode(codes)) < FLOAT64


def test_a_folder_is_loaded_and_encodes_as_the_original(tmp_path: Path) -> None:
    model = tiny_encodec(dtype=torch.float32)
    model.save_pretrained(tmp_path)
    decoder = encodec.load(tmp_path, DecoderOptions())
    assert (decoder.card.sample_rate, decoder.card.hop) == (24_000, 320)
    assert_streams(decoder, random_codes(decoder, 20), [7, 4], within=FLOAT32)
    samples = np.random.default_rng(0).normal(0, 0.3, 320 * 9 + 100).astype(np.float32)
    codes = encodec.load_encoder(tmp_path, DecoderOptions()).encode(samples)
    same = model.encode(torch.as_tensor(samples[None, None, : 320 * 9]), bandwidth=1.8)
    assert np.array_equal(codes, same.audio_codes[0, 0].numpy())


@pytest.mark.parametrize(
    "changed",
    [
        {"normalize": True},
        {"chunk_length_s": 1.0, "overlap": 0.01},
        {"audio_channels": 2},
        {"norm_type": "time_group_norm"},
        {"use_causal_conv": False},
    ],
    ids=["normalised", "chunks", "stereo", "norms", "not-causal"],
)
def test_what_cannot_stream_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(StageFailure, match="such as that of 24 kHz"):
        encodec.decoder_of(tiny_encodec(**changed))
