"""Text in, audio out: what is refused, what is sent, and what is left when a client goes."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import socket
import wave
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest
import uvicorn
from starlette.types import Message, Scope
from tests.support.babble import babble
from tests.support.fakes import BROKEN, RATE, SAID_MS, FakePipeline, Step, tone
from tests.support.loop import run_simulated

from antiphon.codecs.encode import FORMATS
from antiphon.codecs.loudness import integrated
from antiphon.engines.chunks import End, EndReason, PcmChunk, SpokenWords, StageError, Word
from antiphon.engines.deployment import parse_deployment
from antiphon.engines.pipeline import SpeakRequest
from antiphon.realtime.voice_levels import SAMPLE
from antiphon.web.app import Server
from antiphon.web.bodies import BODY_SECONDS
from antiphon.web.sound import NOTHING_MS
from antiphon.web.speech import PATH, SpeechRoute
from antiphon.web.speech_request import STOCK_SPEECH_VOICES, body_bytes

from .visitor import Visitor

Json = dict[str, Any]

CHARS = 200
HELLO: Json = {"model": "tts-1", "input": "Hello there", "voice": "alloy"}
DONE = End(EndReason.COMPLETED)

TYPES = {
    "mp3": "audio/mpeg",
    "opus": "audio/opus",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
MAGIC = {"mp3": b"\xff", "opus": b"OggS", "aac": b"\xff", "flac": b"fLaC", "wav": b"RIFF"}


def visitor(pipeline: FakePipeline, **limits: int) -> Visitor:
    given = {"speech_chars": CHARS, **limits}
    deployment = parse_deployment({"model": "fake-model", "limits": given})
    return Visitor(Server(deployment, pipeline).app)


@pytest.fixture
def pipeline() -> FakePipeline:
    return FakePipeline()


@pytest.fixture
def client(pipeline: FakePipeline) -> Iterator[Visitor]:
    with visitor(pipeline) as client:
        yield client


def events(text: str) -> list[Json]:
    lines = [part.removeprefix("data: ") for part in text.split("\n\n") if part]
    return [json.loads(line) for line in lines]


ENDLESS = b'{"input":"Hello","speed":1e999}'


# What is sent.


def test_pcm_is_the_samples_themselves(client: Visitor, pipeline: FakePipeline) -> None:
    answer = client.post(PATH, json={**HELLO, "response_format": "pcm"})
    assert answer.status_code == 200
    assert answer.content == tone(2 * SAID_MS)
    assert "content-length" not in answer.headers
    assert answer.headers["cache-control"] == "no-store"
    assert pipeline.text_said == ["Hello there"]
    (asked,) = pipeline.of(SpeakRequest)
    assert (asked.voice, asked.speed, asked.paced) == (None, 1.0, False)


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_is_sent_as_what_it_is(client: Visitor, form: str) -> None:
    answer = client.post(PATH, json={**HELLO, "response_format": form})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == TYPES[form]
    assert answer.content.startswith(MAGIC.get(form, b""))


@pytest.mark.parametrize("asked", [{}, {"response_format": None}])
def test_mp3_is_what_is_sent_unasked(client: Visitor, asked: Json) -> None:
    assert client.post(PATH, json=HELLO | asked).headers["content-type"] == "audio/mpeg"


def test_a_wav_file_has_all_of_the_audio(client: Visitor) -> None:
    answer = client.post(PATH, json={**HELLO, "response_format": "wav"})
    # Of a length that was not known when the file began.
    with wave.open(io.BytesIO(answer.content)) as read:
        assert (read.getframerate(), read.getnchannels()) == (RATE, 1)
    assert answer.content.endswith(tone(2 * SAID_MS))


@pytest.mark.parametrize("text", ["...", "Well"])
def test_a_text_with_nothing_to_pronounce_is_a_moment_of_silence(text: str) -> None:
    with visitor(FakePipeline(speeches=((DONE,),))) as client:
        answer = client.post(PATH, json={**HELLO, "input": text, "response_format": "pcm"})
    assert answer.content == bytes(2 * RATE * NOTHING_MS // 1000)


@pytest.mark.parametrize(
    ("asked", "voice"),
    [
        *((name, None) for name in STOCK_SPEECH_VOICES),
        ("bob", "bob"),
        ({"id": "bob"}, "bob"),
        ({"id": "nova"}, None),
        (None, None),
    ],
)
def test_voices_by_name_by_id_and_by_the_names_of_stock_clients(
    client: Visitor, pipeline: FakePipeline, asked: object, voice: str | None
) -> None:
    assert client.post(PATH, json={**HELLO, "voice": asked}).status_code == 200
    assert [each.voice for each in pipeline.of(SpeakRequest)] == [voice]


@pytest.mark.parametrize("speed", [0.25, 1, 1.5, 4])
def test_speed(client: Visitor, pipeline: FakePipeline, speed: float) -> None:
    assert client.post(PATH, json={**HELLO, "speed": speed}).status_code == 200
    assert [each.speed for each in pipeline.of(SpeakRequest)] == [speed]


SPOKEN = babble(4)
STEPS: tuple[Step, ...] = (
    *(PcmChunk(SPOKEN[at : at + 19_999], RATE) for at in range(0, len(SPOKEN), 19_999)),
    DONE,
)


@pytest.mark.parametrize("loudness", [-36, -20.5, -12])
def test_speech_is_as_loud_as_asked(loudness: float) -> None:
    with visitor(FakePipeline(speeches=(STEPS,))) as client:
        asked = {**HELLO, "response_format": "pcm", "loudness": loudness}
        answer = client.post(PATH, json=asked)
    assert len(answer.content) == len(SPOKEN)
    assert integrated(answer.content) == pytest.approx(loudness, abs=1)


def test_the_voice_is_measured_once() -> None:
    pipeline = FakePipeline(speeches=(STEPS,))
    with visitor(pipeline) as client:
        for _ in range(2):
            assert client.post(PATH, json={**HELLO, "loudness": -20}).status_code == 200
    assert sorted(pipeline.text_said) == sorted([SAMPLE, "Hello there", "Hello there"])


@pytest.mark.parametrize("asked", [{}, {"loudness": None}])
def test_without_loudness_the_voice_is_as_it_is(asked: Json) -> None:
    pipeline = FakePipeline(speeches=(STEPS,))
    with visitor(pipeline) as client:
        answer = client.post(PATH, json={**HELLO, "response_format": "pcm"} | asked)
    assert answer.content == SPOKEN
    assert pipeline.text_said == ["Hello there"]


@pytest.mark.parametrize("form", ["wav", "mp3"])
def test_the_end_of_levelled_speech_is_in_the_file(form: str) -> None:
    with visitor(FakePipeline(speeches=(STEPS,))) as client:
        asked = {**HELLO, "response_format": form}
        plain, levelled = (
            client.post(PATH, json=asked | more).content for more in ({}, {"loudness": -30})
        )
    # MP3 has a constant rate.
    assert len(levelled) == len(plain)


def test_a_client_who_leaves_while_the_voice_is_measured() -> None:
    async def scenario(client: Client) -> None:
        asking = asyncio.create_task(client.ask(loudness=-20))
        await asyncio.sleep(1)
        client.leaves.set()
        await asking
        assert asyncio.get_running_loop().time() < 2
        assert client.sent == []

    with_client((60.0, DONE), scenario)


def test_what_stock_clients_send_without_meaning_it_is_accepted(client: Visitor) -> None:
    asked = {**HELLO, "instructions": "", "stream_format": None, "speed": None, "extra": {"a": 1}}
    assert client.post(PATH, json=asked).status_code == 200


# Server-sent events.


def test_events_hold_the_audio_and_what_was_used(client: Visitor) -> None:
    asked = {**HELLO, "response_format": "pcm", "stream_format": "sse"}
    answer = client.post(PATH, json=asked)
    assert answer.headers["content-type"] == "text/event-stream"
    *deltas, done = events(answer.text)
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(delta["audio"]) for delta in deltas) == tone(2 * SAID_MS)
    usage = {"input_tokens": 2, "output_tokens": 2, "total_tokens": 4}
    assert done == {"type": "speech.audio.done", "usage": usage}


def test_word_times_come_ahead_of_their_audio(client: Visitor) -> None:
    asked = {**HELLO, "response_format": "pcm", "stream_format": "sse"}
    answer = client.post(PATH, json=asked | {"timestamp_granularities": ["word"]})
    told = events(answer.text)
    kinds = [event["type"].rpartition(".")[2] for event in told]
    assert kinds == ["words", "delta", "words", "delta", "done"]
    words = [word for event in told for word in event.get("words", [])]
    assert words == [
        {"word": "Hello", "start": 0.0, "end": 0.2},
        {"word": "there", "start": 0.2, "end": 0.4},
    ]


def test_word_times_are_those_of_the_file(client: Visitor) -> None:
    """MP3 begins with silence of its own."""
    asked = {**HELLO, "stream_format": "sse", "timestamp_granularities": ["word"]}
    told = events(client.post(PATH, json=asked).text)
    (word,) = next(event["words"] for event in told if "words" in event)
    assert 0.03 < word["start"] < 0.06


# What is refused.


@pytest.mark.parametrize(
    ("asked", "param", "says"),
    [
        ({"input": ""}, "input", "some text"),
        ({"input": " \n\t "}, "input", "some text"),
        ({"input": None}, "input", "expected `str`"),
        ({"input": ["a"]}, "input", "expected `str`"),
        ({"input": "a" * (CHARS + 1)}, "input", f"at most {CHARS}"),
        ({"voice": "carol"}, "voice", "'ada', 'bob', 'alloy'"),
        ({"voice": {"id": "carol"}}, "voice", "'ada'"),
        ({"voice": {"name": "ada"}}, "voice.id", "Missing"),
        ({"voice": 3}, "voice", "Invalid"),
        ({"instructions": "Whisper."}, "instructions", "can't be told"),
        ({"response_format": "ogg"}, "response_format", "'mp3', 'opus'"),
        ({"speed": 0.2}, "speed", "from 0.25 to 4"),
        ({"speed": 4.1}, "speed", "from 0.25 to 4"),
        ({"speed": "fast"}, "speed", "expected `float"),
        ({"loudness": -36.1}, "loudness", "from -36 to -12"),
        ({"loudness": -11.9}, "loudness", "from -36 to -12"),
        ({"loudness": 0}, "loudness", "from -36 to -12"),
        ({"loudness": "loud"}, "loudness", "expected `float"),
        ({"loudness": True}, "loudness", "expected `float"),
        ({"stream_format": "ws"}, "stream_format", "'audio', 'sse'"),
        ({"timestamp_granularities": ["word"]}, "timestamp_granularities", "'sse'"),
        (
            {"timestamp_granularities": ["segment"], "stream_format": "sse"},
            "timestamp_granularities",
            "'word'",
        ),
        ({"model": 3}, "model", "expected `str"),
    ],
)
def test_what_is_wrong_is_refused_by_name(
    client: Visitor, pipeline: FakePipeline, asked: Json, param: str, says: str
) -> None:
    answer = client.post(PATH, json=HELLO | asked)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert says in error["message"]
    assert pipeline.requests == []


@pytest.mark.parametrize(
    "body", [b"", b"{", b"hello", b"[]", b"\xff\xfe", b"[" * 50_000, b'{"input":"\xff"}', ENDLESS]
)
def test_a_body_that_is_no_request(client: Visitor, body: bytes) -> None:
    answer = client.post(PATH, content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_request_without_text(client: Visitor) -> None:
    error = client.post(PATH, json={"voice": "ada"}).json()["error"]
    assert (error["code"], error["param"]) == ("missing_required_parameter", "input")


def test_text_as_long_as_it_may_be_is_spoken_however_it_is_written(client: Visitor) -> None:
    body = json.dumps({**HELLO, "input": "\U0001f642" * CHARS})
    assert len(body) > 10 * CHARS
    assert client.post(PATH, content=body).status_code == 200


@pytest.mark.parametrize("told", [True, False])
def test_ten_megabytes_are_not_even_read(client: Visitor, told: bool) -> None:
    pieces = (bytes(64 * 1024) for _ in range(160))
    headers = {"content-length": "10485760"} if told else {}
    answer = client.post(PATH, content=pieces, headers=headers)
    assert answer.status_code == 413
    error = answer.json()["error"]
    assert error["code"] == "request_too_large"
    assert f"{body_bytes(CHARS) // 1024} KiB" in error["message"]


def test_models_that_load_are_waited_for() -> None:
    with visitor(FakePipeline(ready=False)) as client:
        answer = client.post(PATH, json=HELLO)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_only_post(client: Visitor) -> None:
    answer = client.get(PATH)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_a_key_is_needed_where_there_are_keys() -> None:
    deployment = parse_deployment({"access": {"keys": ["k1"]}})
    with Visitor(Server(deployment, FakePipeline()).app) as client:
        assert client.post(PATH, json=HELLO).status_code == 401
        told = {"authorization": "Bearer k1"}
        assert client.post(PATH, json=HELLO, headers=told).status_code == 200


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (StageError("overloaded", "too many", 2000), 503, "2"),
        (StageError("stage_closed", "closing", 1), 503, "1"),
        (BROKEN, 500, None),
        (StageError("voice_unknown", "expected a voice out of ada"), 400, None),
    ],
)
@pytest.mark.parametrize("when", ["opened", "spoken"])
def test_failures_ahead_of_audio_have_their_status(
    error: StageError, status: int, retry: str | None, when: str
) -> None:
    pipeline = FakePipeline(speeches=((End(EndReason.FAILED, error),),))
    if when == "opened":
        pipeline.refused["speak"] = error
    with visitor(pipeline) as client:
        answer = client.post(PATH, json=HELLO)
        assert client.get("/healthz").status_code == 200
    assert answer.status_code == status
    assert answer.headers.get("retry-after") == retry
    assert error.message in answer.json()["error"]["message"]
    assert pipeline.open_streams == 0


# What is sent to whom, when; message by message.


class Client:
    """A client of the route, who may leave or stop reading."""

    def __init__(self, pipeline: FakePipeline, **limits: int) -> None:
        deployment = parse_deployment({"limits": limits})
        self.route = SpeechRoute(pipeline, deployment.limits)
        self.sent: list[Message] = []
        self.leaves = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self._asked = False
        self.body_stops = False
        """Whether only the first half of the body comes."""

        self._changed = asyncio.Condition()

    async def ask(self, **asked: object) -> None:
        self._body = json.dumps({**HELLO, "response_format": "pcm", **asked}).encode()
        self._asked = False
        scope: Scope = {"type": "http", "method": "POST", "path": PATH, "headers": []}
        await self.route(scope, self._receive, self._send)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None

    @property
    def body(self) -> bytes:
        return b"".join(each["body"] for each in self.sent[1:])

    @property
    def complete(self) -> bool:
        return not self.sent[-1].get("more_body", True)

    async def got(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.sent) >= count)

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            body = self._body[:10] if self.body_stops else self._body
            return {"type": "http.request", "body": body, "more_body": self.body_stops}
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await self.reads.wait()
        if self.leaves.is_set():
            raise OSError
        self.sent.append(message)
        async with self._changed:
            self._changed.notify_all()


def with_client(
    steps: Sequence[Step], scenario: Callable[[Client], Awaitable[None]], **limits: int
) -> None:
    """Afterwards no task and no stream may be left."""

    async def main() -> None:
        pipeline = FakePipeline(speeches=(steps,))
        async with asyncio.timeout(600):
            await scenario(Client(pipeline, **limits))
            await pipeline.all_streams_gone()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_simulated(main())


FIRST = (SpokenWords((Word("Hello", 0, 100),)), PcmChunk(tone(100), RATE))
FAILS = End(EndReason.FAILED, BROKEN)


def test_the_first_audio_is_sent_while_the_rest_is_made() -> None:
    async def scenario(client: Client) -> None:
        asking = asyncio.create_task(client.ask())
        await client.got(2)
        assert client.status == 200
        assert client.body == tone(100)
        assert not client.complete
        await asking
        assert client.complete
        assert client.body == tone(200)

    with_client((*FIRST, 60.0, *FIRST, DONE), scenario)


@pytest.mark.parametrize("steps", [(60.0, DONE), (*FIRST, 60.0, DONE)])
def test_a_client_who_leaves_ends_the_work_at_once(steps: Sequence[Step]) -> None:
    async def scenario(client: Client) -> None:
        asking = asyncio.create_task(client.ask())
        await asyncio.sleep(1)
        client.leaves.set()
        await asking
        assert asyncio.get_running_loop().time() < 2
        assert not client.sent or not client.complete

    with_client(steps, scenario)


@pytest.mark.parametrize("leaves", [True, False])
def test_a_body_that_does_not_come(leaves: bool) -> None:
    async def scenario(client: Client) -> None:
        client.body_stops = True
        if leaves:
            client.leaves.set()
            await client.ask()
            assert client.sent == []
        else:
            await client.ask()
            assert client.status == 408
            assert asyncio.get_running_loop().time() == pytest.approx(BODY_SECONDS, abs=1)

    with_client((*FIRST, DONE), scenario)


def test_a_client_who_leaves_while_it_is_written_to() -> None:
    async def scenario(client: Client) -> None:
        client.reads.clear()
        asking = asyncio.create_task(client.ask())
        await asyncio.sleep(1)
        client.leaves.set()
        client.reads.set()
        await asking
        assert client.sent == []

    with_client((*FIRST, DONE), scenario)


def test_a_client_who_reads_nothing_is_given_up() -> None:
    async def scenario(client: Client) -> None:
        asking = asyncio.create_task(client.ask())
        await client.got(2)
        client.reads.clear()
        await asking
        assert not client.complete
        assert 5 <= asyncio.get_running_loop().time() < 7

    with_client((*FIRST, 0.5, *FIRST, DONE), scenario, stalled_seconds=5)


def test_a_request_that_is_given_up_by_the_server() -> None:
    async def scenario(client: Client) -> None:
        asking = asyncio.create_task(client.ask())
        await client.got(2)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    with_client((*FIRST, 60.0, DONE), scenario)


def test_a_failure_behind_the_first_audio_leaves_the_file_incomplete() -> None:
    async def scenario(client: Client) -> None:
        await client.ask()
        assert client.body == tone(100)
        assert not client.complete

    with_client((*FIRST, FAILS), scenario)


def test_a_failure_behind_the_first_event_is_told() -> None:
    async def scenario(client: Client) -> None:
        await client.ask(stream_format="sse")
        delta, error = events(client.body.decode())
        assert delta["type"] == "speech.audio.delta"
        assert error["type"] == "error"
        assert error["error"]["code"] == BROKEN.code

    with_client((*FIRST, FAILS), scenario)


def test_no_more_are_spoken_at_once_than_sessions_are_served() -> None:
    async def scenario(client: Client) -> None:
        other = Client(FakePipeline())
        other.route = client.route
        asking = asyncio.create_task(client.ask())
        await client.got(2)
        await other.ask()
        assert other.status == 503
        assert (b"retry-after", b"1") in other.sent[0]["headers"]
        await asking
        assert client.complete
        again = Client(FakePipeline())
        again.route = client.route
        await again.ask()
        assert again.status == 200

    with_client((*FIRST, 5.0, DONE), scenario, sessions=1)


async def raw_answer(pipeline: FakePipeline) -> bytes:
    """What a whole HTTP server writes before it closes the connection."""
    deployment = parse_deployment({})
    config = uvicorn.Config(Server(deployment, pipeline).app, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        body = json.dumps({**HELLO, "response_format": "pcm"}).encode()
        head = f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = b""
        # To the end of the last chunk, or of the connection.
        while not answer.endswith(b"\r\n0\r\n\r\n") and (more := await reader.read(65536)):
            answer += more
        writer.close()
        server.should_exit = True
        await serving
    return answer


@pytest.mark.parametrize(("end", "complete"), [(DONE, True), (FAILS, False)])
def test_a_short_file_can_be_told_from_a_whole_one(end: End, complete: bool) -> None:
    answer = asyncio.run(raw_answer(FakePipeline(speeches=((*FIRST, end),))))
    assert answer.startswith(b"HTTP/1.1 200")
    assert tone(100) in answer
    assert answer.endswith(b"\r\n0\r\n\r\n") == complete
