"""Transcripts in the formats in which they are asked for: pure."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..engines.chunks import Segment, TokenLogprob
from ..sessions.response import HEARD_TOKEN_MS

Json = dict[str, Any]

TEXT_TYPES = {
    "text": "text/plain; charset=utf-8",
    "srt": "text/plain; charset=utf-8",
    "vtt": "text/plain; charset=utf-8",
}
"""Formats that are no JSON. Plain text also for subtitles: what clients take unquoted."""

FORMATS = ("json", "text", "srt", "vtt", "verbose_json")


@dataclass(slots=True)
class Transcribed:
    """What has been understood of a recording so far."""

    task: str = "transcribe"
    temperature: float = 0.0
    segments: list[Segment] = field(default_factory=list[Segment])
    seconds: float = 0.0
    """Of audio that was read."""

    text: str = ""

    def add(self, segment: Segment) -> str:
        """Append a segment; what the text grows by."""
        self.segments.append(segment)
        delta = segment.text if self.text else segment.text.lstrip()
        self.text += delta
        return delta

    @property
    def language(self) -> str:
        """ISO 639-1; of a translation English; empty where nothing was said."""
        if self.task == "translate":
            return "en"
        return next((each.language for each in self.segments if each.language), "")


def as_body(
    done: Transcribed, form: str, *, words: bool, segments: bool, logprobs: bool
) -> tuple[bytes, str]:
    """A whole transcript in one of :data:`FORMATS`, and its content type."""
    if form == "text":
        return (done.text + "\n").encode(), TEXT_TYPES[form]
    if form == "srt":
        return srt(done.segments).encode(), TEXT_TYPES[form]
    if form == "vtt":
        return vtt(done.segments).encode(), TEXT_TYPES[form]
    if form == "verbose_json":
        shown = verbose(done, words=words, segments=segments)
    else:
        shown = plain(done, logprobs=logprobs)
    return msgspec.json.encode(shown), "application/json"


def plain(done: Transcribed, *, logprobs: bool) -> Json:
    """The ``json`` format."""
    shown: Json = {"text": done.text, "usage": _duration(done)}
    if logprobs:
        shown["logprobs"] = _logprobs(each for s in done.segments for each in s.logprobs)
    return shown


def verbose(done: Transcribed, *, words: bool, segments: bool) -> Json:
    """The ``verbose_json`` format; times in seconds."""
    shown: Json = {
        "task": done.task,
        "language": done.language,
        "duration": _seconds(done.seconds * 1000),
        "text": done.text,
    }
    if segments:
        shown["segments"] = [
            _segment(number, each, done.temperature) for number, each in enumerate(done.segments)
        ]
    if words:
        shown["words"] = [
            {"word": word.text, "start": _seconds(word.start_ms), "end": _seconds(word.end_ms)}
            for each in done.segments
            for word in each.words
        ]
    return shown | {"usage": _duration(done)}


def srt(segments: Sequence[Segment]) -> str:
    """SubRip subtitles: numbered blocks, a comma ahead of the milliseconds."""
    blocks = [
        f"{number}\n{_clock(each.start_ms, ',')} --> {_clock(each.end_ms, ',')}\n{_line(each)}\n\n"
        for number, each in enumerate(segments, start=1)
    ]
    return "".join(blocks)


def vtt(segments: Sequence[Segment]) -> str:
    """WebVTT subtitles."""
    blocks = [
        f"{_clock(each.start_ms, '.')} --> {_clock(each.end_ms, '.')}\n{_escaped(_line(each))}\n\n"
        for each in segments
    ]
    return "WEBVTT\n\n" + "".join(blocks)


def delta_event(delta: str, segment: Segment, *, logprobs: bool) -> Json:
    """What a stream tells of one more segment."""
    event: Json = {"type": "transcript.text.delta", "delta": delta}
    if logprobs:
        event["logprobs"] = _logprobs(segment.logprobs)
    return event


def done_event(done: Transcribed, *, logprobs: bool) -> Json:
    """The last event of a stream; audio counts ten tokens a second, as in sessions."""
    heard = math.ceil(done.seconds * 1000 / HEARD_TOKEN_MS)
    written = sum(len(each.tokens) for each in done.segments)
    event: Json = {
        "type": "transcript.text.done",
        "text": done.text,
        "usage": {
            "type": "tokens",
            "input_tokens": heard,
            "output_tokens": written,
            "total_tokens": heard + written,
            "input_token_details": {"text_tokens": 0, "audio_tokens": heard},
        },
    }
    if logprobs:
        event["logprobs"] = _logprobs(each for s in done.segments for each in s.logprobs)
    return event


def sse(event: Json) -> bytes:
    """A server-sent event with data alone."""
    return b"data: " + msgspec.json.encode(event) + b"\n\n"


def _segment(number: int, segment: Segment, temperature: float) -> Json:
    raw = segment.text.encode()
    return {
        "id": number,
        "seek": int(segment.start_ms // 10),
        "start": _seconds(segment.start_ms),
        "end": _seconds(segment.end_ms),
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": temperature,
        "avg_logprob": segment.mean_logprob,
        "compression_ratio": len(raw) / len(zlib.compress(raw)),
        "no_speech_prob": segment.no_speech,
    }


def _logprobs(tokens: Iterable[TokenLogprob]) -> list[Json]:
    return [
        {"token": each.token, "logprob": each.logprob, "bytes": list(each.token.encode())}
        for each in tokens
    ]


def _duration(done: Transcribed) -> Json:
    return {"type": "duration", "seconds": _seconds(done.seconds * 1000)}


def _seconds(ms: float) -> float:
    return round(ms / 1000, 3)


def _clock(ms: float, mark: str) -> str:
    seconds, millis = divmod(round(ms), 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{mark}{millis:03}"


def _line(segment: Segment) -> str:
    # A blank line would end the block.
    return " ".join(segment.text.split())


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
