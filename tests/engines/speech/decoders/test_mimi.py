"""Mimi: folders, and what can't stream."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.codec_models import tiny_mimi
from tests.support.decoders import FLOAT32, assert_streams, difference, random_codes, streamed

from antiphon.engines.speech.decoders import mimi
from antiphon.engines.speech.decoders.decoder import DecoderOptions
from antiphon.engines.stage import StageFailure


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_mimi(dtype=torch.float32).save_pretrained(tmp_path)
    return tmp_path


def test_a_folder_is_loaded(folder: Path) -> None:
    decoder = mimi.load(folder, DecoderOptions())
    card = decoder.card
    assert (card.name, card.sample_rate, card.hop, card.sizes) == ("mimi", 24_000, 96, (64,) * 4)
    assert card.lookahead == 0
    assert_streams(decoder, random_codes(decoder, 12), [5], within=FLOAT32)


def test_half_precision_gives_much_the_same(folder: Path) -> None:
    exact = mimi.load(folder, DecoderOptions())
    rough = mimi.load(folder, DecoderOptions(dtype="bfloat16"))
    codes = random_codes(exact, 12)
    sound = np.concatenate(streamed(rough, codes, [5]))
    assert sound.dtype == np.float32
    assert 0 < difference(sound, exact.decode(codes)) < 0.1


def test_the_configuration_says_how_many_codebooks_there_are(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_quantizers": 3}))
    decoder = mimi.load(folder, DecoderOptions())
    assert len(decoder.card.sizes) == 3
    model = tiny_mimi(dtype=torch.float32)
    codes = random_codes(decoder, 6)
    fewer = model.decode(torch.as_tensor(codes[None].astype(np.int64))).audio_values[0, 0]
    assert difference(decoder.decode(codes), fewer.numpy()) < FLOAT32


def test_a_recording_is_encoded_as_by_the_original(folder: Path) -> None:
    samples = np.random.default_rng(0).normal(0, 0.3, 96 * 7 + 50).astype(np.float32)
    codes = mimi.load_encoder(folder, DecoderOptions()).encode(samples)
    model = tiny_mimi(dtype=torch.float32)
    same = model.encode(torch.as_tensor(samples[None, None, : 96 * 7])).audio_codes[0]
    assert codes.shape == (4, 7)
    assert np.array_equal(codes, same.numpy())


def test_a_recording_shorter_than_a_step_has_no_codes(folder: Path) -> None:
    encoder = mimi.load_encoder(folder, DecoderOptions())
    assert encoder.encode(np.zeros(50, np.float32)).shape == (4, 0)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"use_causal_conv": False}, "causal"),
        ({"pad_mode": "replicate"}, "replicate"),
        ({"trim_right_ratio": 0.5}, "right"),
        (
            {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
            "linear",
        ),
    ],
)
def test_what_cannot_stream_is_refused(changed: dict[str, Any], word: str) -> None:
    with pytest.raises(StageFailure, match=word) as failure:
        mimi.decoder_of(tiny_mimi(**changed))
    assert failure.value.error.code == "model_unusable"


def test_another_model_is_refused(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "encodec"}))
    with pytest.raises(StageFailure, match="model type mimi, got encodec"):
        mimi.load(folder, DecoderOptions())


def test_missing_weights_are_refused(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    weights = load_file(path)
    del weights["decoder.layers.0.conv.bias"]
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(StageFailure, match=r"lack 1 tensors, decoder\.layers\.0\.conv\.bias"):
        mimi.load(folder, DecoderOptions())


def test_a_damaged_file_is_refused_without_its_place(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(StageFailure, match="can't be loaded") as failure:
        mimi.load(folder, DecoderOptions())
    assert str(folder) not in failure.value.error.message
