import numpy as np
import pytest

from antiphon.engines.chunks import Word
from antiphon.engines.pipeline import OUTPUT_RATE
from antiphon.web.demo_picture import LINE_SECONDS, stretches
from antiphon.web.demo_playback import Playback
from antiphon.web.demo_timeline import (
    Reply,
    SoundingWord,
    Turn,
    interruption,
    median_ms,
    mix_down,
    played_words,
    said_words,
    spans,
)

METRICS = {
    "endpointing_ms": 300.0,
    "recognition_ms": 100.0,
    "first_token_ms": 50.0,
    "first_clause_ms": 40.0,
    "talker_ms": 30.0,
    "code2wav_ms": 20.0,
    "total_ms": 560.0,
}


def pcm(ms: int, value: int = 1000) -> bytearray:
    return bytearray(np.full(OUTPUT_RATE * ms // 1000, value, "<i2").tobytes())


def a_reply() -> Reply:
    return Reply(
        "r",
        created_at=5.5,
        text="One two  three four",
        pcm=pcm(2000),
        words=[Word(name, 500.0 * n, 500.0 * n + 400) for n, name in enumerate("abcd")],
        first_audio_at=6.0,
        last_audio_at=6.9,
        metrics=METRICS,
        status="completed",
    )


def a_turn(starts_at: float = 4.0) -> Turn:
    return Turn("Hi there", starts_at, (Word("Hi", 100, 300), Word("there", 400, 900)))


def test_latency_runs_from_the_end_of_the_last_word_to_the_first_audio() -> None:
    turn = a_turn()
    assert turn.latency_ms is None
    silent = Reply("s", created_at=5.2)
    turn.replies += [silent, a_reply()]
    assert turn.reply is turn.replies[1]
    assert turn.last_word_at == pytest.approx(4.9)
    assert turn.latency_ms == pytest.approx(1100)


def test_a_whole_reply_was_heard_whole() -> None:
    reply = a_reply()
    assert reply.heard_text == reply.text
    assert reply.unheard_text == ""
    assert (reply.heard_pcm, reply.unheard_pcm) == (bytes(reply.pcm), b"")


def test_of_a_reply_that_was_cut_the_words_that_were_over_count_as_heard() -> None:
    reply = a_reply()
    reply.cut_at, reply.heard_ms = 7.2, 1200.0
    assert reply.heard_text == "a b"
    assert reply.unheard_text == "three four"
    assert reply.heard_pcm == bytes(pcm(900))
    assert reply.unheard_pcm == bytes(pcm(800))


def test_the_figures_of_an_interruption() -> None:
    turn, old = a_turn(starts_at=6.5), a_reply()
    assert interruption(turn) is None
    old.cut_at, old.heard_ms, old.late_bytes = 6.751, 751.0, 4
    turn.interrupted = old
    turn.speech_started_at += [6.75, 8.0]
    found = interruption(turn)
    assert found is not None
    assert found.noticed_ms == pytest.approx(150)
    assert found.last_audio_ms == pytest.approx(300)
    assert found.silent_ms == pytest.approx(1)
    assert found.late_bytes == 4


def test_steps_follow_each_other_and_end_with_the_server_s_total_at_the_first_audio() -> None:
    laid = spans(a_reply())
    assert [span.ms for span in laid] == pytest.approx([300, 100, 50, 40, 30, 20])
    assert laid[0].starts_at == pytest.approx(6.0 - 0.56)
    assert all(a.ends_at == b.starts_at for a, b in zip(laid, laid[1:], strict=False))
    # The rest of the total is what writing took.
    assert laid[-1].ends_at == pytest.approx(6.0 - 0.02)
    assert spans(Reply("r", created_at=1.0)) == []


def test_words_sound_where_the_loudspeaker_played_them() -> None:
    reply, playback = a_reply(), Playback()
    playback.add("r", bytes(pcm(600)), 6.0)
    playback.add("r", bytes(pcm(1400)), 7.0)
    first, second, *_ = played_words(reply, playback)
    assert (first.starts_at, first.ends_at) == pytest.approx((6.0, 6.4))
    # A gap of 0.4 s lies within this one.
    assert (second.starts_at, second.ends_at) == pytest.approx((6.5, 7.3))
    reply.cut_at, reply.heard_ms = 6.5, 500.0
    playback.drop(6.5)
    assert [word.text for word in played_words(reply, playback)] == ["a"]
    assert said_words(a_turn())[1] == SoundingWord("there", 4.4, 4.9)


def test_the_mix_has_each_sound_in_its_place_and_ends_with_the_conversation() -> None:
    playback = Playback()
    playback.add("a", bytes(pcm(100, 5)), 0.1)
    playback.add("b", bytes(pcm(100, 7)), 0.25)
    track = mix_down(playback.segments, OUTPUT_RATE * 3 // 10)
    step = OUTPUT_RATE // 20
    assert [set(part.tolist()) for part in np.split(track, 6)] == [
        {0},
        {0},
        {5},
        {5},
        {0},
        {7},
    ]
    assert len(track) == 6 * step


def test_the_median_ignores_what_is_not_known() -> None:
    assert median_ms([3.0, None, 1.0, 2.0]) == 2.0
    assert median_ms([None]) is None


def test_each_turn_begins_a_line_and_a_long_one_takes_several() -> None:
    turns = [a_turn(1.0), a_turn(10.0), a_turn(12.0)]
    lines, length = stretches(turns, 40.0)
    assert [line.number for line in lines] == [1, 2, 3, 3, 3]
    assert length <= LINE_SECONDS[1]
    assert all(line.ends_at - line.starts_at <= length + 1e-9 for line in lines)
    assert [round(lines[n].ends_at - lines[n + 1].starts_at, 6) for n in (2, 3)] == [0, 0]
    assert lines[-1].ends_at == pytest.approx(40.0)


def test_a_reply_that_is_cut_is_shown_until_it_has_fallen_silent() -> None:
    first, second = a_turn(1.0), a_turn(8.0)
    first.replies.append(a_reply())
    first.replies[0].cut_at = 8.3
    second.interrupted = first.replies[0]
    lines, _ = stretches([first, second], 12.0)
    assert (lines[0].starts_at, lines[0].ends_at) == pytest.approx((0.65, 9.0))
    assert lines[1].starts_at == pytest.approx(7.65)
