"""Transcriptions over HTTP, in memory: forms, formats, refusals, and what is left behind."""

from __future__ import annotations

import asyncio
import io
import json
import wave
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from starlette.requests import Request
from tests.support.fakes import FakePipeline
from tests.support.waiting import until

from antiphon.engines.chunks import End, EndReason, Segment, StageError, Word
from antiphon.engines.deployment import Limits, parse_deployment
from antiphon.engines.pipeline import TranscribeRequest
from antiphon.web import transcriptions, uploads
from antiphon.web.app import Server
from antiphon.web.transcriptions import AT_ONCE, TranscriptionRoutes

from .visitor import Visitor

Json = dict[str, Any]

ROUTE = "/v1/audio/transcriptions"
TRANSLATE = "/v1/audio/translations"
LIMIT = 400_000
LIMITS = Limits(upload_bytes=LIMIT)

ONE = Segment(text=" One.", start_ms=0, end_ms=900, words=(Word("One.", 0, 900),), language="en")
TWO = Segment(text=" Two.", start_ms=1000, end_ms=1900, tokens=(1, 2), language="en")


def wav(seconds: float = 1.0, rate: int = 48_000, channels: int = 2) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(b"\x10\x00" * channels * round(seconds * rate))
    return out.getvalue()


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("speech.wav", wav(0.1))
    return out.getvalue()


def visitor(pipeline: FakePipeline) -> Visitor:
    data = {"model": "fake-model", "limits": {"upload_bytes": LIMIT}}
    return Visitor(Server(parse_deployment(data), pipeline).app)


@pytest.fixture
def pipeline() -> FakePipeline:
    return FakePipeline(recordings=((ONE, TWO),))


@pytest.fixture
def client(pipeline: FakePipeline) -> Iterator[Visitor]:
    with visitor(pipeline) as each:
        yield each
        assert pipeline.open_streams == 0


def post(client: Visitor, path: str = ROUTE, file: Any = None, **fields: Any) -> Any:
    """``file``: bytes; a second of sound if not given."""
    data = {"model": "whisper-1", **fields}
    files = {"file": ("speech.wav", wav() if file is None else file)}
    return client.post(path, data=data, files=files)


def refused(answer: Any, status: int = 400) -> Json:
    assert answer.status_code == status, answer.text
    error: Json = answer.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    return error


def asked(pipeline: FakePipeline) -> TranscribeRequest:
    return pipeline.of(TranscribeRequest)[-1]


def test_json_is_the_default(client: Visitor, pipeline: FakePipeline) -> None:
    answer = post(client)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"text": "One. Two.", "usage": {"type": "duration", "seconds": 1.0}}
    request = asked(pipeline)
    assert (request.language, request.prompt, request.translate) == (None, "", False)
    assert (request.words, request.logprobs, request.temperature) == (False, False, 0)


def test_stereo_of_48_khz_comes_as_mono_of_16_khz(client: Visitor, pipeline: FakePipeline) -> None:
    assert post(client, file=wav(1.5)).status_code == 200
    assert {each.rate for each in pipeline.recorded} == {16_000}
    assert sum(len(each.pcm) for each in pipeline.recorded) == pytest.approx(48_000, abs=4)
    assert max(len(each.pcm) for each in pipeline.recorded) <= 32_000


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("text", "One. Two.\n"),
        ("srt", "1\n00:00:00,000 --> 00:00:00,900\nOne.\n\n2\n"),
        ("vtt", "WEBVTT\n\n00:00:00.000 --> 00:00:00.900\nOne.\n\n"),
    ],
)
def test_plain_formats_are_plain(client: Visitor, form: str, body: str) -> None:
    answer = post(client, response_format=form)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text.startswith(body)


def test_all_fields_arrive(client: Visitor, pipeline: FakePipeline) -> None:
    fields: Json = {
        "languages[]": "de",
        "prompt": "Names:",
        "keywords[]": ["Ada", "Grace"],
        "temperature": "0.4",
        "response_format": "verbose_json",
        "timestamp_granularities[]": ["word", "segment"],
        "chunking_strategy": "auto",
    }
    shown = post(client, **fields).json()
    request = asked(pipeline)
    assert (request.language, request.prompt) == ("de", "Names: Ada, Grace")
    assert (request.words, request.temperature) == (True, 0.4)
    assert shown["words"] == [{"word": "One.", "start": 0, "end": 0.9}]
    assert [each["text"] for each in shown["segments"]] == [" One.", " Two."]
    assert "words" not in post(client, response_format="verbose_json").json()
    shown = post(client, response_format="verbose_json", timestamp_granularities="word").json()
    assert "segments" not in shown


@pytest.mark.parametrize(
    "fields",
    [
        {"chunking_strategy": '{"type": "server_vad", "threshold": 0.4}'},
        {"chunking_strategy[type]": "server_vad", "chunking_strategy[silence_duration_ms]": "300"},
        {"include[]": "logprobs"},
        {"include": "logprobs"},
        {"language": "", "prompt": "", "stream": "false", "known_speaker_names[]": ""},
        {"something": "else"},
    ],
)
def test_what_clients_send_is_taken(client: Visitor, fields: Json) -> None:
    assert post(client, **fields).status_code == 200


def test_a_translation_is_asked_for(client: Visitor, pipeline: FakePipeline) -> None:
    answer = post(client, TRANSLATE, response_format="verbose_json", language="de")
    assert answer.json()["task"] == "translate"
    assert asked(pipeline).translate
    assert asked(pipeline).language is None


def events(text: str) -> list[Json]:
    lines = [line for line in text.split("\n\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line[6:]) for line in lines]


def test_a_stream_tells_segments_and_then_all(client: Visitor) -> None:
    answer = post(client, stream="true", **{"include[]": "logprobs"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "content-length" not in answer.headers
    first, second, done = events(answer.text)
    assert first == {"type": "transcript.text.delta", "delta": "One.", "logprobs": []}
    assert second["delta"] == " Two."
    assert (done["type"], done["text"]) == ("transcript.text.done", "One. Two.")
    assert done["usage"]["input_tokens"] == 10


def test_a_stream_of_silence_is_done_at_once() -> None:
    pipeline = FakePipeline(recordings=((),))
    with visitor(pipeline) as client:
        (done,) = events(post(client, stream="1").text)
        assert done["text"] == ""
        assert post(client).json()["text"] == ""


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": ""}, "model"),
        ({"response_format": "xml"}, "response_format"),
        ({"response_format": "diarized_json"}, "response_format"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": "1.5"}, "temperature"),
        ({"temperature": "nan"}, "temperature"),
        ({"stream": "perhaps"}, "stream"),
        ({"stream": "true", "response_format": "srt"}, "stream"),
        ({"include[]": "everything"}, "include"),
        ({"include[]": "logprobs", "response_format": "text"}, "include"),
        ({"timestamp_granularities[]": "word"}, "timestamp_granularities"),
        (
            {"timestamp_granularities[]": "letter", "response_format": "verbose_json"},
            "timestamp_granularities",
        ),
        ({"languages[]": ["de", "en"]}, "languages"),
        ({"known_speaker_names[]": "Ada"}, "known_speaker_names"),
        ({"known_speaker_references[]": "data:,"}, "known_speaker_references"),
        ({"chunking_strategy": "always"}, "chunking_strategy"),
        ({"chunking_strategy": "{"}, "chunking_strategy"),
        ({"chunking_strategy": "[" * 100_000}, "chunking_strategy"),
        ({"chunking_strategy": '{"type": "x"}'}, "chunking_strategy.type"),
        (
            {"chunking_strategy[type]": "server_vad", "chunking_strategy[threshold]": "2"},
            "chunking_strategy.threshold",
        ),
    ],
)
def test_wrong_fields_are_refused_by_name(
    client: Visitor, pipeline: FakePipeline, fields: Json, param: str
) -> None:
    error = refused(post(client, **fields))
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert not pipeline.requests


def test_words_of_a_translation_have_no_times(client: Visitor) -> None:
    fields = {"response_format": "verbose_json", "timestamp_granularities[]": "word"}
    error = refused(post(client, TRANSLATE, **fields))
    assert error["param"] == "timestamp_granularities"


@pytest.mark.parametrize(
    ("file", "code"),
    [(b"", "not_audio"), (b"Just text. " * 500, "not_audio"), (zipped(), "not_audio")],
    ids=["empty", "text", "zip"],
)
@pytest.mark.parametrize("stream", ["true", "false"])
def test_what_is_no_audio_is_refused(client: Visitor, file: bytes, code: str, stream: str) -> None:
    error = refused(post(client, file=file, stream=stream))
    assert (error["param"], error["code"]) == ("file", code)


def test_a_missing_file_and_one_that_is_text_are_refused(client: Visitor) -> None:
    other = {"other": ("x", b"x")}
    error = refused(client.post(ROUTE, data={"model": "m"}, files=other))
    assert (error["param"], error["code"]) == ("file", "missing_required_parameter")
    error = refused(client.post(ROUTE, data={"model": "m", "file": "text"}, files=other))
    assert error["param"] == "file"
    assert "got text" in error["message"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{}", "application/json"),
        (b"", ""),
        (b"model=x", "application/x-www-form-urlencoded"),
        (b"--x\r\nbroken", "multipart/form-data; boundary=x"),
        (b"--x", "multipart/form-data"),
        (
            b"--x\r\nContent-Disposition: form-data\r\n\r\n1\r\n--x--",
            "multipart/form-data; boundary=x",
        ),
    ],
)
def test_other_bodies_are_refused(client: Visitor, body: bytes, kind: str) -> None:
    refused(client.post(ROUTE, content=body, headers={"content-type": kind}))


def test_too_much_is_refused_whether_it_says_so_or_not(client: Visitor) -> None:
    large = bytes(LIMIT + uploads.FIELD_BYTES + 1)
    error = refused(post(client, file=large), 413)
    assert (error["param"], error["code"]) == ("file", "request_too_large")
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'

    def pieces() -> Iterator[bytes]:
        yield head
        for start in range(0, len(large), 65_536):
            yield large[start : start + 65_536]

    kind = {"content-type": "multipart/form-data; boundary=x"}
    refused(client.post(ROUTE, content=pieces(), headers=kind), 413)
    many = {f"field{number}": "x" for number in range(uploads.FIELDS + 2)}
    refused(post(client, **many))
    refused(post(client, prompt="x" * (uploads.FIELD_BYTES + 1)))


@pytest.mark.parametrize(
    ("failure", "status", "param"),
    [
        (StageError("unsupported_language", "language: no"), 400, "language"),
        (StageError("cannot_translate", "English only"), 400, "model"),
        (StageError("overloaded", "busy", 1500), 503, None),
        (StageError("broken", "The part is broken."), 500, None),
    ],
)
@pytest.mark.parametrize("stream", ["true", "false"])
def test_failures_of_the_recognizer_have_their_status(
    failure: StageError, status: int, param: str | None, stream: str
) -> None:
    pipeline = FakePipeline()
    pipeline.refused["transcribe"] = failure
    with visitor(pipeline) as client:
        answer = post(client, stream=stream)
        error = refused(answer, status)
        assert (error["code"], error["param"]) == (failure.code, param)
        assert answer.headers.get("retry-after") == ("2" if status == 503 else None)


def test_a_failure_in_the_middle_is_told() -> None:
    end = End(EndReason.FAILED, StageError("broken", "The part is broken."))
    pipeline = FakePipeline(recordings=((ONE, end),))
    with visitor(pipeline) as client:
        assert refused(post(client), 500)["code"] == "broken"
        first, last = events(post(client, stream="true").text)
        assert first["delta"] == "One."
        assert (last["type"], last["error"]["code"]) == ("error", "broken")
        assert pipeline.open_streams == 0


def test_while_models_load_it_is_refused() -> None:
    with visitor(FakePipeline(ready=False)) as client:
        answer = post(client)
        assert refused(answer, 503)["code"] == "server_starting"
        assert answer.headers["retry-after"] == "1"


def form(fields: Json, file: bytes) -> bytes:
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    return b"".join(parts) + head + file + b"\r\n--x--\r\n"


class Caller:
    """One request at the level of ASGI, whose client can leave or read nothing."""

    def __init__(self, body: bytes, *, whole: bool = True) -> None:
        self.sent: list[Any] = []
        self.left = asyncio.Event()
        self.takes = 1_000_000
        """Messages that are read; then none any more."""

        self._messages = [{"type": "http.request", "body": body, "more_body": not whole}]
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": ROUTE,
            "query_string": b"",
            "headers": [(b"content-type", b"multipart/form-data; boundary=x")],
        }

    async def receive(self) -> Any:
        if self._messages:
            return self._messages.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        if len(self.sent) > self.takes:
            await asyncio.Event().wait()

    async def call(self, routes: TranscriptionRoutes) -> None:
        (route, _) = routes.routes()
        response = await route.endpoint(Request(self.scope, self.receive, self.send))
        await response(self.scope, self.receive, self.send)

    @property
    def text(self) -> str:
        return b"".join(each.get("body", b"") for each in self.sent).decode()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[uploads.Upload]:
    """The forms that were read."""
    kept: list[uploads.Upload] = []
    read = uploads.read_upload

    async def keep(request: Request, limit: int) -> uploads.Upload:
        kept.append(await read(request, limit))
        return kept[-1]

    monkeypatch.setattr(transcriptions, "read_upload", keep)
    return kept


def is_closed(upload: uploads.Upload) -> bool:
    files = upload._files  # pyright: ignore[reportPrivateUsage]
    return bool(files) and all(file.closed for file in files)


def leave(
    steps: tuple[Any, ...],
    stream: bool,
    when: Callable[[Caller, FakePipeline], bool],
    opened: list[uploads.Upload],
    *,
    stalls: bool = False,
) -> Caller:
    """Call, leave once ``when`` holds; nothing may be left behind."""

    async def main() -> Caller:
        pipeline = FakePipeline(recordings=(steps,))
        routes = TranscriptionRoutes(pipeline, LIMITS)
        caller = Caller(form({"model": "m", "stream": str(stream).lower()}, wav(3)))
        if stalls:
            caller.takes = 0
        task = asyncio.create_task(caller.call(routes))
        await until(lambda: when(caller, pipeline))
        caller.left.set()
        async with asyncio.timeout(10):
            await task
        await pipeline.all_streams_gone()
        assert routes.running == 0
        assert all(is_closed(each) for each in opened)
        assert len(opened) == 1
        return caller

    return asyncio.run(main())


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_stops_the_work(stream: bool, opened: list[uploads.Upload]) -> None:
    never = asyncio.Event()
    caller = leave((never,), stream, lambda _, pipeline: bool(pipeline.recorded), opened)
    assert all(each.get("status") == 499 for each in caller.sent if "status" in each)


def test_a_client_that_leaves_a_stream_stops_it(opened: list[uploads.Upload]) -> None:
    never = asyncio.Event()
    caller = leave((ONE, never), True, lambda caller, _: "One." in caller.text, opened)
    assert "transcript.text.done" not in caller.text


def test_a_client_that_reads_nothing_and_leaves_stops_it(opened: list[uploads.Upload]) -> None:
    leave((ONE, TWO), True, lambda caller, _: bool(caller.sent), opened, stalls=True)


@pytest.mark.parametrize("takes", [0, 1, 2])
def test_a_client_that_takes_nothing_is_given_up(takes: int, opened: list[uploads.Upload]) -> None:
    limits = msgspec.structs.replace(LIMITS, stalled_seconds=0.01)

    async def main() -> None:
        pipeline = FakePipeline(recordings=((ONE, TWO),))
        routes = TranscriptionRoutes(pipeline, limits)
        caller = Caller(form({"model": "m", "stream": "true"}, wav()))
        caller.takes = takes
        async with asyncio.timeout(10):
            await caller.call(routes)
        await pipeline.all_streams_gone()
        assert routes.running == 0
        assert is_closed(opened[0])

    asyncio.run(main())


def test_a_stream_comes_while_the_file_is_read(opened: list[uploads.Upload]) -> None:
    async def main() -> None:
        go = asyncio.Event()
        pipeline = FakePipeline(recordings=((ONE, go, TWO),))
        routes = TranscriptionRoutes(pipeline, LIMITS)
        caller = Caller(form({"model": "m", "stream": "true"}, wav(3)))
        task = asyncio.create_task(caller.call(routes))
        await until(lambda: "One." in caller.text)
        assert len(pipeline.recorded) < 3
        go.set()
        async with asyncio.timeout(10):
            await task
        assert [each["type"] for each in events(caller.text)] == [
            "transcript.text.delta",
            "transcript.text.delta",
            "transcript.text.done",
        ]

    asyncio.run(main())


def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "IDLE_SECONDS", 0.01)

    async def main() -> None:
        routes = TranscriptionRoutes(FakePipeline(), LIMITS)
        caller = Caller(form({"model": "m"}, wav())[:1000], whole=False)
        async with asyncio.timeout(10):
            await caller.call(routes)
        assert caller.sent[0]["status"] == 408
        assert routes.running == 0

    asyncio.run(main())


def test_a_client_that_leaves_while_it_uploads_leaves_nothing() -> None:
    async def main() -> None:
        routes = TranscriptionRoutes(FakePipeline(), LIMITS)
        caller = Caller(form({"model": "m"}, wav())[:1000], whole=False)
        caller.left.set()
        async with asyncio.timeout(10):
            await caller.call(routes)
        assert routes.running == 0

    asyncio.run(main())


def test_more_than_so_many_at_once_are_refused() -> None:
    async def main() -> None:
        go = asyncio.Event()
        pipeline = FakePipeline(recordings=((go, ONE),))
        routes = TranscriptionRoutes(pipeline, LIMITS)
        body = form({"model": "m"}, wav())
        tasks = [asyncio.create_task(Caller(body).call(routes)) for _ in range(AT_ONCE)]
        await until(lambda: routes.running == AT_ONCE)
        over = Caller(body)
        await over.call(routes)
        assert over.sent[0]["status"] == 503
        go.set()
        async with asyncio.timeout(10):
            await asyncio.gather(*tasks)
        again = Caller(body)
        await again.call(routes)
        assert again.sent[0]["status"] == 200

    asyncio.run(main())
