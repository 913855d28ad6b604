"""Soprano: prompts, the states that are spoken, folders."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.codec_models import tiny_decoder, tiny_qwen, tiny_vocoder
from tests.support.decoders import FLOAT32, FLOAT64, assert_streams, difference, random_codes
from torch.nn import functional

from antiphon.engines.speech.decoders import soprano
from antiphon.engines.speech.decoders.decoder import Codes, DecoderOptions, LeadsIn
from antiphon.engines.speech.decoders.soprano import SopranoRunner
from antiphon.engines.stage import StageFailure


@pytest.fixture
def decoder() -> SopranoRunner:
    made = tiny_decoder("soprano")
    assert isinstance(made, SopranoRunner)
    return made


def spoken(prompt: Codes, codes: Codes, *, after: bool) -> np.ndarray:
    """The sound of states that were made a token at a time, as an engine makes them: those that
    predict each token, or those after it."""
    from transformers import DynamicCache

    model, cache = tiny_qwen(), DynamicCache()
    states: list[torch.Tensor] = []
    heard = torch.as_tensor(prompt.astype(np.int64))
    for token in codes[0]:
        state = model(input_ids=heard, past_key_values=cache, use_cache=True).last_hidden_state
        states.append(state[:, -1])
        heard = torch.tensor([[int(token)]])
    last = model(input_ids=heard, past_key_values=cache, use_cache=True).last_hidden_state
    states = [*states[1:], last[:, -1]] if after else states
    values = torch.stack(states, dim=2)
    size = 4 * (len(states) - 1) + 1
    values = functional.interpolate(values, size=size, mode="linear", align_corners=True)
    sound: np.ndarray = tiny_vocoder()(values)[0, 0].numpy()
    return sound


def test_the_states_that_predict_tokens_are_spoken(decoder: SopranoRunner) -> None:
    prompt, codes = random_codes(decoder, 5, seed=1), random_codes(decoder, 12)
    sound = decoder.decode(codes, lead=prompt)
    assert difference(sound, spoken(prompt, codes, after=False)) < FLOAT64
    assert difference(sound, spoken(prompt, codes, after=True)) > 1e-3


def test_streams_of_other_prompts_share_a_batch(decoder: SopranoRunner) -> None:
    opened: LeadsIn = decoder
    codes = random_codes(decoder, 11)
    # One of a token, one over the size of a digit of what is kept of it.
    prompts = [random_codes(decoder, length, seed=length) for length in (1, 6, 80)]
    streams = [opened.open(lead=prompt) for prompt in prompts]
    begun = decoder.push(streams, [codes[:, :4]] * 3, [False] * 3)
    ended = decoder.push(streams, [codes[:, 4:]] * 3, [True] * 3)
    for number, prompt in enumerate(prompts):
        sound = np.concatenate((begun[number], ended[number]))
        assert difference(sound, decoder.decode(codes, lead=prompt)) < FLOAT64


def test_sound_comes_after_four_tokens(decoder: SopranoRunner) -> None:
    card = decoder.card
    # Eight blocks, the hold of interpolation, and half a transform.
    assert card.lookahead / card.hop == 3.25
    stream = decoder.open()
    codes = random_codes(decoder, 5)
    given = [decoder.push([stream], [codes[:, at : at + 1]], [False])[0].size for at in range(4)]
    assert [size > 0 for size in given] == [False, False, False, True]


def test_a_stream_longer_than_the_context_is_refused_and_goes_on(decoder: SopranoRunner) -> None:
    stream = decoder.open(lead=random_codes(decoder, 90))
    codes = random_codes(decoder, 7)
    with pytest.raises(ValueError, match="at most 96 tokens, the prompt's 90 among them, got 97"):
        decoder.push([stream], [codes], [True])
    sound = decoder.push([stream], [codes[:, :6]], [True])[0]
    whole = decoder.decode(codes[:, :6], lead=random_codes(decoder, 90))
    assert difference(sound, whole) < FLOAT64


def test_a_prompt_of_another_vocabulary_is_refused(decoder: SopranoRunner) -> None:
    with pytest.raises(ValueError, match="64"):
        decoder.open(lead=np.array([[64]], np.int32))


def published(folder: Path, name: str = "decoder.pth") -> Path:
    """A folder as its authors publish it."""
    tiny_qwen(dtype=torch.float32).save_pretrained(folder)
    weights = {
        name.replace("backbone.", "decoder."): tensor
        for name, tensor in tiny_vocoder(dtype=torch.float32).state_dict().items()
    }
    torch.save(weights | {"head.istft.window": torch.hann_window(64)}, folder / name)
    return folder


def test_a_folder_is_loaded_in_single_precision(tmp_path: Path) -> None:
    decoder = soprano.load(published(tmp_path), DecoderOptions(dtype="bfloat16"))
    card = decoder.card
    assert (card.sample_rate, card.hop, card.sizes) == (32_000, 64, (64,))
    codes = random_codes(decoder, 10)
    assert_streams(decoder, codes, [3], within=FLOAT32)
    # Norms of the tiny model are wider than those that were loaded.
    assert difference(decoder.decode(codes), tiny_decoder("soprano").decode(codes)) < 1e-5


def test_a_folder_without_the_vocoder_is_refused(tmp_path: Path) -> None:
    published(tmp_path, "vocoder.pth")
    with pytest.raises(StageFailure, match=r"decoder\.pth"):
        soprano.load(tmp_path, DecoderOptions())


def test_it_has_no_encoder(tmp_path: Path) -> None:
    with pytest.raises(StageFailure) as failure:
        soprano.load_encoder(tmp_path, DecoderOptions())
    assert failure.value.error.code == "encoder_missing"
