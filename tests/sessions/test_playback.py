"""How much was made, sent and heard."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.sessions.events import ReportPlayback, WordTime
from antiphon.sessions.playback import GOES_ON_MS, PlaybackLedger, heard_text

STEPS = st.tuples(
    st.sampled_from(["generate", "send", "report", "peek", "ask", "stop"]), st.floats(0, 3000)
)


def say(
    played_ms: float, buffered_ms: float = 0, underruns: int = 0, gap_ms: int = 0
) -> ReportPlayback:
    return ReportPlayback("r", int(played_ms), int(buffered_ms), underruns, gap_ms)


def sent(ms: float, made_ms: float = 0.0) -> PlaybackLedger:
    """Return a ledger of which ``ms`` were written at 10."""
    ledger = PlaybackLedger()
    ledger.generate(max(ms, made_ms))
    ledger.send(ms, 10.0)
    return ledger


@settings(deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_generated_sent_and_played_only_grow_and_keep_their_order(
    steps: list[tuple[str, float]],
) -> None:
    ledger, now = PlaybackLedger(), 5.0
    before = (0.0, 0.0, 0.0)
    for kind, ms in steps:
        now += ms / 5000
        match kind:
            case "generate":
                ledger.generate(ms)
            case "send":
                ledger.send(ms, now)
            case "report":
                ledger.report(say(ms - 100, 3000 - ms), now)
            case "peek":
                assert 0 <= ledger.seems_played_ms(now) <= ledger.sent_ms
                continue
            case "stop":
                ledger.stop(now)
            case _:
                pass
        after = (ledger.generated_ms, ledger.sent_ms, ledger.played_ms(now))
        assert all(new >= old for new, old in zip(after, before, strict=True))
        assert after[0] >= after[1] >= after[2] >= 0
        before = after


# The estimate.


def test_what_was_sent_is_played_at_real_time_speed() -> None:
    ledger = sent(1000)
    assert ledger.played_ms(10.25) == 250
    assert ledger.playing(10.9)
    assert ledger.played_ms(12.0) == 1000
    assert not ledger.playing(12.0)


def test_nothing_sent_is_nothing_played() -> None:
    ledger = PlaybackLedger()
    ledger.generate(1000)
    assert ledger.played_ms(99.0) == 0
    assert ledger.playing(99.0)


SENDS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1, max_size=12)
"""Pauses before writes and how much is written, in units of 64 ms, so that sums are exact."""

UNIT_S = 0.0625


@settings(deadline=None)
@given(SENDS, st.integers(0, 200))
def test_the_estimate_is_that_of_a_player_that_plays_what_it_has(
    sends: list[tuple[int, int]], more: int
) -> None:
    ledger, now = PlaybackLedger(), 10.0
    buffered = played = gap = gaps = 0
    for pause, units in [*sends, (more, 0)]:
        ran = min(pause, buffered)
        buffered, played = buffered - ran, played + ran
        now += pause * UNIT_S
        assert ledger.seems_played_ms(now) == played * UNIT_S * 1000
        if played and units and pause > ran:
            gap, gaps = gap + pause - ran, gaps + 1
        buffered += units
        ledger.generate(units * UNIT_S * 1000)
        ledger.send(units * UNIT_S * 1000, now)
    assert (ledger.gap_ms, ledger.underruns) == (gap * UNIT_S * 1000, gaps)


@settings(deadline=None)
@given(SENDS, st.integers(1, 7))
def test_it_does_not_matter_how_what_is_written_is_split(
    sends: list[tuple[int, int]], parts: int
) -> None:
    whole, split, now = PlaybackLedger(), PlaybackLedger(), 10.0
    for pause, units in sends:
        now += pause * UNIT_S
        for ledger, times in ((whole, 1), (split, parts)):
            ledger.generate(units * 62.5)
            for _ in range(times):
                ledger.send(units * 62.5 / times, now)
    assert split.seems_played_ms(now + 0.5) == pytest.approx(whole.seems_played_ms(now + 0.5))
    assert split.gap_ms == pytest.approx(whole.gap_ms)
    assert split.underruns == whole.underruns


@pytest.mark.parametrize("gap", [0.25, 5.0])
def test_after_a_gap_the_estimate_lags_by_it(gap: float) -> None:
    ledger = sent(1000, made_ms=2000)
    ledger.send(1000, 11.0 + gap)
    assert ledger.played_ms(11.5 + gap) == 1500
    assert (ledger.underruns, ledger.gap_ms) == (1, gap * 1000)


def test_a_frame_without_audio_and_one_just_in_time_are_no_gap() -> None:
    ledger = sent(1000, made_ms=2000)
    ledger.send(0, 15.0)
    assert ledger.underruns == 0
    again = sent(1000, made_ms=2000)
    again.send(1000, 11.0005)
    assert again.underruns == 0


# Reports.


def test_between_reports_playback_goes_on() -> None:
    ledger = sent(3000)
    ledger.report(say(100, 2900), 10.5)
    assert ledger.played_ms(10.75) == 350
    ledger.report(say(400, 2600), 11.0)
    assert ledger.played_ms(11.25) == 650


def test_it_goes_on_to_the_end_of_what_the_client_has() -> None:
    ledger = sent(3000)
    ledger.report(say(100, 200), 10.5)
    assert ledger.played_ms(11.0) == 300


def test_what_is_written_meanwhile_is_played_too() -> None:
    ledger = sent(200, made_ms=500)
    ledger.report(say(100, 100), 10.5)
    # It runs dry, and goes on with what comes then.
    ledger.send(300, 10.75)
    assert ledger.played_ms(10.75) == 200
    assert ledger.played_ms(10.875) == 325


def test_without_further_reports_it_does_not_go_on_for_ever() -> None:
    ledger = sent(9000)
    ledger.report(say(100, 8900), 10.5)
    assert ledger.played_ms(99.0) == pytest.approx(100 + GOES_ON_MS)


def test_a_client_that_repeats_its_position_is_paused() -> None:
    ledger = sent(9000)
    for second in range(5):
        ledger.report(say(100, 8900), 10.5 + second / 4)
    assert ledger.played_ms(99.0) == 100


def test_a_client_that_ran_dry_is_not_paused() -> None:
    ledger = sent(100, made_ms=1000)
    for at in (10.25, 10.5):
        ledger.report(say(100, 0, 1, 150), at)
    ledger.send(900, 10.5)
    assert ledger.played_ms(10.625) == 225
    assert (ledger.underruns, ledger.gap_ms) == (1, 150)


def test_reports_are_clamped_and_never_go_back() -> None:
    ledger = sent(1000, made_ms=2000)
    ledger.report(say(300, 700), 10.5)
    ledger.report(say(50, 10**30), 10.75)
    assert ledger.played_ms(10.75) == 300
    ledger.report(say(10**30, 10**30, 10**30, 10**30), 11.0)
    assert ledger.played_ms(12.0) == 1000
    # No more gaps than chunks, and no longer than it took.
    assert (ledger.underruns, ledger.gap_ms) == (1, 1000)
    ledger.report(say(1000), 11.5)
    assert (ledger.underruns, ledger.gap_ms) == (1, 1000)


@pytest.mark.parametrize("bad", [say(-1, 5), say(1, -5), say(1, 5, -1), say(1, 5, 0, -1)])
def test_what_cannot_be_is_ignored(bad: ReportPlayback) -> None:
    ledger = sent(1000)
    assert not ledger.report(bad, 10.5)
    assert ledger.reported is None
    assert ledger.played_ms(10.5) == 500


def test_a_report_after_an_estimate_was_used_is_ignored() -> None:
    ledger = sent(1000)
    assert ledger.played_ms(10.5) == 500
    assert not ledger.report(say(900), 10.5)
    assert ledger.played_ms(10.625) == 625


def test_an_estimate_that_was_only_looked_at_is_put_right_by_a_report() -> None:
    ledger = sent(1000)
    assert ledger.seems_played_ms(10.5) == 500
    assert ledger.report(say(300, 700), 10.5)
    assert ledger.played_ms(10.5) == 300


def test_nothing_is_heard_after_the_cut() -> None:
    ledger = sent(1000)
    ledger.report(say(200, 800), 10.5)
    assert ledger.stop(10.5) == 200
    assert not ledger.report(say(900, 100), 10.75)
    assert ledger.played_ms(99.0) == ledger.seems_played_ms(99.0) == 200
    assert not ledger.playing(99.0)


# What is yet to come.


def test_all_is_heard_once_it_has_been_played_on_at_real_time_speed() -> None:
    ledger = PlaybackLedger()
    ledger.generate(2000)
    assert ledger.heard_at(5.0) == 7.0
    ledger.send(500, 6.0)
    assert ledger.heard_at(5.0) == 8.0
    ledger.report(say(400, 100), 7.0)
    assert ledger.heard_at(5.0) == 8.6
    ledger.stop(7.5)
    ledger.stop(9.0)
    assert ledger.heard_at(5.0) == 7.5


def test_by_the_estimate_it_is_known_when_little_is_left() -> None:
    ledger = sent(2000, made_ms=2500)
    assert ledger.low_at(1000) == 11.5
    assert ledger.low_at(3000) == float("-inf")
    # Not before more is written.
    assert ledger.low_at(250) == ledger.over_at() == float("inf")
    ledger.send(500, 10.5)
    assert ledger.over_at() == 12.5


def test_by_reports_it_is_known_for_a_while_ahead_when_little_is_left() -> None:
    ledger = sent(2000)
    ledger.report(say(500, 1500), 10.5)
    assert ledger.low_at(1000) == 11.0
    assert ledger.low_at(500) == float("inf")
    ledger.report(say(500, 1500), 10.75)
    assert ledger.low_at(1000) == float("inf")
    assert ledger.moved_at(0.0) == 10.5


def test_a_client_that_reports_has_a_second_more_to_say_that_it_is_done() -> None:
    ledger = sent(2000)
    ledger.report(say(1000, 1000), 11.0)
    assert ledger.over_at() == 13.0
    ledger.report(say(1970, 30), 12.0)
    assert ledger.over_at() <= 12.0


@settings(deadline=None)
@given(SENDS, st.integers(0, 3000))
def test_low_is_when_it_is_said_to_be(sends: list[tuple[int, int]], left_ms: int) -> None:
    ledger, now = PlaybackLedger(), 10.0
    for pause, units in sends:
        now += pause * UNIT_S
        ledger.generate(units * 62.5)
        ledger.send(units * 62.5, now)
    at = ledger.low_at(left_ms)
    if at > now:
        left = [ledger.generated_ms - ledger.seems_played_ms(t) for t in (at - 0.1, at, at + 0.1)]
        assert left[1] == pytest.approx(left_ms)
        assert all(later <= earlier for earlier, later in pairwise(left))
    else:
        assert ledger.generated_ms - ledger.seems_played_ms(now) <= left_ms + 1e-6


# What of the words was heard.

WORDS = tuple(
    WordTime(word, number * 100.0, number * 100.0 + 100)
    for number, word in enumerate(["One,", "two", "three."])
)


def test_a_word_counts_once_all_of_it_was_heard() -> None:
    text = " One,  two\nthree. "
    assert heard_text(text, WORDS, 99, 300) == ""
    assert heard_text(text, WORDS, 100, 300) == " One,"
    assert heard_text(text, WORDS, 250, 300) == " One,  two"
    assert heard_text(text, WORDS, 999, 300) == " One,  two\nthree."


def test_words_whose_times_are_not_known_yet_were_not_heard() -> None:
    assert heard_text("One, two three.", WORDS[:1], 999, 300) == "One,"


def test_words_may_follow_each_other_without_white_space() -> None:
    text = " 今日は、晴れです。\nSee you."
    said = ["今日は、", "晴れです。", "See", "you."]
    words = [WordTime(word, at * 100.0, at * 100.0 + 100) for at, word in enumerate(said)]
    heard = [heard_text(text, words, ms, 400) for ms in (99, 100, 200, 300, 400)]
    assert heard == ["", " 今日は、", " 今日は、晴れです。", text[:-5], text]
    # One that is not in the text stands for what is there up to white space.
    assert heard_text("a1 b2", [WordTime("x", 0, 1)], 9, 9) == "a1"


def test_without_word_times_text_is_cut_in_proportion() -> None:
    assert heard_text("a b c d", (), 149, 200) == "a b"
    assert heard_text("a b c d", (), 500, 200) == "a b c d"
    assert heard_text("a b c d", (), 0, 0) == ""


@settings(deadline=None)
@given(st.text(max_size=40), st.floats(-10, 500), st.floats(0, 400))
def test_what_was_heard_is_the_start_of_the_text(text: str, heard: float, total: float) -> None:
    kept = heard_text(text, (), heard, total)
    assert text.startswith(kept)
    assert kept.split() == text.split()[: len(kept.split())]
