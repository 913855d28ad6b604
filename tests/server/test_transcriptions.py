"""Recordings sent to a whole server without a model: the stock client, and one that leaves."""

from __future__ import annotations

import asyncio
import http.client
import io
import wave
import zipfile
from collections.abc import Iterator

import numpy as np
import psutil
import pytest
from openai import AsyncOpenAI, BadRequestError, OpenAI
from openai.types.audio import (
    TranscriptionTextDeltaEvent,
    TranscriptionTextDoneEvent,
    Translation,
)
from tests.support.files import made
from tests.support.server import Server, serving, shipped, wait_quiet, write_deployment

pytestmark = [pytest.mark.server]

LINE = "Tell me something about the sky."
UPLOAD_BYTES = 20_000_000


def wav(seconds: float, rate: int = 16_000) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(bytes(2 * round(seconds * rate)))
    return out.getvalue()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It hears the line in every five seconds, and takes half a second for each."""
    deployment = shipped("silent")
    deployment["limits"]["upload_bytes"] = UPLOAD_BYTES
    deployment["stages"]["recognizer"] |= {"lines": [LINE], "delay_ms": 500}
    folder = tmp_path_factory.mktemp("transcriptions")
    with serving(write_deployment(deployment, folder)) as each:
        yield each


def test_the_stock_client_gets_every_format(server: Server) -> None:
    async def main() -> None:
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x") as client:
            transcriptions = client.audio.transcriptions
            file = ("speech.wav", wav(7))
            plain = await transcriptions.create(file=file, model="whisper-1")
            assert plain.text == f"{LINE} {LINE}"
            text = await transcriptions.create(file=file, model="x", response_format="text")
            assert str(text).strip() == plain.text
            subtitles = await transcriptions.create(file=file, model="x", response_format="srt")
            assert "00:00:05,000 --> 00:00:07,000" in str(subtitles)
            verbose = await transcriptions.create(
                file=file,
                model="x",
                response_format="verbose_json",
                timestamp_granularities=["word", "segment"],
                chunking_strategy={"type": "server_vad", "threshold": 0.5},
            )
            assert verbose.duration == 7
            assert verbose.segments is not None
            assert [each.start for each in verbose.segments] == [0, 5]
            assert verbose.words is not None
            assert verbose.words[0].word == "Tell"
            english = await client.post(
                "/audio/translations",
                body={"model": "x"},
                files={"file": file},
                # As its own method asks, which is marked as deprecated.
                options={"headers": {"Content-Type": "multipart/form-data"}},
                cast_to=Translation,
            )
            assert english.text == plain.text
            with pytest.raises(BadRequestError) as refused:
                await transcriptions.create(file=("a.wav", b"no audio"), model="x")
            assert refused.value.param == "file"

    asyncio.run(main())
    wait_quiet(server)


def test_the_stock_client_streams(server: Server) -> None:
    async def main() -> None:
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x") as client:
            stream = await client.audio.transcriptions.create(
                file=("speech.wav", wav(7)), model="x", stream=True, include=["logprobs"]
            )
            events = [event async for event in stream]
        first, second, done = events
        assert isinstance(first, TranscriptionTextDeltaEvent)
        assert isinstance(second, TranscriptionTextDeltaEvent)
        assert first.delta + second.delta == f"{LINE} {LINE}"
        assert first.logprobs
        assert isinstance(done, TranscriptionTextDoneEvent)
        assert done.type == "transcript.text.done"
        assert done.usage is not None
        assert done.usage.input_tokens == 70

    asyncio.run(main())
    wait_quiet(server)


def test_a_client_that_leaves_leaves_nothing_behind(server: Server) -> None:
    (process,) = [each for each in server.processes() if each.pid == server.pid]
    before = process.num_fds()
    body = (
        b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n'
        b'--x\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n'
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
        + wav(300)
        + b"\r\n--x--\r\n"
    )
    ended = server.sessions()["stages"]["recognizer"]["streams_cancelled"]
    for cut in (len(body), len(body), 5_000_000):
        line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        line.putrequest("POST", "/v1/audio/transcriptions")
        line.putheader("Content-Type", "multipart/form-data; boundary=x")
        line.putheader("Content-Length", str(len(body)))
        line.endheaders()
        line.send(body[:cut])
        if cut == len(body):
            answer = line.getresponse()
            assert answer.status == 200
            assert answer.readline().startswith(b"data: ")
            answer.close()
        line.close()
    told = wait_quiet(server)
    assert told["stages"]["recognizer"]["streams_cancelled"] == ended + 2
    _wait_fds(process, before)


def zipped() -> bytes:
    """So large that it is kept in a temporary file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("speech.wav", wav(60))
    return out.getvalue()


@pytest.mark.parametrize(
    ("file", "code"),
    [
        (made("mp4", "", np.empty((0, 0)), 48_000, video=True), "no_audio"),
        (zipped(), "not_audio"),
        (b"Only text. " * 200_000, "not_audio"),
        (b"", "not_audio"),
        (wav(2)[:44], "no_audio"),
    ],
    ids=["video without sound", "zip", "text", "nothing", "wav without sound"],
)
def test_files_without_sound_are_refused_and_leave_nothing(
    server: Server, file: bytes, code: str
) -> None:
    (process,) = [each for each in server.processes() if each.pid == server.pid]
    before = process.num_fds()
    with OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as client:
        for _ in range(3):
            with pytest.raises(BadRequestError) as refused:
                client.audio.transcriptions.create(file=("speech.wav", file), model="x")
            assert (refused.value.param, refused.value.code) == ("file", code)
            assert refused.value.type == "invalid_request_error"
    wait_quiet(server)
    _wait_fds(process, before)


def _wait_fds(process: psutil.Process, most: int) -> None:
    """Connections and temporary files are closed a moment after the work has ended."""
    for _ in range(200):
        if process.num_fds() <= most + 1:
            return
        psutil.wait_procs([process], timeout=0.05)
    raise AssertionError(f"{process.num_fds()} files are open, {most} were")


def test_too_much_is_refused(server: Server) -> None:
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    line.putrequest("POST", "/v1/audio/transcriptions")
    line.putheader("Content-Type", "multipart/form-data; boundary=x")
    line.putheader("Content-Length", str(2 * UPLOAD_BYTES))
    line.endheaders()
    answer = line.getresponse()
    assert answer.status == 413
    assert b'"param":"file"' in answer.read().replace(b" ", b"")
    line.close()
    wait_quiet(server)
