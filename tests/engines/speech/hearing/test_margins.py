"""Silence put around speech that has none."""

from __future__ import annotations

import numpy as np
import pytest

from antiphon.engines.chunks import Word
from antiphon.engines.speech.hearing.margins import MARGIN_SECONDS, with_margins, without_margins
from antiphon.engines.speech.hearing.passages import Passage
from antiphon.engines.speech.hearing.windows import RATE

MARGIN = round(MARGIN_SECONDS * RATE)
LOUD = np.full(RATE, 0.3, np.float32)
QUIET = np.full(RATE // 2, 0.001, np.float32)


@pytest.mark.parametrize(
    ("parts", "ahead", "behind"),
    [
        ([LOUD], MARGIN, MARGIN),
        ([QUIET, LOUD], 0, MARGIN),
        ([LOUD, QUIET], MARGIN, 0),
        ([QUIET, LOUD, QUIET], 0, 0),
        ([QUIET[: RATE // 20], LOUD, QUIET], MARGIN, 0),
        ([LOUD[:100]], 0, 0),
        ([], 0, 0),
    ],
)
def test_silence_is_put_where_there_is_none(
    parts: list[np.ndarray[tuple[int], np.dtype[np.float32]]], ahead: int, behind: int
) -> None:
    samples = np.concatenate([np.empty(0, np.float32), *parts])
    padded, seconds = with_margins(samples)
    assert seconds == pytest.approx(ahead / RATE)
    np.testing.assert_array_equal(padded, np.pad(samples, (ahead, behind)))


def test_times_are_those_of_the_audio_as_it_came() -> None:
    words = (Word("a", 100, 500), Word("b", 500, 1900))
    found = Passage(text=" a b", start=0.1, end=1.9, words=words)
    told = without_margins(found, 0.3, 1.5)
    assert (told.start, told.end) == pytest.approx((0.0, 1.5))
    assert [(word.start_ms, word.end_ms) for word in told.words] == [
        pytest.approx((0, 200)),
        pytest.approx((200, 1500)),
    ]
