"""Chats with a whole server, as stock clients hold them: written, spoken, heard, with functions."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import wave
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, OpenAI
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from tests.support.server import Server, serving, shipped, wait_quiet, write_deployment
from tests.support.speech import RATE, Ear, Speaker, plain_words, word_error_rate
from tests.support.waiting import until

from antiphon.codecs.wav import write_wav

pytestmark = [pytest.mark.models, pytest.mark.server, pytest.mark.timeout(180)]

MODEL = "gpt-audio"
TEXT = "The light of the evening takes a longer way, and so it turns red."
QUESTION = "How is the weather in Oslo today?"
CAPITAL = "What is the capital of France?"
RESULT = "It rains."
LONG = f"{TEXT} " * 100
ARGUMENTS = {"city": "Oslo"}

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It hears with Whisper, says again what it was told, and calls a function for the weather."""
    deployment = shipped("scripted")
    stages = deployment["stages"]
    stages["recognizer"] = {"use": "whisper"}
    stages["ar"]["lines"] = ["{user} {tool}"]
    call = {"name": "get_weather", "arguments": ARGUMENTS, "when": "weather"}
    stages["ar"]["calls"] = [call]
    stages["talker"] = {"variation": 0}
    with serving(write_deployment(deployment, tmp_path_factory.mktemp("chat"))) as each:
        yield each


@pytest.fixture
def client(server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as each:
        yield each


def user(content: Any) -> Any:
    return [{"role": "user", "content": content}]


def said(speaker: Speaker, text: str) -> Any:
    """A part with the speech of a text."""
    file = write_wav(speaker.say(text).pcm, RATE)
    audio = {"data": b64encode(file).decode(), "format": "wav"}
    return {"type": "input_audio", "input_audio": audio}


def aloud(form: str) -> Any:
    return {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": form}}


def complete(client: OpenAI, messages: Any, **asked: Any) -> ChatCompletion:
    # Its types know no arguments that are only known here.
    create: Any = client.chat.completions.create
    answer: ChatCompletion = create(model=MODEL, messages=messages, **asked)
    return answer


def content_of(answer: ChatCompletion) -> str:
    return answer.choices[0].message.content or ""


def usage_of(answer: ChatCompletion) -> CompletionUsage:
    assert answer.usage is not None
    return answer.usage


def test_a_written_answer_whole_and_in_a_stream(client: OpenAI, server: Server) -> None:
    whole = complete(client, user(TEXT))
    assert content_of(whole).strip() == TEXT
    assert (whole.choices[0].finish_reason, whole.model) == ("stop", "antiphon-scripted")

    async def main() -> list[ChatCompletionChunk]:
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x") as client:
            chunks = await client.chat.completions.create(
                model=MODEL,
                messages=user(TEXT),
                stream=True,
                stream_options={"include_usage": True},
            )
            return [chunk async for chunk in chunks]

    *chunks, last = asyncio.run(main())
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert "".join(pieces) == content_of(whole)
    assert sum(map(bool, pieces)) == len(TEXT.split())
    assert (last.choices, last.usage) == ([], usage_of(whole))


def test_an_answer_aloud_is_heard_as_it_was_written(client: OpenAI, ear: Ear) -> None:
    audio = complete(client, user(TEXT), **aloud("wav")).choices[0].message.audio
    assert audio is not None
    assert audio.transcript.strip() == TEXT
    with wave.open(io.BytesIO(b64decode(audio.data))) as file:
        assert file.getframerate() == RATE
        pcm = file.readframes(file.getnframes())
    assert word_error_rate(TEXT, ear.hear(pcm)) < 0.1
    # What was said can be referred to.
    before = {"role": "assistant", "audio": {"id": audio.id}}
    again = complete(client, [before, *user("Well?")])
    assert usage_of(again).prompt_tokens == len(TEXT.split()) + 1


def test_a_stream_aloud_can_be_read_piece_by_piece_or_joined(client: OpenAI, ear: Ear) -> None:
    with client.chat.completions.stream(
        model=MODEL, messages=user(TEXT), **aloud("pcm16")
    ) as stream:
        chunks = [event.chunk for event in stream if event.type == "chunk"]
        joined = stream.get_final_completion().choices[0].message.audio
    assert joined is not None
    told = [chunk.choices[0].delta.audio for chunk in chunks]
    pieces = [each for each in told if each is not None]
    assert joined.id == pieces[0].id
    assert joined.expires_at == pieces[-1].expires_at
    assert joined.transcript == "".join(each.transcript or "" for each in pieces)
    assert joined.transcript.strip() == TEXT
    apart = b"".join(b64decode(each.data) for each in pieces if each.data is not None)
    assert b64decode(joined.data, validate=True) == apart
    assert word_error_rate(TEXT, ear.hear(apart)) < 0.1


def test_a_spoken_question_is_heard_and_a_function_called(client: OpenAI, speaker: Speaker) -> None:
    messages = user([said(speaker, QUESTION)])
    with client.chat.completions.stream(model=MODEL, messages=messages, tools=[WEATHER]) as stream:
        (choice,) = stream.get_final_completion().choices
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls or []
    assert json.loads(call.function.arguments) == ARGUMENTS
    # As clients do: what came is sent again, with what has come of it.
    output = {"role": "tool", "tool_call_id": call.id, "content": RESULT}
    again = [*messages, choice.message.to_dict(), output]
    told = complete(client, again, tools=[WEATHER])
    assert word_error_rate(f"{QUESTION} {RESULT}", content_of(told)) < 0.1
    details = usage_of(told).prompt_tokens_details
    assert details is not None
    assert details.audio_tokens == pytest.approx(speaker.say(QUESTION).ms / 100, abs=1)


def test_clients_who_leave_leave_nothing(server: Server) -> None:
    async def leave(client: AsyncOpenAI, pieces: int) -> None:
        asked: Any = {"model": MODEL, "messages": user(LONG), **aloud("mp3")}
        stream = await client.chat.completions.create(**asked, stream=True)
        async with stream:
            async for _ in stream:
                pieces -= 1
                if pieces < 0:
                    return

    async def main() -> None:
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x") as client:
            await asyncio.gather(*(leave(client, 3 * n) for n in range(4)))

    asyncio.run(main())
    wait_quiet(server)
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    body = json.dumps({"messages": user(LONG), **aloud("wav")})
    line.request("POST", "/v1/chat/completions", body)
    # It has sent nothing yet: a whole answer is long in the making.
    asyncio.run(until(lambda: server.sessions()["stages"]["reply"]["running"] == 1))
    line.close()
    wait_quiet(server)


def test_the_client_is_told_what_is_wrong(client: OpenAI) -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "bm8gc291bmQ=", "format": "wav"}}
    for asked, param in (
        ({"messages": user([sound])}, "messages[0].content[0].input_audio.data"),
        ({"messages": user("Hi"), "stop": ["."]}, "stop"),
        ({"messages": user("Hi"), "modalities": ["audio"]}, "modalities"),
    ):
        whole: Any = asked
        with pytest.raises(BadRequestError) as caught:
            complete(client, **whole)
        assert caught.value.param == param


def test_a_real_model_answers_what_it_heard_and_calls_as_it_must(
    embedded_server: Server, speaker: Speaker
) -> None:
    with OpenAI(base_url=f"{embedded_server.url}/v1", api_key="x", max_retries=0) as client:
        heard = complete(client, user([said(speaker, CAPITAL)]), max_completion_tokens=24)
        assert "paris" in plain_words(content_of(heard))
        assert usage_of(heard).prompt_tokens > usage_of(heard).completion_tokens > 0
        called = complete(client, user(QUESTION), tools=[WEATHER], tool_choice="required")
        assert called.choices[0].finish_reason == "tool_calls"
        for call in called.choices[0].message.tool_calls or ():
            assert call.type == "function"
            assert set(json.loads(call.function.arguments)) == {"city"}
        with pytest.raises(BadRequestError) as caught:
            complete(client, user(LONG * 2))
        assert caught.value.code == "context_length_exceeded"
        assert caught.value.param == "messages"
