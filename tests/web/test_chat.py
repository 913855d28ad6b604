"""Chats over HTTP, in memory: answers whole and in chunks, aloud and in writing, and calls."""

from __future__ import annotations

import io
import json
import math
import wave
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from tests.support.fakes import BROKEN, FRAME_MS, FakePipeline, Step, spoken, tone

from antiphon.codecs.encode import EncoderMissing
from antiphon.codecs.media import MediaMissing
from antiphon.engines.chunks import (
    CallDelta,
    End,
    EndReason,
    PcmChunk,
    Segment,
    StageError,
    TextDelta,
    Usage,
)
from antiphon.engines.deployment import parse_deployment
from antiphon.engines.pipeline import Message, ReplyRequest, TranscribeRequest
from antiphon.engines.tools import Call
from antiphon.web import chat, uploads
from antiphon.web.app import Server
from antiphon.web.chat import PATH
from antiphon.web.chat_request import FORMATS
from antiphon.web.sound import NOTHING_MS

from .chatting import ALOUD, HELLO, deltas, events, said, user, visitor, wav
from .visitor import Visitor

Json = dict[str, Any]

USED = Usage(input_tokens=12, cached_tokens=4, output_tokens=3)
DONE = End(EndReason.COMPLETED, usage=USED)
WRITTEN: tuple[Step, ...] = (TextDelta("Hello", 1), TextDelta(" there.", 2), DONE)

WEATHER: Json = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
CALLED: tuple[Step, ...] = (
    CallDelta(0, "get_weather", "", False),
    CallDelta(0, "get_weather", '{"city": ', False),
    CallDelta(0, "get_weather", '"Oslo"}', True),
    CallDelta(1, "get_weather", '{"city": "Rome"}', True),
    DONE,
)


@pytest.fixture
def pipeline() -> FakePipeline:
    return FakePipeline(replies=(WRITTEN,))


@pytest.fixture
def client(pipeline: FakePipeline) -> Iterator[Visitor]:
    with visitor(pipeline) as each:
        yield each
        assert pipeline.open_streams == 0


def ask(client: Visitor, asked: Json) -> Json:
    answer = client.post(PATH, json=asked)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["content-length"]) == len(answer.content)
    body: Json = answer.json()
    ChatCompletion.model_validate(body)
    return body


def stream(client: Visitor, asked: Json) -> list[Json]:
    answer = client.post(PATH, json={**asked, "stream": True})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-store"
    assert "content-length" not in answer.headers
    chunks = events(answer.text)
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    return chunks


def asked_of(pipeline: FakePipeline) -> ReplyRequest:
    return pipeline.of(ReplyRequest)[-1]


# In writing.


def test_an_answer_is_one_object(client: Visitor, pipeline: FakePipeline) -> None:
    body = ask(client, HELLO)
    assert (body["object"], body["model"]) == ("chat.completion", "fake-model")
    (choice,) = body["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Hello there.", "refusal": None}
    assert (choice["index"], choice["finish_reason"]) == (0, "stop")
    usage = body["usage"]
    told = [usage[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")]
    assert told == [12, 3, 15]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 4
    request = asked_of(pipeline)
    assert request.messages == (Message("user", "Hello?"),)
    assert (request.speak, request.voice, request.max_tokens) == (False, None, None)
    assert (request.temperature, request.tools) == (None, ())
    assert request.truncation.mode == "disabled"


def test_a_stream_has_a_role_pieces_an_end_and_no_usage(client: Visitor) -> None:
    chunks = stream(client, HELLO)
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    assert deltas(chunks) == [
        {"role": "assistant", "content": "", "refusal": None},
        {"content": "Hello"},
        {"content": " there."},
        {},
    ]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None, None, None, "stop"]
    assert not any("usage" in chunk for chunk in chunks)


def test_usage_comes_last_where_it_is_asked_for(client: Visitor) -> None:
    *chunks, last = stream(client, {**HELLO, "stream_options": {"include_usage": True}})
    assert all(chunk["usage"] is None for chunk in chunks)
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 15


@pytest.mark.parametrize("streamed", [True, False])
def test_an_answer_that_reached_its_bound_says_so(streamed: bool) -> None:
    cut = End(EndReason.LENGTH, usage=USED)
    with visitor(FakePipeline(replies=((TextDelta("Hel", 3), cut),))) as client:
        last = stream(client, HELLO)[-1] if streamed else ask(client, HELLO)
    assert last["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("aloud", [{}, ALOUD])
def test_an_answer_without_a_word(aloud: Json) -> None:
    with visitor(FakePipeline(replies=((DONE,),))) as client:
        message = ask(client, HELLO | aloud)["choices"][0]["message"]
        assert message == {"role": "assistant", "content": "", "refusal": None}
        first, last = deltas(stream(client, HELLO | aloud))
        assert (first["role"], last) == ("assistant", {})


def test_sampling_is_passed_on(client: Visitor, pipeline: FakePipeline) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        ask(client, {**HELLO, name: 7, "temperature": 0})
        assert (asked_of(pipeline).max_tokens, asked_of(pipeline).temperature) == (7, 0)


# The messages.


def test_every_role_and_part_reaches_the_model(client: Visitor, pipeline: FakePipeline) -> None:
    text = {"type": "text", "text": "And"}
    function = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    messages: list[Json] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "system", "content": [text, {"type": "text", "text": "kind."}]},
        {"role": "user", "content": "How is it in Oslo?", "name": "Ada"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "Rain."}]},
        {"role": "assistant", "content": [text, {"type": "refusal", "refusal": "no."}]},
        {"role": "assistant", "refusal": "No more."},
        {"role": "user", "content": ""},
    ]
    ask(client, {**HELLO, "messages": messages})
    assert asked_of(pipeline).messages == (
        Message("system", "Be brief."),
        Message("system", "And\nkind."),
        Message("user", "How is it in Oslo?"),
        Message("assistant", "", calls=(Call("c1", "get_weather", '{"city": "Oslo"}'),)),
        Message("tool", "Rain.", call_id="c1"),
        Message("assistant", "And\nno."),
        Message("assistant", "No more."),
        Message("user", ""),
    )


def test_the_deployment_instructs_where_the_client_does_not(pipeline: FakePipeline) -> None:
    with visitor(pipeline, instructions="Be kind.") as client:
        ask(client, HELLO)
        assert asked_of(pipeline).messages[0] == Message("system", "Be kind.")
        ask(client, {**HELLO, "messages": [{"role": "developer", "content": "Be rude."}]})
        assert asked_of(pipeline).messages == (Message("system", "Be rude."),)


def test_recordings_are_heard_in_their_place_and_in_order(pipeline: FakePipeline) -> None:
    fake = FakePipeline(
        replies=(WRITTEN,),
        recordings=(
            (
                Segment(text=" One", start_ms=0, end_ms=1),
                Segment(text=" and.", start_ms=1, end_ms=2),
            ),
            (Segment(text=" Two.", start_ms=0, end_ms=1),),
        ),
    )
    asked = user(said(wav(1.5)), {"type": "text", "text": "Or:"}, said(wav(0.5)))
    with visitor(fake) as client:
        usage = ask(client, asked)["usage"]
    assert asked_of(fake).messages == (Message("user", "One and.\nOr:\nTwo."),)
    assert [each.language for each in fake.of(TranscribeRequest)] == [None, None]
    assert {each.rate for each in fake.recorded} == {16_000}
    assert sum(len(each.pcm) for each in fake.recorded) == 2 * 32_000
    assert usage["prompt_tokens_details"]["audio_tokens"] == 20
    assert usage["prompt_tokens"] == 12 + 20
    assert fake.open_streams == 0


def test_a_recording_may_have_any_format_whatever_it_is_called(client: Visitor) -> None:
    ask(client, user(said(wav(), "mp3")))
    ask(client, user(said(wav(), "webm")))


PNG = "data:image/png;base64,iVBORw0KGgo="


def test_images_reach_a_model_that_sees(client: Visitor, pipeline: FakePipeline) -> None:
    pipeline.sees = True
    image = {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}
    ask(client, user({"type": "text", "text": "What is it?"}, image))
    assert asked_of(pipeline).messages == (Message("user", "What is it?", images=(PNG,)),)


# Aloud.


def spoken_pipeline(text: str = "Hello there") -> FakePipeline:
    return FakePipeline(replies=(spoken(text, chunk_ms=50),))


def test_an_answer_aloud_has_a_transcript_and_a_file() -> None:
    fake = spoken_pipeline()
    with visitor(fake) as client:
        body = ask(client, HELLO | ALOUD)
    message = body["choices"][0]["message"]
    assert message["content"] is None
    audio = message["audio"]
    assert audio["transcript"] == "Hello there"
    assert audio["expires_at"] == pytest.approx(body["created"] + 3600, abs=60)
    assert b64decode(audio["data"]) == tone(400)
    assert body["usage"]["completion_tokens_details"]["audio_tokens"] == 8
    assert body["usage"]["completion_tokens"] == 2 + 8
    assert asked_of(fake).speak


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("streamed", [True, False])
def test_every_format_is_a_file_of_its_kind(form: str, streamed: bool) -> None:
    aloud = {**ALOUD, "audio": {"voice": "bob", "format": form}}
    fake = spoken_pipeline()
    with visitor(fake) as client:
        if streamed:
            audio = [
                delta["audio"]
                for delta in deltas(stream(client, HELLO | aloud))
                if "audio" in delta
            ]
            data = b"".join(b64decode(each["data"]) for each in audio if "data" in each)
        else:
            data = b64decode(ask(client, HELLO | aloud)["choices"][0]["message"]["audio"]["data"])
    magic = {"mp3": b"\xff", "opus": b"OggS", "aac": b"\xff", "flac": b"fLaC", "wav": b"RIFF"}
    assert data.startswith(magic.get(form, tone(400)))
    assert asked_of(fake).voice == "bob"


def test_a_whole_wav_file_says_how_long_it_is() -> None:
    aloud = {**ALOUD, "audio": {"voice": {"id": "ada"}, "format": "wav"}}
    with visitor(spoken_pipeline()) as client:
        audio = ask(client, HELLO | aloud)["choices"][0]["message"]["audio"]
    with wave.open(io.BytesIO(b64decode(audio["data"]))) as file:
        assert (file.getframerate(), file.getnframes()) == (24_000, 9600)
        assert file.readframes(9600) == tone(400)


def test_a_stream_aloud_has_pieces_of_transcript_and_of_audio() -> None:
    odd = (PcmChunk(tone(FRAME_MS)[:-2], 24_000), PcmChunk(tone(FRAME_MS), 24_000))
    steps = (TextDelta("Hello", 1), *odd, TextDelta(" there", 1), DONE)
    with visitor(FakePipeline(replies=(steps,))) as client:
        chunks = stream(client, HELLO | ALOUD)
    first, *pieces, expiry, last = deltas(chunks)
    assert first == {"role": "assistant", "refusal": None}
    assert set(expiry["audio"]) == {"expires_at"}
    assert last == {}
    audio = [piece["audio"] for piece in pieces]
    assert [set(each) for each in audio] == [
        {"id", "transcript"},
        {"data"},
        {"data"},
        {"transcript"},
        {"data"},
    ]
    assert audio[0]["id"].startswith("audio_")
    assert "".join(each.get("transcript", "") for each in audio) == "Hello there"
    # Each by itself, and all as one text.
    apart = [b64decode(each["data"]) for each in audio if "data" in each]
    assert all(len(each) % 2 == 0 for each in apart)
    joined = b64decode("".join(each.get("data", "") for each in audio), validate=True)
    assert b"".join(apart) == joined == tone(FRAME_MS)[:-2] + tone(FRAME_MS)


def test_a_text_with_nothing_to_pronounce_is_a_moment_of_silence() -> None:
    with visitor(FakePipeline(replies=((TextDelta("...", 1), DONE),))) as client:
        audio = ask(client, HELLO | ALOUD)["choices"][0]["message"]["audio"]
    assert (audio["transcript"], len(b64decode(audio["data"]))) == ("...", 48 * NOTHING_MS)


def test_the_listener_is_said_to_have_half_the_lead_left() -> None:
    """So that audio is made faster than it is heard, and others come first."""
    fake = FakePipeline(replies=(spoken("a " * 15, chunk_ms=1000),))
    with visitor(fake) as client:
        ask(client, HELLO | ALOUD)
    assert [told[1:] for told in fake.playback] == [
        (0, math.inf),
        (0, math.inf),
        (1000, math.inf),
    ]


def test_an_earlier_answer_is_known_by_the_id_of_its_audio() -> None:
    fake = FakePipeline(replies=(spoken("Hello there"), spoken("I am fine"), WRITTEN))
    with visitor(fake) as client:
        whole = ask(client, HELLO | ALOUD)["choices"][0]["message"]["audio"]
        streamed = deltas(stream(client, HELLO | ALOUD))
        (second,) = [each["audio"]["id"] for each in streamed if "id" in each.get("audio", {})]
        messages = [
            {"role": "assistant", "audio": {"id": whole["id"]}},
            {"role": "assistant", "content": None, "audio": {"id": second}},
        ]
        ask(client, {**HELLO, "messages": messages})
        assert asked_of(fake).messages == (
            Message("assistant", "Hello there"),
            Message("assistant", "I am fine"),
        )
        asked = {**HELLO, "messages": [{"role": "assistant", "audio": {"id": "audio_0"}}]}
        answer = client.post(PATH, json=asked)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages[0].audio.id"


def test_audio_beyond_the_bound_is_only_sent_in_a_stream() -> None:
    fake = FakePipeline(replies=(spoken("a " * 30),))
    with visitor(fake, outgoing_bytes=len(tone(5000))) as client:
        answer = client.post(PATH, json=HELLO | ALOUD)
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert (error["code"], error["param"]) == ("audio_too_long", "audio")
        assert "stream" in error["message"]
        assert deltas(stream(client, HELLO | ALOUD))[-1] == {}
    assert fake.open_streams == 0


# Calls.


def test_calls_of_a_whole_answer() -> None:
    fake = FakePipeline(replies=(CALLED,))
    with visitor(fake) as client:
        (choice,) = ask(client, {**HELLO, "tools": [WEATHER]})["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    first, second = choice["message"]["tool_calls"]
    assert first["function"] == {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    assert second["function"]["arguments"] == '{"city": "Rome"}'
    assert first["id"] != second["id"]
    (tool,) = asked_of(fake).tools
    assert (tool.name, tool.description) == ("get_weather", "Tells the weather.")
    assert json.loads(tool.parameters) == WEATHER["function"]["parameters"]


@pytest.mark.parametrize("aloud", [{}, ALOUD])
def test_calls_in_a_stream(aloud: Json) -> None:
    with visitor(FakePipeline(replies=(CALLED,))) as client:
        chunks = stream(client, {**HELLO, **aloud, "tools": [WEATHER]})
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    calls = [delta["tool_calls"][0] for delta in deltas(chunks) if "tool_calls" in delta]
    assert [call["index"] for call in calls] == [0, 0, 0, 1]
    assert calls[0]["function"] == {"name": "get_weather", "arguments": ""}
    assert calls[0]["type"] == "function"
    assert calls[0]["id"].startswith("call_")
    assert calls[1] == {"index": 0, "function": {"arguments": '{"city": '}}
    assert calls[3]["id"].startswith("call_")
    assert calls[3]["id"] != calls[0]["id"]


def test_words_ahead_of_a_call_are_kept() -> None:
    fake = FakePipeline(replies=((TextDelta("Let me see.", 3), *CALLED),))
    with visitor(fake) as client:
        message = ask(client, {**HELLO, "tools": [WEATHER]})["choices"][0]["message"]
    assert message["content"] == "Let me see."
    assert len(message["tool_calls"]) == 2


@pytest.mark.parametrize("streamed", [True, False])
def test_without_parallel_calls_there_is_one(streamed: bool) -> None:
    asked = {**HELLO, "tools": [WEATHER], "parallel_tool_calls": False}
    with visitor(FakePipeline(replies=(CALLED,))) as client:
        if streamed:
            told = [delta for delta in deltas(stream(client, asked)) if "tool_calls" in delta]
            assert {delta["tool_calls"][0]["index"] for delta in told} == {0}
        else:
            (call,) = ask(client, asked)["choices"][0]["message"]["tool_calls"]
            assert call["function"]["arguments"] == '{"city": "Oslo"}'


OTHER = {"type": "function", "function": {"name": "other"}}
NAMED = {"type": "function", "function": {"name": "get_weather"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}


@pytest.mark.parametrize(
    ("choice", "mode", "name", "offered"),
    [
        (None, "auto", None, ["get_weather", "other"]),
        ("auto", "auto", None, ["get_weather", "other"]),
        ("none", "none", None, ["get_weather", "other"]),
        ("required", "required", None, ["get_weather", "other"]),
        (NAMED, "function", "get_weather", ["get_weather", "other"]),
        (ALLOWED, "required", None, ["get_weather"]),
    ],
)
def test_the_choice_of_functions(
    client: Visitor,
    pipeline: FakePipeline,
    choice: object,
    mode: str,
    name: str | None,
    offered: list[str],
) -> None:
    ask(client, {**HELLO, "tools": [WEATHER, OTHER], "tool_choice": choice})
    request = asked_of(pipeline)
    assert (request.tool_choice.mode, request.tool_choice.name) == (mode, name)
    assert [tool.name for tool in request.tools] == offered


# What goes wrong.


@pytest.mark.parametrize(
    ("error", "status", "param", "retry"),
    [
        (StageError("overloaded", "too many", 1500), 503, None, "2"),
        (BROKEN, 500, None, None),
        (StageError("context_length_exceeded", "the conversation has"), 400, "messages", None),
        (StageError("context_length_exceeded", "tools: they take 9"), 400, "tools", None),
        (
            StageError("invalid_value", "tools[2].parameters: can't be enforced"),
            400,
            "tools[2].function.parameters",
            None,
        ),
        (StageError("voice_unknown", "expected a voice out of ada"), 400, "audio.voice", None),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("when", ["opened", "begun"])
def test_failures_ahead_of_the_answer_have_their_status(
    error: StageError, status: int, param: str | None, retry: str | None, streamed: bool, when: str
) -> None:
    fake = FakePipeline(replies=((End(EndReason.FAILED, error),),))
    if when == "opened":
        fake.refused["reply"] = error
    with visitor(fake) as client:
        answer = client.post(PATH, json={**HELLO, "stream": streamed})
    assert answer.status_code == status
    assert answer.headers.get("retry-after") == retry
    told = answer.json()["error"]
    assert told["param"] == param
    assert (param or "") in told["message"] or param == "messages"
    assert fake.open_streams == 0


@pytest.mark.parametrize(
    ("error", "status"),
    [(StageError("overloaded", "busy", 1500), 503), (BROKEN, 500)],
)
@pytest.mark.parametrize("when", ["opened", "begun"])
def test_failures_of_the_recognizer_have_their_status(
    error: StageError, status: int, when: str
) -> None:
    fake = FakePipeline(recordings=((End(EndReason.FAILED, error),),))
    if when == "opened":
        fake.refused["transcribe"] = error
    with visitor(fake) as client:
        answer = client.post(PATH, json=user(said(wav())))
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, error.code)
    assert fake.of(ReplyRequest) == []
    assert fake.open_streams == 0


@pytest.mark.parametrize("streamed", [True, False])
def test_a_recording_that_is_none_is_refused_by_its_place(streamed: bool) -> None:
    fake = FakePipeline()
    asked = user({"type": "text", "text": "Hm?"}, said(b"no sound at all " * 100))
    with visitor(fake) as client:
        answer = client.post(PATH, json={**asked, "stream": streamed})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["param"], error["code"]) == (
        "messages[0].content[1].input_audio.data",
        "not_audio",
    )
    assert fake.of(ReplyRequest) == []
    assert fake.open_streams == 0


def test_a_format_that_needs_what_the_server_lacks(
    client: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def new_encoder(form: str) -> None:
        raise EncoderMissing

    def open_audio(file: object) -> None:
        raise MediaMissing

    monkeypatch.setattr(chat, "new_encoder", new_encoder)
    monkeypatch.setattr(uploads, "open_audio", open_audio)
    answer = client.post(PATH, json=HELLO | ALOUD)
    assert (answer.status_code, answer.json()["error"]["param"]) == (501, "audio.format")
    answer = client.post(PATH, json=user(said(wav())))
    assert (answer.status_code, answer.json()["error"]["code"]) == (501, "package_missing")


def test_models_that_load_are_waited_for() -> None:
    with visitor(FakePipeline(ready=False)) as client:
        answer = client.post(PATH, json=HELLO)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_only_post(client: Visitor) -> None:
    answer = client.get(PATH)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_a_key_is_needed_where_there_are_keys(pipeline: FakePipeline) -> None:
    deployment = parse_deployment({"access": {"keys": ["k1"]}})
    with Visitor(Server(deployment, pipeline).app) as client:
        assert client.post(PATH, json=HELLO).status_code == 401
        told = {"authorization": "Bearer k1"}
        assert client.post(PATH, json=HELLO, headers=told).status_code == 200
