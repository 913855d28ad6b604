"""SNAC by stretches: its whole decode to the last bit that matters, with noise and all."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tests.support.decoders import (
    FLOAT32,
    FLOAT64,
    SNAC_CONFIG,
    assert_streams,
    difference,
    random_codes,
    streamed,
    tiny_snac,
)
from torch import Tensor

from antiphon.engines.chunks import Samples
from antiphon.engines.speech.decoders import snac
from antiphon.engines.speech.decoders.decoder import Codes, DecoderOptions, module_of
from antiphon.engines.speech.streaming.layer import Extent, State
from antiphon.engines.speech.streaming.runner import Step, StreamRunner
from antiphon.engines.stage import StageFailure

FRAME = 4
"""Steps of a code of the slowest codebook."""

ORDER = ((0, 0, 4), (1, 0, 2), (2, 0, 1), (2, 1, 1), (1, 2, 2), (2, 2, 1), (2, 3, 1))
"""Of the seven tokens of a frame of Orpheus: codebook, first step of the frame, steps."""


@pytest.fixture(scope="module")
def decoder() -> StreamRunner:
    return snac.decoder_of(tiny_snac())


def test_the_card_is_that_of_the_24_khz_model(decoder: StreamRunner) -> None:
    card = decoder.card
    assert (card.sample_rate, card.hop, card.lookahead, card.short) == (24_000, 512, 4757, 0)
    assert card.sizes == (64, 64, 64)


@pytest.mark.parametrize("steps", [1, 4, 10, 23])
def test_every_chunking_is_the_whole(decoder: StreamRunner, steps: int) -> None:
    """Of utterances too that end within a frame."""
    codes = random_codes(decoder, steps, frame=FRAME)
    for sizes in ([1], [3, 7, 2], [steps]):
        assert_streams(decoder, codes, sizes)


def test_float32_is_as_near_as_float32_gets() -> None:
    decoder = snac.decoder_of(tiny_snac(dtype=torch.float32))
    codes = random_codes(decoder, 24, frame=FRAME)
    for sizes in ([1], [5], [24]):
        assert_streams(decoder, codes, sizes, within=FLOAT32)


@pytest.mark.parametrize("code", [0, 63])
def test_the_first_and_the_last_code_are_codes(decoder: StreamRunner, code: int) -> None:
    """In each codebook at each place, and all of them at once."""
    codes = random_codes(decoder, 12, frame=FRAME)
    assert_streams(decoder, np.full_like(codes, code), [5])
    for book, width in enumerate((4, 2, 1)):
        for at in range(0, 4, width):
            changed = codes.copy()
            changed[book, 4 + at : 4 + at + width] = code
            assert_streams(decoder, changed, [4])


def test_the_first_sound_comes_after_eighteen_tokens(decoder: StreamRunner) -> None:
    """Which are two frames and four tokens, and ten steps."""
    tokens = [(place, frame) for frame in range(4) for place in ORDER][:18]
    known = np.zeros((3, 16), bool)
    for (book, first, steps), frame in tokens:
        at = frame * FRAME + first
        known[book, at : at + steps] = True
    complete = int(known.all(axis=0).argmin())
    codes = random_codes(decoder, complete, frame=FRAME)
    given = [piece.shape[0] for piece in streamed(decoder, codes, [1])[:-1]]
    at_once = decoder.push([decoder.open()], [codes], [False])[0]
    assert complete == 10
    assert given == [0] * 9
    assert at_once.shape[0] == 10 * 512 - 4757


def test_streams_of_different_places_share_a_push(decoder: StreamRunner) -> None:
    codes = [random_codes(decoder, steps, seed=steps, frame=FRAME) for steps in (12, 20, 24)]
    states = [decoder.open(seed=number) for number in range(3)]
    given: list[list[Samples]] = [[], [], []]
    given[1] += decoder.push([states[1]], [codes[1][:, :8]], [False])
    given[2] += decoder.push([states[2]], [codes[2][:, :8]], [False])
    given[2] += decoder.push([states[2]], [codes[2][:, 8:12]], [False])
    for first in (0, 4, 8):
        stretches = [
            codes[0][:, first : first + 4],
            codes[1][:, first + 8 : first + 12],
            codes[2][:, first + 12 : first + 16],
        ]
        made = decoder.push(states, stretches, [first == 8] * 3)
        for pieces, samples in zip(given, made, strict=True):
            pieces.append(samples)
    for number, pieces in enumerate(given):
        alone = np.concatenate(streamed(decoder, codes[number], [24], seed=number))
        assert difference(np.concatenate(pieces), alone) < FLOAT64


def test_the_noise_is_there_and_is_that_of_the_seed() -> None:
    model = tiny_snac(dtype=torch.float32)
    decoder = snac.decoder_of(model)
    silent = snac.decoder_of(tiny_snac(noise=False, dtype=torch.float32))
    codes = random_codes(decoder, 12, frame=FRAME)
    once, again, other = (
        np.concatenate(streamed(decoder, codes, [4], seed=seed)) for seed in (5, 5, 6)
    )
    assert once.tobytes() == again.tobytes()
    assert difference(once, other) > 0.01
    assert difference(once, np.concatenate(streamed(silent, codes, [4]))) > 0.01


def windowed(decoder: StreamRunner, codes: Codes, before: int, after: int) -> Samples:
    """As others stream: each frame out of a whole decode of itself and some around it."""
    hop = FRAME * decoder.card.hop
    pieces: list[Samples] = []
    for frame in range(codes.shape[1] // FRAME):
        first = max(0, frame - before)
        window = decoder.decode(codes[:, first * FRAME : (frame + 1 + after) * FRAME])
        pieces.append(window[(frame - first) * hop : (frame - first + 1) * hop])
    return np.concatenate(pieces)


def test_windows_of_one_frame_before_and_two_after_are_not_the_whole() -> None:
    """So that the tests above would see it; three on each side are enough."""
    decoder = snac.decoder_of(tiny_snac(noise=False))
    codes = random_codes(decoder, 40, frame=FRAME)
    whole = decoder.decode(codes)
    assert difference(windowed(decoder, codes, 1, 2), whole) > 1e-4
    assert difference(windowed(decoder, codes, 3, 3), whole) < FLOAT64


def test_codes_in_a_wrong_order_are_not_the_whole(decoder: StreamRunner) -> None:
    codes = random_codes(decoder, 16, frame=FRAME)
    swapped = codes.copy()
    swapped[2, 4], swapped[2, 5] = codes[2, 5], codes[2, 4]
    assert codes[2, 4] != codes[2, 5]
    made = np.concatenate(streamed(decoder, swapped, [4]))
    assert difference(made, decoder.decode(codes)) > 1e-3


class Counted:
    """A step that counts what goes through it."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.steps = 0

    def new_state(self) -> State:
        return self.step.new_state()

    def run(self, codes: Tensor, states: Sequence[State], extent: Extent) -> Tensor:
        self.steps += codes.shape[-1]
        return self.step.run(codes, states, extent)


def test_nothing_is_computed_twice() -> None:
    """Of five seconds, all that goes through besides is what pushes out the end."""
    decoder = snac.decoder_of(tiny_snac(dtype=torch.float32))
    counted = vars(decoder)["_step"] = Counted(vars(decoder)["_step"])
    steps = 5 * 24_000 // 512
    streamed(decoder, random_codes(decoder, steps, frame=FRAME), [8 * FRAME])
    assert counted.steps == steps + 10 < 1.05 * steps


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A codec as its authors publish it."""
    place = tmp_path_factory.mktemp("snac")
    (place / "config.json").write_text(json.dumps(SNAC_CONFIG), encoding="utf-8")
    torch.save(tiny_snac(dtype=torch.float32).state_dict(), place / "pytorch_model.bin")
    return place


def changed(folder: Path, to: Path, **config: Any) -> Path:
    (to / "config.json").write_text(json.dumps(SNAC_CONFIG | config), encoding="utf-8")
    (to / "pytorch_model.bin").write_bytes((folder / "pytorch_model.bin").read_bytes())
    return to


def test_a_folder_is_loaded(folder: Path, tmp_path: Path) -> None:
    """With weights of either kind."""
    codes = random_codes(snac.decoder_of(tiny_snac(dtype=torch.float32)), 8, frame=FRAME)
    expected = snac.decoder_of(tiny_snac(dtype=torch.float32)).decode(codes)
    weights = torch.load(folder / "pytorch_model.bin", weights_only=True)
    save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(SNAC_CONFIG), encoding="utf-8")
    for place in (folder, tmp_path):
        loaded = module_of("snac").load(place, DecoderOptions())
        assert difference(loaded.decode(codes), expected) == 0
        assert_streams(loaded, codes, [4], within=FLOAT32)


def test_a_recording_is_encoded(folder: Path) -> None:
    encoder = module_of("snac").load_encoder(folder, DecoderOptions())
    recording = np.sin(np.arange(5000, dtype=np.float32) / 9)
    codes = encoder.encode(recording)
    padded = np.zeros(3 * 2048, np.float32)
    padded[:5000] = recording
    with torch.inference_mode():
        books = tiny_snac(dtype=torch.float32).encode(torch.from_numpy(padded)[None, None])
    assert encoder.sample_rate == 24_000
    assert codes.shape == (3, 9)
    assert codes[:, [0, 5, 8]].tolist() == [
        [int(book[0, at // stride]) for at in (0, 5, 8)]
        for book, stride in zip(books, (4, 2, 1), strict=True)
    ]


class Trap:
    """Pickled, this runs code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("sprung",))


@pytest.mark.parametrize(
    ("config", "weights", "said"),
    [
        ({"attn_window_size": 32}, None, "without attention"),
        ({"unheard_of": 1}, None, "none of SNAC"),
        ({"codebook_size": 32}, None, "don't fit"),
        ({}, b"", "can't be read"),
        ({}, Trap(), "can't be read"),
    ],
)
def test_what_cannot_be_loaded_is_refused(
    folder: Path,
    tmp_path: Path,
    config: dict[str, Any],
    weights: object,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = changed(folder, tmp_path, **config)
    if isinstance(weights, Trap):
        torch.save({"weights": weights}, place / "pytorch_model.bin")
    elif weights is not None:
        (place / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(StageFailure, match=said) as failure:
        module_of("snac").load(place, DecoderOptions())
    assert failure.value.error.code == "model_unusable"
    assert "sprung" not in capsys.readouterr().out


def test_an_empty_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(StageFailure, match="expected a configuration"):
        module_of("snac").load(tmp_path, DecoderOptions())
    changed(folder, tmp_path)
    (tmp_path / "pytorch_model.bin").unlink()
    with pytest.raises(StageFailure, match="expected one of"):
        module_of("snac").load(tmp_path, DecoderOptions())
