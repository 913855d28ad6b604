"""Vocos: folders as its makers publish them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tests.support.decoders import FLOAT32, assert_streams, difference, loud, random_codes

from antiphon.engines.speech.decoders import vocos
from antiphon.engines.speech.decoders.decoder import DecoderOptions
from antiphon.engines.speech.decoders.vocos import VocosCodec
from antiphon.engines.speech.decoders.vocos_model import VocosSettings
from antiphon.engines.stage import StageFailure

CONFIG: dict[str, Any] = {
    "feature_extractor": {
        "class_path": "vocos.feature_extractors.EncodecFeatures",
        "init_args": {"encodec_model": "encodec_24khz", "bandwidths": [1.5, 3.0, 6.0, 12.0]},
    },
    "backbone": {
        "class_path": "vocos.models.VocosBackbone",
        "init_args": {
            "input_channels": 8,
            "dim": 16,
            "intermediate_dim": 32,
            "num_layers": 2,
            "adanorm_num_embeddings": 4,
        },
    },
    "head": {
        "class_path": "vocos.heads.ISTFTHead",
        "init_args": {"dim": 16, "n_fft": 1280, "hop_length": 320, "padding": "same"},
    },
}


@pytest.fixture(scope="module")
def model() -> VocosCodec:
    """All sixteen codebooks of 12 kbit/s."""
    settings = VocosSettings(
        channels=8, width=16, inner=32, blocks=2, conditions=4, size=1280, hop=320, padding="same"
    )
    made: VocosCodec = loud(VocosCodec(settings, books=16, codes=1024, rate=24_000))
    made.vectors.normal_()
    return made


def written(folder: Path, model: VocosCodec, **changed: object) -> Path:
    """A folder of ``model`` in published names."""
    weights = {
        name.removeprefix("vocoder."): tensor
        for name, tensor in model.vocoder.state_dict(prefix="vocoder.").items()
    }
    weights["feature_extractor.codebook_weights"] = model.vectors
    weights["feature_extractor.encodec.encoder.model.0.bias"] = torch.zeros(3)
    weights["head.istft.window"] = torch.hann_window(1280)
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG | changed))
    return folder


@pytest.mark.parametrize(("bandwidth", "books", "chosen"), [(6.0, 8, 2), (1.5, 2, 0)])
def test_the_bandwidth_says_how_many_codebooks_and_which_condition(
    tmp_path: Path, model: VocosCodec, bandwidth: float, books: int, chosen: int
) -> None:
    decoder = vocos.load(written(tmp_path, model, bandwidth=bandwidth), DecoderOptions())
    card = decoder.card
    assert (card.sample_rate, card.hop, card.sizes) == (24_000, 320, (1024,) * books)
    codes = random_codes(decoder, 12)
    assert_streams(decoder, codes, [5, 2], within=FLOAT32)
    model.vocoder.choose(chosen)
    vectors = model.vectors.view(16, 1024, -1)[torch.arange(books)[:, None], torch.as_tensor(codes)]
    whole = model.vocoder(vectors.sum(0).T[None])[0, 0].numpy()
    assert difference(decoder.decode(codes), whole) < FLOAT32


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"bandwidth": 7.0}, "bandwidth out of"),
        ({"head": {"class_path": "vocos.heads.IMDCTCosHead", "init_args": {}}}, "IMDCTCosHead"),
        ({"backbone": {}}, "class_path"),
    ],
)
def test_other_configurations_are_refused(
    tmp_path: Path, model: VocosCodec, changed: dict[str, object], word: str
) -> None:
    with pytest.raises(StageFailure, match=word) as failure:
        vocos.load(written(tmp_path, model, **changed), DecoderOptions())
    assert failure.value.error.code == "model_unusable"


def test_a_folder_without_a_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageFailure, match=r"config\.yaml"):
        vocos.load(tmp_path, DecoderOptions())


def test_it_has_no_encoder(tmp_path: Path) -> None:
    with pytest.raises(StageFailure) as failure:
        vocos.load_encoder(tmp_path, DecoderOptions())
    assert failure.value.error.code == "encoder_missing"
