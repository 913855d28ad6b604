"""A server that is asked: what it is sent, and what is made of its answers."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from antiphon.engines.pipeline import TranscribeRequest
from antiphon.web.commands.errors import CommandError
from antiphon.web.commands.remote import RemoteServer
from antiphon.web.demo_server import Address

ASKED = TranscribeRequest(request_id="x")


@dataclass
class Answer:
    """What the server does, and what it was asked."""

    status: int = 200
    pieces: tuple[bytes, ...] = (b"",)
    """Of a chunked body."""

    complete: bool = True
    hangs: bool = False
    """Whether it says nothing more after the pieces."""

    reads: bool = True
    path: str = ""
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    gone: threading.Event = field(default_factory=threading.Event)
    """Set when the client has closed the connection."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answer: Answer

    def do_GET(self) -> None:
        answer = self.answer
        answer.path, answer.headers = self.path, dict(self.headers.items())
        if answer.reads:
            answer.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(answer.status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in answer.pieces:
            if piece:
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if answer.hangs:
            self.rfile.read(1)
            answer.gone.set()
        if answer.complete:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def answer() -> Answer:
    return Answer()


@pytest.fixture
def server(answer: Answer) -> Iterator[RemoteServer]:
    handler = type("Answering", (Handler,), {"answer": answer})
    with HTTPServer(("127.0.0.1", 0), handler) as served:
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield RemoteServer(Address(f"127.0.0.1:{served.server_port}"), "secret")
        served.shutdown()
        thread.join()


def spoken(server: RemoteServer, **asked: object) -> bytes:
    async def main() -> bytes:
        parts = {"text": "Hello.", "voice": None, "speed": 1.0, **asked}
        return b"".join([pcm async for pcm in server.speak(**parts)])  # type: ignore[arg-type]

    return asyncio.run(main())


def test_speech_is_asked_for_and_comes_as_samples(server: RemoteServer, answer: Answer) -> None:
    # A body is cut anywhere.
    answer.pieces = (b"\x01", b"\x00\x02\x00", b"\x03\x00")

    async def main() -> list[bytes]:
        return [pcm async for pcm in server.speak("Hello.", "joe", 1.5, -20.0)]

    pieces = asyncio.run(main())
    assert b"".join(pieces) == b"\x01\x00\x02\x00\x03\x00"
    assert all(len(piece) % 2 == 0 for piece in pieces)
    assert answer.path == "/v1/audio/speech"
    assert answer.headers["Authorization"] == "Bearer secret"
    asked = json.loads(answer.body)
    assert (asked["input"], asked["voice"], asked["speed"]) == ("Hello.", "joe", 1.5)
    assert asked["loudness"] == -20
    assert asked["response_format"] == "pcm"


def test_a_speech_that_breaks_off_is_an_error(server: RemoteServer, answer: Answer) -> None:
    answer.pieces, answer.complete = (b"\x01\x00",), False
    with pytest.raises(CommandError, match="stopped before the end"):
        spoken(server)


REFUSAL = json.dumps({"error": {"message": "voice: no\nsuch."}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "message", "misused"),
    [
        (400, REFUSAL, "the server refused: voice: no such.", True),
        (401, REFUSAL, "Pass --key or set ANTIPHON_API_KEY", False),
        (404, b"<html>", "that server can't do this: it did not say why", False),
        (503, b'{"error": null}', "the server refused: it did not say why", False),
        (500, b'{"error": {"message": 1}}', "it did not say why", False),
    ],
)
def test_a_refusal_is_passed_on(
    server: RemoteServer, answer: Answer, status: int, body: bytes, message: str, misused: bool
) -> None:
    answer.status, answer.pieces = status, (body,)
    with pytest.raises(CommandError, match="server") as caught:
        spoken(server)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.misused == misused


def test_nobody_there_is_an_error_that_says_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = RemoteServer(Address(f"127.0.0.1:{taken.getsockname()[1]}"), None)
        with pytest.raises(CommandError, match="nobody answers at 127.0.0.1.*antiphon serve"):
            spoken(server)


def test_what_is_no_http_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"SSH-2.0-OpenSSH\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        server = RemoteServer(Address(f"127.0.0.1:{listener.getsockname()[1]}"), None)
        with pytest.raises(CommandError, match="stopped before the end"):
            spoken(server)
        thread.join()


def test_who_is_stopped_does_not_wait_for_the_server(server: RemoteServer, answer: Answer) -> None:
    answer.pieces, answer.hangs = (b"\x01\x00",), True

    async def main() -> None:
        heard = asyncio.Event()

        async def listen() -> None:
            async with aclosing(server.speak("Hello.", None, 1.0)) as pieces:
                async for _ in pieces:
                    heard.set()

        listening = asyncio.create_task(listen())
        await heard.wait()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        assert listening.cancelled()

    asyncio.run(main())
    assert answer.gone.wait(30)


# Transcripts.


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / 'a "b"\r\nc.wav'
    path.write_bytes(bytes(range(256)) * 1000)
    return path


def deltas(server: RemoteServer, path: Path, request: TranscribeRequest = ASKED) -> list[str]:
    async def main() -> list[str]:
        return [each async for each in server.deltas(path, request, lambda share: None)]

    return asyncio.run(main())


def whole(
    server: RemoteServer, path: Path, on_sent: Callable[[float], None] = lambda share: None
) -> bytes:
    request = TranscribeRequest(request_id="x", language="de", words=True)
    return asyncio.run(server.transcribe(path, request, "verbose_json", on_sent))


def test_a_file_is_sent_as_a_form(server: RemoteServer, answer: Answer, recording: Path) -> None:
    answer.pieces = (b'{"text": ', b'"hi"}')
    shares: list[float] = []
    assert whole(server, recording, shares.append) == b'{"text": "hi"}'
    assert shares[-1] == 1
    assert shares == sorted(shares)
    assert answer.path == "/v1/audio/transcriptions"
    parts = answer.body.split(b"\r\n--")
    values = {part.partition(b'name="')[2].partition(b'"')[0]: part for part in parts}
    assert values[b"language"].endswith(b"de")
    assert values[b"response_format"].endswith(b"verbose_json")
    granularities = [part[-7:] for part in parts if b"timestamp_granularities[]" in part]
    assert granularities == [b"segment", b"\n\r\nword"[-7:]]
    head, _, data = values[b"file"].partition(b"\r\n\r\n")
    assert data == recording.read_bytes()
    assert b'filename="a %22b%22%0D%0Ac.wav"' in head


def test_an_answer_that_breaks_off_is_an_error(
    server: RemoteServer, answer: Answer, recording: Path
) -> None:
    answer.pieces, answer.complete = (b'{"te',), False
    with pytest.raises(CommandError, match="stopped before the end"):
        whole(server, recording)


def event(kind: str, **fields: object) -> bytes:
    return b"data: " + json.dumps({"type": kind, **fields}).encode() + b"\n\n"


def test_text_comes_while_it_is_read(server: RemoteServer, answer: Answer, recording: Path) -> None:
    answer.pieces = (
        event("transcript.text.delta", delta="Good"),
        b": a comment\n\ndata: {}\n\n",
        event("transcript.text.delta", delta=" morning.") + event("transcript.text.done"),
    )
    asked = TranscribeRequest(request_id="x", translate=True)
    assert deltas(server, recording, asked) == ["Good", " morning."]
    assert answer.path == "/v1/audio/translations"
    assert b'name="stream"\r\n\r\ntrue' in answer.body


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (b"", "stopped before the end"),
        (event("error", error={"message": "It broke."}), "the server failed: It broke."),
    ],
)
def test_a_text_that_does_not_end_well(
    server: RemoteServer, answer: Answer, recording: Path, last: bytes, message: str
) -> None:
    answer.pieces = (event("transcript.text.delta", delta="Good"), last)
    with pytest.raises(CommandError, match=message):
        deltas(server, recording)


def test_a_refusal_that_comes_before_all_is_sent_is_heard(
    server: RemoteServer, answer: Answer, tmp_path: Path
) -> None:
    # More than sockets hold: sending it can't succeed.
    path = tmp_path / "large.wav"
    path.touch()
    with path.open("r+b") as file:
        file.truncate(64 << 20)
    answer.status, answer.reads = 413, False
    answer.pieces = (b'{"error": {"message": "file: too large."}}',)
    with pytest.raises(CommandError, match="file: too large"):
        deltas(server, path)


def test_a_file_that_is_not_there(server: RemoteServer, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot read .*No such file"):
        deltas(server, tmp_path / "nowhere")


# Voices.


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            {
                "voices": ["joe"],
                "data": [
                    {"name": "joe", "language": "en", "description": "A man", "created_at": 0},
                    {"name": "alloy", "language": "en", "alias_of": "joe"},
                ],
            },
            [("joe", "en", "A man")],
        ),
        ({"voices": ["joe", {"id": "amy"}]}, [("joe", "", ""), ("amy", "", "")]),
    ],
)
def test_voices_are_listed(
    server: RemoteServer, answer: Answer, told: object, expected: list[tuple[str, str, str]]
) -> None:
    answer.pieces = (json.dumps(told).encode(),)
    found = asyncio.run(server.voices())
    assert [(each.name, each.language, each.summary) for each in found] == expected
    assert answer.path == "/v1/audio/voices"


@pytest.mark.parametrize("body", [b"{}", b"[]", b"not JSON", b'{"voices": 5}'])
def test_a_server_that_does_not_tell_its_voices(
    server: RemoteServer, answer: Answer, body: bytes
) -> None:
    answer.pieces = (body,)
    with pytest.raises(CommandError, match="does not list its voices"):
        asyncio.run(server.voices())
