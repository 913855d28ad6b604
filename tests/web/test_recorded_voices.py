"""Voices of recordings over HTTP, in memory: the form, what is heard of them, and refusals."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.fakes import FakePipeline, Step

from antiphon.codecs.wav import write_wav
from antiphon.engines.chunks import End, EndReason, Segment, StageError, Word
from antiphon.engines.deployment import parse_deployment
from antiphon.engines.pipeline import (
    NewVoice,
    TranscribeRequest,
    VoiceCard,
    VoiceRecording,
    VoiceSource,
)
from antiphon.web import voice_form
from antiphon.web.app import Server

from .visitor import Visitor

Json = dict[str, Any]

ROUTE = "/v1/audio/voices"
CONSENT = "I am Amy, and agree that my voice is used here."
TEXT = "Good evening, everybody."
SOUND = write_wav((np.sin(np.arange(16_000) / 9) * 9_000).astype("<i2").tobytes(), 16_000)
SAID = (
    Segment(
        text=" Guten Abend.",
        start_ms=0,
        end_ms=900,
        language="de",
        words=(Word("Guten", 0, 400), Word("Abend.", 400, 900)),
    ),
)


class Studio(FakePipeline):
    """Makes voices of recordings, which it looks at while they are there."""

    def __init__(self, said: Sequence[Step] = SAID) -> None:
        super().__init__(recordings=(said,))
        self.voice_source: VoiceSource = "recording"
        self.heard_of: list[bytes] = []

    async def add_voice(self, new: NewVoice) -> tuple[VoiceCard, ...]:
        assert isinstance(new, VoiceRecording)
        self.heard_of.append(new.audio.read_bytes())
        return await super().add_voice(new)

    @property
    def made(self) -> VoiceRecording:
        (only,) = self.added
        assert isinstance(only, VoiceRecording)
        return only


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where temporary files lie; at the end there are none."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert not list(tmp_path.iterdir())


@pytest.fixture
def studio() -> Studio:
    return Studio()


def visitor(studio: Studio) -> Visitor:
    server = Server(parse_deployment({"model": "fake-model"}), studio)
    return Visitor(server.app, host="127.0.0.1")


@pytest.fixture
def client(studio: Studio) -> Iterator[Visitor]:
    with visitor(studio) as each:
        yield each


def add(client: Visitor, files: Json | None = None, **fields: Any) -> Any:
    data = {"name": "amy", "consent": CONSENT, "ref_text": TEXT} | fields
    data = {key: value for key, value in data.items() if value is not None}
    return client.post(ROUTE, data=data, files=files or {"audio_sample": ("a.wav", SOUND)})


def refused(answer: Any, status: int = 400) -> Json:
    assert answer.status_code == status, answer.text
    error: Json = answer.json()["error"]
    return error


def test_a_voice_of_a_recording_is_added_listed_and_removed(
    client: Visitor, studio: Studio
) -> None:
    answer = add(client, ref_text=f" {TEXT}\n", language="DE")
    assert answer.status_code == 201
    card = answer.json()
    assert (card["id"], card["owned_by"], card["source"]) == ("amy", "user", "recording")
    assert card["consent_at"] == 1
    made = studio.made
    assert (made.text, made.consent, made.language, made.words) == (TEXT, CONSENT, "de", ())
    assert studio.heard_of == [SOUND]
    assert not made.audio.exists()
    assert studio.requests == []
    assert client.get(f"{ROUTE}/amy").json() == card
    # Anybody may list: the words are for who keeps the server.
    assert CONSENT not in client.get(ROUTE).text
    assert client.delete(f"{ROUTE}/amy").json()["deleted"] is True
    assert studio.added == []


def test_a_text_that_is_not_sent_is_heard(client: Visitor, studio: Studio) -> None:
    assert add(client, ref_text=None).status_code == 201
    (asked,) = studio.of(TranscribeRequest)
    assert (asked.words, asked.language) == (True, None)
    made = studio.made
    assert (made.text, made.language) == ("Guten Abend.", "de")
    assert made.words == SAID[0].words


@pytest.mark.parametrize(
    ("missing", "words"), [(False, "nothing was understood"), (True, "nothing here can read")]
)
def test_where_it_can_t_be_heard_it_is_asked_for(missing: bool, words: str) -> None:
    studio = Studio([Segment(text=" ", start_ms=0, end_ms=9)])
    if missing:
        studio.refused["transcribe"] = StageError("recognizer_missing", "no recognizer")
    with visitor(studio) as client:
        error = refused(add(client, ref_text=""))
    assert error["param"] == "ref_text"
    assert words in error["message"]
    assert studio.added == []


def test_a_recognizer_that_fails_is_told_as_it_is() -> None:
    with visitor(
        Studio([End(EndReason.FAILED, StageError("overloaded", "Busy.", 1500))])
    ) as client:
        answer = add(client, ref_text=None)
        assert refused(answer, 503)["code"] == "overloaded"
        assert answer.headers["retry-after"] == "2"


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("name", "missing_required_parameter"),
        ("consent", "missing_required_parameter"),
        ("audio_sample", "missing_required_parameter"),
    ],
)
def test_what_is_missing_is_named(client: Visitor, studio: Studio, field: str, code: str) -> None:
    files = {"other": ("x", b"x")} if field == "audio_sample" else None
    fields = {} if field == "audio_sample" else {field: None}
    error = refused(add(client, files, **fields))
    assert (error["param"], error["code"]) == (field, code)
    assert studio.added == []


@pytest.mark.parametrize(
    ("files", "fields", "param"),
    [
        ({"model": ("cat.onnx", b"x"), "config": ("c", b"{}")}, {}, "model"),
        ({"audio_sample": ("a", SOUND), "config": ("c", b"{}")}, {}, "config"),
        (None, {"type": "prompt"}, "type"),
        (None, {"prompt": "A deep voice."}, "prompt"),
    ],
)
def test_what_makes_other_voices_is_refused_by_name(
    client: Visitor, studio: Studio, files: Json | None, fields: Json, param: str
) -> None:
    error = refused(add(client, files, **fields))
    assert error["param"] == param
    assert "audio_sample" in error["message"]
    assert studio.added == []


@pytest.mark.parametrize(
    ("sample", "seconds", "code"),
    [(b"no sound", 9.0, "not_audio"), (b"", 9.0, "not_audio"), (SOUND, 0.5, "too_long")],
)
def test_a_sample_that_is_none_is_refused(
    client: Visitor,
    studio: Studio,
    monkeypatch: pytest.MonkeyPatch,
    sample: bytes,
    seconds: float,
    code: str,
) -> None:
    monkeypatch.setattr(voice_form, "SAMPLE_SECONDS", seconds)
    error = refused(add(client, {"audio_sample": ("a.wav", sample)}))
    assert (error["param"], error["code"]) == ("audio_sample", code)
    assert studio.added == []


def test_texts_and_files_are_bounded(client: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(add(client, ref_text="x" * 2001))["param"] == "ref_text"
    assert refused(add(client, consent="x" * 4001))["code"] == "string_above_max_length"
    monkeypatch.setattr(voice_form, "SAMPLE_BYTES", 1_000)
    assert refused(add(client), 413)["param"] == "audio_sample"


@pytest.mark.parametrize(
    ("code", "param"),
    [
        ("recording_unusable", "audio_sample"),
        ("encoder_missing", "audio_sample"),
        ("text_unusable", "ref_text"),
        ("unsupported_language", "language"),
        ("voices_fixed", None),
    ],
)
def test_what_the_talker_refuses_names_the_field(
    client: Visitor, studio: Studio, code: str, param: str | None
) -> None:
    studio.refused["add_voice"] = StageError(code, "expected another")
    assert refused(add(client))["param"] == param
