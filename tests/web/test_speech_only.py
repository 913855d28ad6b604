"""A server without a recognizer and a language model: what it serves, and how it refuses the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import WebSocketTestSession
from tests.support.fakes import FakePipeline

from antiphon.engines.chunks import End, EndReason, PcmChunk, StageError
from antiphon.engines.deployment import parse_deployment
from antiphon.engines.pipelines.absent import NO_MODEL, NO_RECOGNIZER
from antiphon.web.app import Server

from .chatting import wav
from .visitor import URL, Visitor

NONE = {"recognizer": {"use": "none"}, "ar": {"use": "none"}}


@pytest.fixture
def pipeline() -> FakePipeline:
    pipeline = FakePipeline()
    pipeline.refused = {"transcribe": NO_RECOGNIZER, "reply": NO_MODEL}
    return pipeline


@pytest.fixture
def client(pipeline: FakePipeline) -> Iterator[Visitor]:
    with Visitor(Server(parse_deployment({"stages": NONE}), pipeline).app) as client:
        yield client


def until(socket: WebSocketTestSession, kind: str) -> dict[str, Any]:
    while True:
        frame = socket.receive()
        event: dict[str, Any] = json.loads(frame.get("text") or "{}")
        if event.get("type") == kind:
            return event


def test_it_says_what_it_serves(client: Visitor) -> None:
    (card,) = client.get("/v1/models").json()["data"]
    assert card["capabilities"] == ["speech"]


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (URL, "language_model_missing"),
        (f"{URL}?intent=transcription", "recognizer_missing"),
    ],
)
def test_no_session_is_opened(client: Visitor, url: str, code: str) -> None:
    denied = client.denied(url)
    assert denied.status_code == 400
    assert denied.json()["error"]["code"] == code


def test_a_chat_and_a_recording_are_refused_and_not_to_be_tried_again(client: Visitor) -> None:
    chat = {"model": "x", "messages": [{"role": "user", "content": "Hi"}]}
    answers = [
        client.post("/v1/chat/completions", json=chat),
        client.post(
            "/v1/audio/transcriptions",
            data={"model": "whisper-1"},
            files={"file": ("a.wav", wav())},
        ),
    ]
    assert [answer.status_code for answer in answers] == [400, 400]
    codes = [answer.json()["error"]["code"] for answer in answers]
    assert codes == [NO_MODEL.code, NO_RECOGNIZER.code]


def test_it_speaks(client: Visitor) -> None:
    asked = {"input": "Hello there.", "response_format": "pcm"}
    assert client.post("/v1/audio/speech", json=asked).status_code == 200
    with client.session("/v1/audio/speech/stream") as socket:
        socket.send_json({"type": "input.text", "text": "Hello."})
        socket.send_json({"type": "input.done"})
        assert until(socket, "session.done")["status"] == "completed"


@pytest.mark.parametrize(
    ("reason", "said"), [(EndReason.LENGTH, True), (EndReason.COMPLETED, None)]
)
def test_speech_that_was_cut_short_says_so(reason: EndReason, said: bool | None) -> None:
    steps = (PcmChunk(bytes(960), 24_000), End(reason))
    pipeline = FakePipeline(speeches=(steps,))
    with Visitor(Server(parse_deployment({"stages": NONE}), pipeline).app) as client:
        asked = {"input": "Hello.", "response_format": "pcm", "stream_format": "sse"}
        *_, done = client.post("/v1/audio/speech", json=asked).text.strip().split("\n\n")
        assert ('"truncated":true' in done) == bool(said)
        with client.session("/v1/audio/speech/stream") as socket:
            socket.send_json({"type": "input.text", "text": "Hello."})
            socket.send_json({"type": "input.done"})
            assert until(socket, "audio.done").get("truncated") is said


def test_a_speed_that_the_voice_does_not_know_is_refused_by_name(
    client: Visitor, pipeline: FakePipeline
) -> None:
    pipeline.refused["speak"] = StageError("speed_unsupported", "speed: expected 1")
    answer = client.post("/v1/audio/speech", json={"input": "Hello.", "speed": 2})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "speed"
