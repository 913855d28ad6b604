"""Transcripts in every format."""

from __future__ import annotations

import json

from antiphon.engines.chunks import Segment, TokenLogprob, Word
from antiphon.web.transcripts import (
    Transcribed,
    as_body,
    delta_event,
    done_event,
    plain,
    srt,
    sse,
    verbose,
    vtt,
)

HELLO = Segment(
    text=" Hello, <b>you</b>.",
    start_ms=20,
    end_ms=1500.4,
    words=(Word("Hello,", 20, 700), Word("you.", 700, 1500.4)),
    language="en",
    mean_logprob=-0.25,
    no_speech=0.01,
    logprobs=(TokenLogprob("Hello, you.", -0.5),),
    tokens=(7, 8),
)
LATER = Segment(
    text=" A --> b\n\n& c.", start_ms=3_723_004, end_ms=3_725_999.6, language="en", tokens=(9,)
)


def transcribed(*segments: Segment, task: str = "transcribe") -> Transcribed:
    done = Transcribed(task=task, temperature=0.5, seconds=3726.04)
    for each in segments:
        done.add(each)
    return done


def test_the_text_grows_by_segments_without_the_space_ahead() -> None:
    done = Transcribed()
    assert done.add(HELLO) == "Hello, <b>you</b>."
    assert done.add(LATER) == " A --> b\n\n& c."
    assert done.text == "Hello, <b>you</b>. A --> b\n\n& c."


def test_srt() -> None:
    assert srt([HELLO, LATER]) == (
        "1\n00:00:00,020 --> 00:00:01,500\nHello, <b>you</b>.\n\n"
        "2\n01:02:03,004 --> 01:02:06,000\nA --> b & c.\n\n"
    )
    assert srt([]) == ""


def test_vtt_escapes_what_would_be_markup() -> None:
    assert vtt([HELLO, LATER]) == (
        "WEBVTT\n\n"
        "00:00:00.020 --> 00:00:01.500\nHello, &lt;b&gt;you&lt;/b&gt;.\n\n"
        "01:02:03.004 --> 01:02:06.000\nA --&gt; b &amp; c.\n\n"
    )
    assert vtt([]) == "WEBVTT\n\n"


def test_json_has_the_text_and_how_long_it_was() -> None:
    shown = plain(transcribed(HELLO), logprobs=False)
    usage = {"type": "duration", "seconds": 3726.04}
    assert shown == {"text": "Hello, <b>you</b>.", "usage": usage}
    (logprob,) = plain(transcribed(HELLO), logprobs=True)["logprobs"]
    assert logprob == {"token": "Hello, you.", "logprob": -0.5, "bytes": list(b"Hello, you.")}


def test_verbose_json_has_segments_or_words_in_seconds() -> None:
    shown = verbose(transcribed(HELLO, LATER), words=False, segments=True)
    assert set(shown) == {"task", "language", "duration", "text", "segments", "usage"}
    assert (shown["task"], shown["language"], shown["duration"]) == ("transcribe", "en", 3726.04)
    first, second = shown["segments"]
    assert (first["id"], first["start"], first["end"], first["seek"]) == (0, 0.02, 1.5, 2)
    assert (first["tokens"], first["temperature"], first["avg_logprob"]) == ([7, 8], 0.5, -0.25)
    assert 0 < first["compression_ratio"] < 2
    assert first["no_speech_prob"] == 0.01
    assert second["id"] == 1
    shown = verbose(transcribed(HELLO), words=True, segments=False)
    assert "segments" not in shown
    assert shown["words"][1] == {"word": "you.", "start": 0.7, "end": 1.5}


def test_a_translation_is_english_and_silence_has_no_language() -> None:
    shown = verbose(transcribed(task="translate"), words=False, segments=True)
    assert (shown["task"], shown["language"], shown["segments"]) == ("translate", "en", [])
    assert verbose(transcribed(), words=False, segments=True)["language"] == ""


def test_bodies_have_their_types() -> None:
    def body(form: str) -> tuple[bytes, str]:
        return as_body(transcribed(HELLO), form, words=False, segments=True, logprobs=False)

    assert body("text") == (b"Hello, <b>you</b>.\n", "text/plain; charset=utf-8")
    assert body("srt")[1] == body("vtt")[1] == "text/plain; charset=utf-8"
    for form in ("json", "verbose_json"):
        raw, kind = body(form)
        assert kind == "application/json"
        assert json.loads(raw)["text"] == "Hello, <b>you</b>."


def test_events_of_a_stream() -> None:
    event = delta_event("Hello", HELLO, logprobs=False)
    assert event == {"type": "transcript.text.delta", "delta": "Hello"}
    assert delta_event("Hello", HELLO, logprobs=True)["logprobs"][0]["logprob"] == -0.5
    done = done_event(transcribed(HELLO, LATER), logprobs=True)
    assert done["type"] == "transcript.text.done"
    assert done["usage"]["input_tokens"] == 37_261
    assert done["usage"]["output_tokens"] == 3
    assert done["usage"]["total_tokens"] == 37_264
    assert len(done["logprobs"]) == 1
    assert "logprobs" not in done_event(transcribed(), logprobs=False)
    assert sse(event) == b'data: {"type":"transcript.text.delta","delta":"Hello"}\n\n'
