"""The self-check: decoders that keep their word pass, and those that lie are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from tests.support.decoders import tiny_snac

from antiphon.engines.chunks import Samples
from antiphon.engines.speech.decoders import snac
from antiphon.engines.speech.decoders.check import Reach, check_decoder
from antiphon.engines.speech.decoders.decoder import (
    Codes,
    Decoder,
    DecoderCard,
    DecoderOptions,
    DecoderState,
)
from antiphon.engines.stage import StageFailure

HOP = 10
AHEAD = 3
BEHIND = 2


@dataclass
class Stream:
    """What was pushed, and how much was given."""

    codes: list[Codes] = field(default_factory=list[Codes])
    given: int = 0
    steps: int = 0


class Windows:
    """Decodes anew a window of what was pushed, as others do; a step depends on some around."""

    def __init__(
        self, card: DecoderCard, *, left: int = BEHIND, right: int = AHEAD, hop: int = HOP
    ) -> None:
        self.card = card
        self._left, self._right, self._hop = left, right, hop

    def open(self, seed: int = 0) -> DecoderState:
        return Stream()

    def push(
        self, states: Sequence[DecoderState], codes: Sequence[Codes], last: Sequence[bool]
    ) -> list[Samples]:
        made: list[Samples] = []
        for state, new, ends in zip(cast("Sequence[Stream]", states), codes, last, strict=True):
            state.codes.append(new)
            state.steps += new.shape[1]
            certain = state.steps if ends else max(0, state.steps - self._right)
            begin = max(0, state.given - self._left)
            window = np.concatenate(state.codes, axis=1)[:, begin : certain + self._right]
            sound = self.decode(window)[(state.given - begin) * self._hop :]
            made.append(sound[: (certain - state.given) * self._hop])
            state.given = certain
        return made

    def decode(self, codes: Codes) -> Samples:
        values = np.sin(codes.astype(np.float32) + 1).sum(axis=0)
        around = np.pad(values, (BEHIND, AHEAD))
        taps = np.array([0.1, 0.5, 1.0, 0.5, 0.2, 0.1], np.float32)
        sound = np.correlate(around, taps, "valid").astype(np.float32)
        return np.repeat(sound, self._hop)


CARD = DecoderCard(name="dac", sample_rate=1000, hop=HOP, sizes=(16, 8), lookahead=AHEAD * HOP)


def refusal(decoder: object, **known: Any) -> str:
    with pytest.raises(StageFailure) as refused:
        check_decoder(cast("Decoder", decoder), **known)
    assert refused.value.error.code == "model_unusable"
    return refused.value.error.message


def test_a_decoder_that_keeps_its_word_passes() -> None:
    assert check_decoder(Windows(CARD), steps_per_second=100) == Reach(AHEAD * HOP, BEHIND * HOP)


def test_a_card_that_promises_too_little_is_refused_with_the_numbers() -> None:
    less = replace(CARD, lookahead=AHEAD * HOP - 1)
    assert "30 samples" in refusal(Windows(less))
    # It also gives sound before all that it depends on is there.
    message = refusal(Windows(replace(CARD, lookahead=2 * HOP), right=2))
    assert "30 samples ahead" in message
    assert "its card says 20" in message


@pytest.mark.parametrize("window", [{"left": BEHIND - 1}, {"right": AHEAD - 1}])
def test_a_window_that_is_too_small_is_refused(window: dict[str, int]) -> None:
    assert "not a whole decode's" in refusal(Windows(CARD, **window))


def test_a_stream_that_comes_later_than_the_card_says_is_refused() -> None:
    assert "is 50 samples behind, its card says 30" in refusal(Windows(CARD, right=5))


def test_another_hop_or_rate_than_the_card_s_is_refused() -> None:
    assert "gives 176 samples, its card says 160" in refusal(Windows(CARD, hop=HOP + 1))
    message = refusal(Windows(CARD), steps_per_second=50)
    assert message.endswith("expected 50 steps a second, its card says 100")


@pytest.mark.parametrize(("gain", "short"), [(0.0, 0), (np.nan, 0), (1.0, 1)])
def test_what_gives_no_sound_or_too_little_is_refused(gain: float, short: int) -> None:
    class Spoiled(Windows):
        def decode(self, codes: Codes) -> Samples:
            sound = super().decode(codes)
            return sound[: sound.size - short] * np.float32(gain)

    refusal(Spoiled(CARD))


def test_codebooks_that_are_smaller_than_the_card_s_are_refused() -> None:
    class Table(Windows):
        def decode(self, codes: Codes) -> Samples:
            np.zeros(15)[codes]
            return super().decode(codes)

    assert refusal(Table(CARD)).endswith("it can't decode: IndexError")


def test_a_windowed_decoder_has_to_give_the_same_whatever_the_pushes() -> None:
    card = replace(CARD, mode="windowed")
    assert check_decoder(Windows(card)).ahead == card.lookahead
    assert "another stream's" in refusal(Windows(card, left=0))


def test_snac_reaches_as_far_as_its_card_says() -> None:
    torch.set_num_threads(1)
    decoder: Any = snac.decoder_of(tiny_snac(), DecoderOptions())
    reach = check_decoder(decoder)
    card = decoder.card
    # The edge of a reach is faint: some of it is below what is seen.
    assert card.lookahead - 2 * card.hop < reach.ahead <= card.lookahead
    decoder._card = replace(card, lookahead=card.lookahead - 3 * card.hop)
    assert "samples" in refusal(decoder)
