"""How much was made, sent and heard."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.sessions.events import WordTime
from antiphon.sessions.playback import PlaybackLedger, heard_text

STEPS = st.tuples(
    st.sampled_from(["generate", "send", "report", "ask", "stop"]), st.floats(0, 3000)
)


def sent(ms: float) -> PlaybackLedger:
    ledger = PlaybackLedger()
    ledger.generate(ms)
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
                ledger.report(ms - 100, 0.0)
            case "stop":
                ledger.stop(now)
            case _:
                pass
        after = (ledger.generated_ms, ledger.sent_ms, ledger.played_ms(now))
        assert all(new >= old for new, old in zip(after, before, strict=True))
        assert after[0] >= after[1] >= after[2] >= 0
        before = after


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


def test_once_a_client_reports_nothing_is_estimated() -> None:
    ledger = sent(1000)
    ledger.report(100, 0.0)
    assert ledger.played_ms(12.0) == 100
    ledger.report(50, 0.0)
    ledger.report(5000, 0.0)
    assert ledger.played_ms(12.0) == 1000


def test_a_report_after_an_estimate_was_used_is_ignored() -> None:
    ledger = sent(1000)
    assert ledger.played_ms(10.5) == 500
    ledger.report(900, 0.0)
    assert ledger.played_ms(10.625) == 625


def test_nothing_is_heard_after_the_cut() -> None:
    ledger = sent(1000)
    ledger.report(200, 0.0)
    assert ledger.stop(10.5) == 200
    ledger.report(900, 0.0)
    assert ledger.played_ms(99.0) == 200
    assert not ledger.playing(99.0)


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


def test_all_is_heard_once_it_has_been_played_on_at_real_time_speed() -> None:
    ledger = PlaybackLedger()
    ledger.generate(2000)
    assert ledger.heard_at(5.0) == 7.0
    ledger.send(500, 6.0)
    assert ledger.heard_at(5.0) == 8.0
    ledger.report(400, 7.0)
    assert ledger.heard_at(5.0) == 8.6
    ledger.stop(7.5)
    ledger.stop(9.0)
    assert ledger.heard_at(5.0) == 7.5
