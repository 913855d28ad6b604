"""What a form asks of a transcription, checked field by field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..engines.pipeline import TranscribeRequest
from .transcripts import FORMATS
from .uploads import BadForm, Upload, every, first

STREAMED = ("json", "text")
"""Formats in which a stream may be asked for; its events are the same in both."""

GRANULARITIES = ("segment", "word")

WINDOW_MS = 10_000
"""Most ms in ``chunking_strategy``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A transcription as it was asked for."""

    request: TranscribeRequest
    form: str
    stream: bool
    words: bool
    segments: bool
    logprobs: bool


def parse_form(upload: Upload, request_id: str, *, translate: bool) -> Asked:
    """Read the fields.

    Raises:
        BadForm: one of them is missing or wrong, or asks for what there is not.
    """
    fields = upload.fields
    _check_file(upload)
    if not first(fields, "model"):
        raise BadForm("model: required.", param="model", code="missing_required_parameter")
    _refuse_speakers(fields)
    _check_chunking(fields)
    form = _one_of(fields, "response_format", FORMATS) or "json"
    stream = _truth(fields, "stream")
    if stream and form not in STREAMED:
        what = f"stream: only with response_format {' or '.join(STREAMED)}, got {form}."
        raise BadForm(what, param="stream")
    granularities = _all_of(fields, "timestamp_granularities", GRANULARITIES)
    if granularities and form != "verbose_json":
        what = "timestamp_granularities: only with response_format verbose_json."
        raise BadForm(what, param="timestamp_granularities")
    words = "word" in granularities
    if words and translate:
        what = "timestamp_granularities: the words of a translation have no times; use segment."
        raise BadForm(what, param="timestamp_granularities")
    logprobs = bool(_all_of(fields, "include", ("logprobs",)))
    if logprobs and form != "json":
        raise BadForm("include: logprobs only with response_format json.", param="include")
    return Asked(
        request=TranscribeRequest(
            request_id=request_id,
            language=None if translate else _language(fields),
            prompt=_prompt(fields),
            translate=translate,
            words=words,
            logprobs=logprobs,
            temperature=_number(fields, "temperature", 0, 1, 0),
        ),
        form=form,
        stream=stream,
        words=words,
        segments="segment" in granularities or not granularities,
        logprobs=logprobs,
    )


Fields = Sequence[tuple[str, str]]


def _check_file(upload: Upload) -> None:
    if upload.has_file:
        return
    if any(name == "file" for name, _ in upload.fields):
        raise BadForm("file: expected a file with a name, got text.", param="file")
    raise BadForm("file: required.", param="file", code="missing_required_parameter")


def _refuse_speakers(fields: Fields) -> None:
    for name in ("known_speaker_names", "known_speaker_references"):
        if every(fields, name):
            raise BadForm(f"{name}: speakers are not told apart here.", param=name)
    if first(fields, "response_format") == "diarized_json":
        what = "response_format: speakers are not told apart here, so there is no diarized_json."
        raise BadForm(what, param="response_format")


def _language(fields: Fields) -> str | None:
    several = every(fields, "languages")
    if len(several) > 1:
        raise BadForm("languages: expected one language at most.", param="languages")
    return first(fields, "language") or (several[0] if several else None)


def _prompt(fields: Fields) -> str:
    return " ".join(filter(None, [first(fields, "prompt"), ", ".join(every(fields, "keywords"))]))


def _check_chunking(fields: Fields) -> None:
    """Take ``auto`` or server_vad, in either of the shapes in which clients send it."""
    name = "chunking_strategy"
    given: dict[str, Any] = {
        key[len(name) + 1 : -1]: value
        for key, value in fields
        if key.startswith(f"{name}[") and key.endswith("]")
    }
    whole = first(fields, name)
    if whole.startswith("{"):
        try:
            given = msgspec.json.decode(whole, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError):
            raise BadForm(f"{name}: expected a JSON object.", param=name) from None
    elif whole and whole != "auto":
        what = f'{name}: expected "auto" or an object of type server_vad.'
        raise BadForm(what, param=name)
    if not given:
        return
    if given.get("type") != "server_vad":
        raise BadForm(f"{name}.type: expected server_vad.", param=f"{name}.type")
    members = [(f"{name}.{key}", str(value)) for key, value in given.items()]
    _number(members, f"{name}.threshold", 0, 1, 0)
    _number(members, f"{name}.prefix_padding_ms", 0, WINDOW_MS, 0)
    _number(members, f"{name}.silence_duration_ms", 0, WINDOW_MS, 0)


def _one_of(fields: Fields, name: str, known: Sequence[str]) -> str:
    value = first(fields, name)
    if value and value not in known:
        raise BadForm(_expected(name, known, value), param=name)
    return value


def _all_of(fields: Fields, name: str, known: Sequence[str]) -> list[str]:
    values = every(fields, name)
    for value in values:
        if value not in known:
            raise BadForm(_expected(name, known, value), param=name)
    return values


def _expected(name: str, known: Sequence[str], value: str) -> str:
    return f"{name}: expected one out of {', '.join(known)}, got {value[:40]!r}."


def _truth(fields: Fields, name: str) -> bool:
    value = first(fields, name).lower()
    if value not in ("", "true", "false", "1", "0"):
        raise BadForm(f"{name}: expected true or false.", param=name)
    return value in ("true", "1")


def _number(fields: Fields, name: str, least: float, most: float, default: float) -> float:
    text = first(fields, name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not least <= value <= most:
        what = f"{name}: expected a number from {least:g} to {most:g}."
        raise BadForm(what, param=name)
    return value
