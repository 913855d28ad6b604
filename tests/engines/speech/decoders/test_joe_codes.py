# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Our own talker's codes: any stretches of them make what the whole makes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from antiphon.engines.speech.decoders import joe_codes
from antiphon.engines.speech.decoders.decoder import Codes, DecoderOptions
from antiphon.engines.speech.decoders.joe_codes import JoeDecoder
from antiphon.engines.speech.decoders.joe_latents import LatentNet, LatentShape
from antiphon.engines.speech.voices.family import VoiceModel
from antiphon.engines.stage import StageFailure

SHAPE = LatentShape(channels=3, frames=2, size=4, codes=16, hidden=8)
HOP, CONTEXT = 5, 4


class Voice:
    """A decoder of which each sample depends on frames as far off as it says."""

    def __init__(self, context: int = CONTEXT, channels: int = SHAPE.channels) -> None:
        self.model = VoiceModel(
            family="piper",
            voices=("a",),
            language="en",
            sample_rate=100,
            hop=HOP,
            channels=channels,
            context_frames=context,
        )
        chance = np.random.default_rng(2)
        self._kernel = chance.normal(size=(2 * CONTEXT + 1, channels, HOP))

    def run(
        self, frames: NDArray[np.float32], left: int = 0, right: int = 0
    ) -> NDArray[np.float32]:
        """Samples of frames but for so many at both ends."""
        padded = np.pad(frames.astype(np.float64), ((0, 0), (0, 0), (CONTEXT, CONTEXT)))
        count = frames.shape[2]
        made = sum(
            np.einsum("bcn,ch->bnh", padded[:, :, at : at + count], kernel)
            for at, kernel in enumerate(self._kernel)
        )
        flat = np.asarray(made).reshape(len(frames), -1).astype(np.float32)
        return flat[:, left * HOP : flat.shape[1] - right * HOP]


def net() -> LatentNet:
    torch.manual_seed(0)
    made = LatentNet(SHAPE).requires_grad_(False)
    for each in (*made.parameters(), made.weights):
        each.normal_()
    made.weights.abs_().add_(0.5)
    return made


DECODER = JoeDecoder(net(), Voice())


def codes(steps: int, seed: int = 0) -> Codes:
    return np.random.default_rng(seed).integers(0, SHAPE.codes, (2, steps)).astype(np.int32)


def in_stretches(decoder: JoeDecoder, whole: Codes, sizes: list[int]) -> NDArray[np.float32]:
    """Pushed by ``sizes``, and what is left at last."""
    state, made, at = decoder.open(), [], 0
    for size in sizes:
        if part := whole[:, at : at + size].shape[1]:
            made += decoder.push([state], [whole[:, at : at + part]], [False])
            at += part
    made += decoder.push([state], [whole[:, at:]], [True])
    return np.concatenate(made)


@settings(max_examples=60, deadline=None)
@given(steps=st.integers(0, 30), sizes=st.lists(st.integers(1, 12), max_size=30))
def test_every_chunking_makes_what_the_whole_makes(steps: int, sizes: list[int]) -> None:
    whole = codes(steps)
    made = in_stretches(DECODER, whole, sizes)
    assert len(made) == steps * DECODER.card.hop
    assert np.allclose(made, DECODER.decode(whole), atol=1e-4)


def test_a_voice_that_reaches_further_than_it_says_is_seen_by_that() -> None:
    """Else the test above could not fail."""
    wrong = JoeDecoder(net(), Voice(context=CONTEXT - 1))
    made = in_stretches(wrong, codes(20), [1] * 19)
    assert not np.allclose(made, wrong.decode(codes(20)), atol=1e-2)


def test_sound_is_as_late_as_the_card_says_and_no_later() -> None:
    state, card = DECODER.open(), DECODER.card
    for step in range(1, 12):
        before = state.decoded
        (made,) = DECODER.push([state], [codes(1, step)], [False])
        due = max(0, step * card.hop - card.lookahead)
        assert before * HOP + len(made) == due


def test_streams_do_not_know_of_each_other_and_leave_nothing_behind() -> None:
    one, other = DECODER.open(), DECODER.open()
    made: list[list[NDArray[np.float32]]] = [[], []]
    for at in range(0, 12, 3):
        parts = [codes(12, seed)[:, at : at + 3] for seed in (1, 2)]
        for each, new in zip(made, DECODER.push([one, other], parts, [at == 9] * 2), strict=True):
            each.append(new)
    for seed, each in zip((1, 2), made, strict=True):
        assert np.allclose(np.concatenate(each), DECODER.decode(codes(12, seed)), atol=1e-4)
    assert one.codes.size == one.latents.size == 0


def test_what_is_kept_of_a_long_stream_is_bounded() -> None:
    state = DECODER.open()
    for step in range(100):
        DECODER.push([state], [codes(1, step)], [False])
    assert state.codes.shape[1] <= 2 * SHAPE.reach
    assert state.latents.shape[1] <= 2 * CONTEXT + SHAPE.frames


@pytest.mark.parametrize(
    ("given_codes", "last"),
    [
        ([codes(2)], [False, False]),
        ([codes(2)[:1]], [False]),
        ([codes(0)], [False]),
        ([np.full((2, 1), SHAPE.codes, np.int32)], [False]),
        ([np.full((2, 1), -1, np.int32)], [True]),
    ],
)
def test_codes_that_are_none_are_refused_and_change_nothing(
    given_codes: list[Codes], last: list[bool]
) -> None:
    state = DECODER.open()
    with pytest.raises(ValueError, match="expected codes"):
        DECODER.push([state], given_codes, last)
    assert np.allclose(
        np.concatenate(DECODER.push([state], [codes(9)], [True])), DECODER.decode(codes(9))
    )


def test_a_stream_that_has_ended_is_refused() -> None:
    state = DECODER.open()
    DECODER.push([state], [codes(0)], [True])
    with pytest.raises(ValueError, match="ended"):
        DECODER.push([state], [codes(1)], [True])


def test_folders_that_hold_something_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StageFailure, match=r"codec\.json"):
        joe_codes.load(tmp_path, DecoderOptions())
    (tmp_path / "codec.json").write_bytes(msgspec.json.encode(SHAPE))
    with pytest.raises(StageFailure, match=r"codec\.safetensors"):
        joe_codes.load(tmp_path, DecoderOptions())
    with pytest.raises(StageFailure) as refused:
        joe_codes.load_encoder(tmp_path, DecoderOptions())
    assert refused.value.error.code == "encoder_missing"
    with pytest.raises(StageFailure, match="3 channels"):
        JoeDecoder(net(), Voice(channels=4))
