"""NeuCodec and XCodec2: windows of the codec's own decode, and its own encoder."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import shutil
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from tests.support.decoders import random_codes, streamed
from tests.support.semantic import write_semantic

from antiphon.engines.chunks import Samples
from antiphon.engines.speech.decoders.check import check_decoder
from antiphon.engines.speech.decoders.decoder import (
    Codes,
    Decoder,
    DecoderOptions,
    LeadsIn,
    module_of,
)
from antiphon.engines.speech.decoders.windowed import Schedule, WindowedDecoder
from antiphon.engines.stage import StageFailure

KINDS = ("neucodec", "xcodec2")


class Codec:
    """One of the two, loaded once."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.model = write_semantic(kind, folder)
        self.decoder: Decoder = module_of(kind).load(folder, DecoderOptions(batch=4))


@pytest.fixture(scope="module", params=KINDS)
def codec(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Codec:
    torch.set_num_threads(1)
    return Codec(request.param, tmp_path_factory.mktemp(request.param))


def stream(codec: Codec, codes: Codes, sizes: list[int]) -> Samples:
    return np.concatenate(streamed(codec.decoder, codes, sizes))


def test_a_whole_decode_is_the_codec_s_own(codec: Codec) -> None:
    codes = random_codes(codec.decoder, 20)
    given = torch.from_numpy(codes[None].astype(np.int64))
    own = codec.model.decode(audio_codes=given).audio_values[0, 0].numpy()
    made = codec.decoder.decode(codes)
    assert made.std() > 0.01
    assert np.array_equal(made, own)
    card = codec.decoder.card
    assert (card.sample_rate, card.hop) == {"neucodec": (24_000, 480), "xcodec2": (16_000, 320)}[
        codec.kind
    ]
    assert card.sizes == (65_536,)


def test_every_chunking_gives_the_same_bytes_and_all_of_them(codec: Codec) -> None:
    hop = codec.decoder.card.hop
    for steps in (1, 15, 16, 17, 26, 70):
        codes = random_codes(codec.decoder, steps, seed=steps)
        whole = stream(codec, codes, [steps])
        assert whole.shape == (steps * hop,)
        assert np.isfinite(whole).all()
        for sizes in ([1], [3, 8], [16, 1]):
            assert stream(codec, codes, sizes).tobytes() == whole.tobytes()


def roughness(sound: Samples, places: list[int]) -> float:
    """Mean energy of the second difference in 8 samples round each place."""
    bends = np.diff(sound, 2) ** 2
    return float(np.mean([bends[at - 5 : at + 3].mean() for at in places]))


def test_seams_are_as_smooth_as_the_whole(codec: Codec) -> None:
    windowed = codec.decoder
    assert isinstance(windowed, WindowedDecoder)
    codes, card = random_codes(windowed, 160), windowed.card
    whole = windowed.decode(codes)
    places = [windowed.schedule.window(number).begin * card.hop for number in range(1, 8)]

    def decode(given: torch.Tensor) -> torch.Tensor:
        sound: torch.Tensor = codec.model.decode(audio_codes=given).audio_values[:, 0]
        return sound

    hard = WindowedDecoder(card, Schedule(fade=0), decode, torch.device("cpu"))
    joined, cut = (np.concatenate(streamed(each, codes, [160])) for each in (windowed, hard))
    # Random weights jump by 20 dB and more where nothing fades.
    assert roughness(cut, places) > 30 * roughness(whole, places)
    assert roughness(joined, places) < 3 * roughness(whole, places)


def test_the_first_and_the_last_code_at_every_position(codec: Codec) -> None:
    sizes = codec.decoder.card.sizes
    for code in (0, sizes[0] - 1):
        sound = stream(codec, np.full((1, 30), code, np.int32), [7])
        assert np.isfinite(sound).all()
        assert sound.size == 30 * codec.decoder.card.hop
    with pytest.raises(ValueError, match="from 0 to 65535"):
        codec.decoder.decode(np.full((1, 3), sizes[0], np.int32))


def test_streams_in_turn_and_together_are_as_alone(codec: Codec) -> None:
    decoder = codec.decoder
    these, those = random_codes(decoder, 40, seed=1), random_codes(decoder, 40, seed=2)
    alone = [stream(codec, codes, [40]) for codes in (these, those)]
    turn, together = [decoder.open(), decoder.open()], [decoder.open(), decoder.open()]
    made: list[list[Samples]] = [[], [], [], []]
    for at in range(0, 40, 8):
        codes = [each[:, at : at + 8] for each in (these, those)]
        last = [at == 32] * 2
        for number in range(2):
            made[number] += decoder.push([turn[number]], [codes[number]], last[:1])
        for number, sound in enumerate(decoder.push(together, codes, last)):
            made[2 + number].append(sound)
    for number, whole in enumerate(alone):
        assert np.concatenate(made[number]).tobytes() == whole.tobytes()
        # A larger product of matrices is summed in another order.
        off = np.abs(np.concatenate(made[2 + number]) - whole).max()
        assert off < 1e-4 * np.abs(whole).max()


def test_a_stream_that_is_dropped_leaves_the_others_as_they_are(codec: Codec) -> None:
    codes = random_codes(codec.decoder, 30)
    whole = stream(codec, codes, [30])
    dropped, kept = codec.decoder.open(), codec.decoder.open()
    codec.decoder.push([dropped, kept], [codes[:, ::-1][:, :20], codes[:, :20]], [False, False])
    del dropped
    codec.decoder.push([kept], [codes[:, 20:]], [True])
    assert stream(codec, codes, [30]).tobytes() == whole.tobytes()


def test_the_codes_of_a_reference_are_what_was_before(codec: Codec) -> None:
    decoder = cast("LeadsIn", codec.decoder)
    lead, codes = random_codes(codec.decoder, 30, seed=5), random_codes(codec.decoder, 12)
    state = decoder.open(lead=lead)
    (led,) = codec.decoder.push([state], [codes], [True])
    hop = codec.decoder.card.hop
    both = codec.decoder.decode(np.concatenate([lead, codes], axis=1))[30 * hop :]
    assert led.size == codes.shape[1] * hop
    assert np.array_equal(led[hop:], both[hop:])


def test_it_passes_the_check_at_load(codec: Codec) -> None:
    check_decoder(codec.decoder, steps_per_second=50)


def test_a_recording_is_encoded_by_the_codec_s_own_encoder(codec: Codec) -> None:
    encoder = module_of(codec.kind).load_encoder(codec.folder, DecoderOptions())
    assert encoder.sample_rate == 16_000
    time = np.arange(16_000) / 16_000
    low, high = (0.3 * np.sin(2 * np.pi * f * time).astype(np.float32) for f in (200, 900))
    codes = encoder.encode(low)
    assert codes.shape == (1, 50)
    assert codes.dtype == np.int32
    assert np.array_equal(encoder.encode(low), codes)
    assert not np.array_equal(encoder.encode(high), codes)
    assert [encoder.encode(low[:n]).shape[1] for n in (319, 6_399, 6_400, 6_401)] == [0, 19, 20, 20]
    # What is encoded can be spoken.
    assert codec.decoder.decode(codes).size == 50 * codec.decoder.card.hop


def copied(codec: Codec, folder: Path) -> Path:
    return Path(shutil.copytree(codec.folder, folder / "codec"))


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("config.json", b'{"model_type": "dac"}', "expected a folder of the model type"),
        ("config.json", None, "configuration"),
        ("config.json", b"{", "configuration"),
        ("model.safetensors", b"x", "weights"),
    ],
)
def test_a_folder_of_something_else_is_refused(
    codec: Codec, tmp_path: Path, file: str, content: bytes | None, words: str
) -> None:
    path = copied(codec, tmp_path) / file
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StageFailure, match=words) as refused:
        module_of(codec.kind).load(path.parent, DecoderOptions())
    assert refused.value.error.code == "model_unusable"


def test_weights_that_lack_something_are_refused(codec: Codec, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = copied(codec, tmp_path) / "model.safetensors"
    weights = load_file(path)
    del weights["acoustic_decoder.norm.weight"]
    save_file(weights, path, metadata={"format": "pt"})
    with pytest.raises(StageFailure, match="lack 1 tensors, acoustic_decoder.norm.weight"):
        module_of(codec.kind).load(path.parent, DecoderOptions())
