"""The benchmark of streaming decoders: its limits, and the count of tokens to first audio."""

from __future__ import annotations

import dataclasses

import pytest
from benchmarks.code2wav import Whole, first_audio_tokens, missed
from benchmarks.code2wav_codecs import CODECS
from tests.support.decoders import tiny_snac
from torch import float32

from antiphon.engines.speech.decoders.snac import decoder_of

FINE = Whole("snac-24k", 1.04, 1.1, 4.0, 0.3, 1.0)


def test_limits_are_kept_to_and_only_by_those_that_have_them() -> None:
    assert missed([FINE], 18) == []
    assert missed([dataclasses.replace(FINE, codec="mimi", work=2.0, time=3.0)], None) == []


@pytest.mark.parametrize(
    ("result", "tokens", "said"),
    [
        (
            dataclasses.replace(FINE, work=1.06),
            18,
            "snac-24k: work 1.060 of a whole decode, limit 1.05",
        ),
        (
            dataclasses.replace(FINE, time=1.2),
            18,
            "snac-24k: time 1.20 of a whole decode, limit 1.15",
        ),
        (FINE, 19, "snac-24k: first audio after 19 tokens, limit 18"),
    ],
)
def test_what_is_beyond_a_limit_is_missed(result: Whole, tokens: int, said: str) -> None:
    assert missed([result], tokens) == [said]


def test_snac_is_heard_after_eighteen_tokens() -> None:
    assert first_audio_tokens(decoder_of(tiny_snac(dtype=float32))) == 18


def test_codes_of_slow_codebooks_are_repeated() -> None:
    decoder = decoder_of(tiny_snac(dtype=float32))
    codes = CODECS[0].codes(decoder, 2)
    assert codes.shape == (3, 8)
    for row, repeated in zip(codes, (4, 2, 1), strict=True):
        blocks = row.reshape(-1, repeated)
        assert (blocks == blocks[:, :1]).all()
