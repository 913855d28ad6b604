"""Answers have ids, whatever they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.fakes import FakePipeline

from antiphon.codecs.wav import wav_header
from antiphon.engines.chunks import Segment
from antiphon.engines.deployment import parse_deployment
from antiphon.web.app import Server

from .visitor import Visitor

SPEECH = "/v1/audio/speech"
TRANSCRIPTIONS = "/v1/audio/transcriptions"
SAID = {"input": "Hello there"}
HEARD = Segment(text=" One.", start_ms=0, end_ms=900, language="en")


@pytest.fixture
def client() -> Iterator[Visitor]:
    pipeline = FakePipeline(recordings=((HEARD,),))
    with Visitor(Server(parse_deployment({"model": "fake-model"}), pipeline).app) as each:
        yield each


@pytest.mark.parametrize(
    ("asked", "status"),
    [(SAID, 200), ({**SAID, "stream_format": "sse"}, 200), ({**SAID, "voice": "nobody"}, 400)],
)
def test_speech_has_an_id(client: Visitor, asked: dict[str, Any], status: int) -> None:
    answers = [client.post(SPEECH, json=asked) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [status] * 2
    ids = {answer.headers["x-request-id"] for answer in answers}
    assert len(ids) == 2
    assert all(each.startswith("req_") for each in ids)


@pytest.mark.parametrize("path", [TRANSCRIPTIONS, "/v1/audio/translations"])
@pytest.mark.parametrize(
    ("fields", "status"),
    [({"model": "m"}, 200), ({"model": "m", "stream": "true"}, 200), ({}, 400)],
)
def test_transcripts_have_an_id(
    client: Visitor, path: str, fields: dict[str, str], status: int
) -> None:
    file = {"file": ("a.wav", wav_header(16_000, 32_000) + bytes(32_000))}
    answer = client.post(path, data=fields, files=file)
    assert answer.status_code == status
    assert answer.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize(
    ("path", "status"),
    [("/healthz", 200), ("/v1/audio/voices", 200), ("/v1/nothing", 404), ("/", 200)],
)
def test_all_else_has_an_id(client: Visitor, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert answer.headers["x-request-id"].startswith("req_")


def test_who_may_not_come_in_is_told_an_id() -> None:
    access = {"access": {"keys": ["secret"]}}
    with Visitor(Server(parse_deployment(access), FakePipeline()).app) as client:
        answer = client.post(SPEECH, json=SAID)
    assert answer.status_code == 401
    assert answer.headers["x-request-id"].startswith("req_")
