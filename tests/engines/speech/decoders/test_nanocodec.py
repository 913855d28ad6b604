"""NanoCodec: its shape, its codes, folders, and NeMo's names."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import save_file
from tests.support.codec_models import tiny_nanocodec
from tests.support.decoders import FLOAT32, assert_streams, random_codes
from torch import Tensor

from antiphon.deploy import convert_nanocodec
from antiphon.engines.speech.decoders import nanocodec
from antiphon.engines.speech.decoders.decoder import DecoderOptions
from antiphon.engines.speech.decoders.nanocodec import NanoCodec, NanoSettings, vectors_of
from antiphon.engines.stage import StageFailure

TINY = {"model_type": "nanocodec", "channels": 32, "rates": [7, 6, 2], "kernels": [3, 7]}


def test_the_published_shape_has_as_many_weights_as_published() -> None:
    with torch.device("meta"):
        model = NanoCodec(NanoSettings())
    assert sum(part.numel() for part in model.parameters()) / 1e6 == pytest.approx(31.5, abs=0.05)


def test_codes_are_digits() -> None:
    vectors = vectors_of((9, 8, 8, 7))
    assert vectors.shape == (4032, 4)
    assert vectors[0].tolist() == [-1.0, -1.0, -1.0, -1.0]
    # The middle digit of each: 4 + 9 * (4 + 8 * (4 + 8 * 3)).
    assert vectors[4 + 9 * (4 + 8 * (4 + 8 * 3))].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert vectors[-1].tolist() == [1.0, 0.75, 0.75, 1.0]
    assert vectors[1].tolist() == [-0.75, -1.0, -1.0, -1.0]


def test_codebooks_are_side_by_side() -> None:
    model = tiny_nanocodec()
    codes = torch.tensor([[[5], [4031], [0], [77]]])
    table = vectors_of((9, 8, 8, 7))
    wanted = torch.cat([table[5], table[4031], table[0], table[77]])
    assert torch.equal(model.front(codes)[0, :, 0], wanted)


def test_a_folder_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    save_file(tiny_nanocodec(dtype=torch.float32).state_dict(), tmp_path / "model.safetensors")
    decoder = nanocodec.load(tmp_path, DecoderOptions())
    card = decoder.card
    assert (card.sample_rate, card.hop, card.sizes) == (22_050, 84, (4032,) * 4)
    assert card.lookahead == 0
    assert_streams(decoder, random_codes(decoder, 20), [3], within=FLOAT32)


@pytest.mark.parametrize(
    ("config", "word"),
    [
        (TINY | {"chanels": 3}, "unknown fields chanels"),
        (TINY | {"channels": "many"}, "none of NanoCodec"),
        (TINY | {"channels": 64}, "don't fit"),
    ],
)
def test_a_folder_of_another_shape_is_refused(
    tmp_path: Path, config: dict[str, object], word: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(tiny_nanocodec(dtype=torch.float32).state_dict(), tmp_path / "model.safetensors")
    with pytest.raises(StageFailure, match=word) as failure:
        nanocodec.load(tmp_path, DecoderOptions())
    assert failure.value.error.code == "model_unusable"


def test_it_has_no_encoder(tmp_path: Path) -> None:
    with pytest.raises(StageFailure) as failure:
        nanocodec.load_encoder(tmp_path, DecoderOptions())
    assert failure.value.error.code == "encoder_missing"


def nemo_weights(model: NanoCodec) -> dict[str, Tensor]:
    """The weights of ``model`` as NeMo keeps them: its own names, sizes apart from directions."""
    weights: dict[str, Tensor] = {"audio_encoder.pre_conv.conv.bias": torch.zeros(3)}

    def convolution(place: str, conv: torch.nn.Module) -> None:
        direction, bias = (part.detach() for part in conv.parameters())
        size = direction.flatten(1).norm(dim=1)[:, None, None]
        where = f"audio_decoder.{place}.conv"
        weights[f"{where}.parametrizations.weight.original0"] = size * 2
        weights[f"{where}.parametrizations.weight.original1"] = direction / 2
        weights[f"{where}.bias"] = bias

    def alpha(place: str, values: Tensor) -> None:
        weights[f"audio_decoder.{place}.activation.snake_act.alpha"] = values[None, :, None]

    convolution("pre_conv", model.enter)
    convolution("post_conv", model.leave)
    alpha("post_activation", model.last_alpha)
    for i, stage in enumerate(model.stages):
        assert isinstance(stage, nanocodec.NanoStage)
        alpha(f"activations.{i}", stage.alpha)
        convolution(f"up_sample_conv_layers.{i}", stage.up)
        for j, chain in enumerate(stage.chains):
            for k, unit in enumerate(chain.children()):
                assert isinstance(unit, nanocodec.NanoUnit)
                place = f"res_layers.{i}.res_blocks.{j}.res_blocks.{k}"
                alpha(f"{place}.input_activation", unit.first_alpha)
                alpha(f"{place}.skip_activation", unit.second_alpha)
                convolution(f"{place}.input_conv", unit.first)
                convolution(f"{place}.skip_conv", unit.second)
    return weights


def test_nemos_weights_are_renamed_and_folded() -> None:
    model = tiny_nanocodec()
    found = nanocodec.from_nemo(nemo_weights(model))
    wanted = model.state_dict()
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        # The size was doubled.
        doubled = tensor * 2 if name.endswith("weight") else tensor
        assert torch.allclose(found[name], doubled, rtol=1e-12, atol=0), name


def nemo_file(folder: Path, **changed: object) -> Path:
    """A file as NeMo writes it."""
    model = tiny_nanocodec(dtype=torch.float32)
    decoder = {
        "base_channels": 32,
        "up_sample_rates": [7, 6, 2],
        "resblock_kernel_sizes": [3, 7],
        "activation": "half_snake",
        "output_activation": "clamp",
    }
    described = {
        "sample_rate": 22_050,
        "audio_decoder": decoder | changed,
        "vector_quantizer": {"num_groups": 4, "num_levels_per_group": [9, 8, 8, 7]},
    }
    torch.save(nemo_weights(model), folder / "model_weights.ckpt")
    (folder / "model_config.yaml").write_text(yaml.safe_dump(described))
    with tarfile.open(folder / "model.nemo", "w") as archive:
        for name in ("model_config.yaml", "model_weights.ckpt"):
            archive.add(folder / name, arcname=f"./{name}")
    return folder / "model.nemo"


def test_a_file_of_nemo_becomes_a_folder(tmp_path: Path) -> None:
    assert convert_nanocodec.main([str(nemo_file(tmp_path)), str(tmp_path / "made")]) == 0
    decoder = nanocodec.load(tmp_path / "made", DecoderOptions())
    assert (decoder.card.sample_rate, decoder.card.hop) == (22_050, 84)
    assert decoder.decode(random_codes(decoder, 4)).any()


def test_a_file_of_another_shape_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = nemo_file(tmp_path, activation="elu")
    assert convert_nanocodec.main([str(model), str(tmp_path / "made")]) == 1
    assert "expected half_snake as audio_decoder.activation, got elu" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()
