"""What programs around these models are known to get wrong, each as a test that ours does not."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from tests.support.decoders import FLOAT64, difference, random_codes, streamed, tiny_snac

from antiphon.engines.chunks import Samples
from antiphon.engines.speech.decoders.decoder import Codes, DecoderCard
from antiphon.engines.speech.decoders.snac import decoder_of
from antiphon.engines.speech.decoders.windowed import Schedule, WindowedDecoder
from antiphon.engines.speech.families.binding import bind
from antiphon.engines.speech.families.family import family
from antiphon.engines.speech.streaming.runner import StreamRunner
from antiphon.engines.speech.tokens.layout import Layout
from antiphon.engines.speech.tokens.splitter import Splitter
from antiphon.engines.speech.tokens.utterances import token_budget

from . import made

FRAME = 2048
"""Samples."""


@cache
def snac() -> StreamRunner:
    """With its noise, in float64."""
    torch.set_num_threads(1)
    return decoder_of(tiny_snac())


def layout() -> Layout:
    return bind(family("orpheus"), made.orpheus()).layout


def spoken(tokens: list[int], sizes: tuple[int, ...] = (1,)) -> Samples:
    """Sound of the tokens of Orpheus, pushed by ``sizes`` of steps."""
    codes = made.split(layout(), tokens)
    return np.concatenate(streamed(snac(), codes, sizes))


def frames(count: int) -> Codes:
    return random_codes(snac(), 4 * count, frame=4)


# Orpheus decodes four frames to keep the second of them: the first and the last two are lost,
# and there is no sound at all before 28 tokens.


@pytest.mark.parametrize("count", [1, 2, 3, 12])
def test_no_frame_is_lost_at_either_end(count: int) -> None:
    codes = frames(count)
    sound = spoken(made.tokens_of(layout(), codes))
    assert sound.size == count * FRAME
    assert difference(sound, snac().decode(codes)) < FLOAT64


# It takes a token for a code where that is above 0, so a code of 0 is left out, and all that
# come after it are read at the wrong place.


def test_a_code_of_0_is_a_code_at_every_place() -> None:
    codes = frames(4)
    codes[:, 4:8] = 0
    codes[:, 8:12] = 63
    assert (made.split(layout(), made.tokens_of(layout(), codes)) == codes).all()


def test_a_code_out_of_its_place_breaks_its_frame_alone() -> None:
    codes = frames(3)
    tokens = made.tokens_of(layout(), codes)
    # One more than the last code of place 5 is the first of place 6.
    tokens[7 + 5] = layout().blocks[5].base + 64
    splitter = Splitter(layout())
    read = np.concatenate([stretch.codes for stretch in splitter.feed(tokens)], axis=1)
    # Of the second frame its first half was known before.
    assert (read == np.delete(codes, [6, 7], axis=1)).all()
    assert splitter.dropped > 0


# Its stop token is one of another vocabulary, and 1,200 tokens are the most: 14.6 s.


def test_an_utterance_ends_where_the_model_says() -> None:
    vocabulary = made.real_orpheus()
    stop = bind(family("orpheus"), vocabulary).stop
    assert {vocabulary.decode([token]) for token in stop} == {
        "<custom_token_2>",
        "<custom_token_6>",
    }
    orpheus = family("orpheus")
    room = orpheus.context_tokens - 200
    assert token_budget(orpheus, "a" * orpheus.max_chars, room) > 20 * orpheus.tokens_per_second


# Each of its windows draws noise anew, so that no two decodes of the same codes are alike.


def test_the_same_codes_are_the_same_sound() -> None:
    tokens = made.tokens_of(layout(), frames(5))
    assert difference(spoken(tokens, (1,)), spoken(tokens, (3, 7))) < FLOAT64


# A server of it asks for a first chunk of one frame, whose sound is empty, and later doubles its
# window, so that frames are played twice: of 14 come 1 2 3 1 2 3 4 5 6 7 8 8.


def test_chunks_may_begin_small_and_grow() -> None:
    codes = frames(14)
    sound = spoken(made.tokens_of(layout(), codes), (4, 8, 16, 28))
    assert difference(sound, snac().decode(codes)) < FLOAT64


# NeuTTS places its last chunk a frame late: 20 ms are said twice.


@pytest.mark.parametrize("steps", [1, 5, 16, 17, 26, 90, 137])
def test_every_step_of_a_windowed_codec_is_said_once(steps: int) -> None:
    """Codes that say where they are: the sound of each is its own number."""
    hop = 160
    card = DecoderCard(name="neucodec", sample_rate=8000, hop=hop, sizes=(256,), mode="windowed")

    def decode(codes: torch.Tensor) -> torch.Tensor:
        return codes[:, 0].repeat_interleave(hop, dim=1).float()

    decoder = WindowedDecoder(card, Schedule(), decode, torch.device("cpu"))
    codes = np.arange(steps, dtype=np.int32)[None]
    sound = np.concatenate(streamed(decoder, codes, (1, 3, 40)))
    np.testing.assert_allclose(sound, np.repeat(np.arange(steps), hop), atol=1e-4)
