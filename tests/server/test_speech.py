"""Text spoken by a whole server, as stock clients ask for it."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
from collections.abc import Iterator
from typing import Any

import av
import pytest
from openai import APIStatusError, AsyncOpenAI, BadRequestError, OpenAI
from tests.support.ebur128 import measured
from tests.support.server import Server, wait_quiet
from tests.support.speech import RATE, Ear, word_error_rate

pytestmark = [pytest.mark.models, pytest.mark.server]

TEXT = "The light of the evening takes a longer way, and so it turns red."
PARAGRAPHS = "Good morning, everybody.\n\nThe weather is fine today."
LONG = f"{TEXT} " * 100
BYTES_A_SECOND = 2 * RATE


@pytest.fixture
def client(scripted_server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{scripted_server.url}/v1", api_key="x", max_retries=0) as client:
        yield client


def say(client: OpenAI, text: str, **asked: Any) -> bytes:
    spoken = client.audio.speech.create(model="tts-1", voice="alloy", input=text, **asked)
    return spoken.read()


def test_a_text_is_heard_as_it_was_written(client: OpenAI, ear: Ear) -> None:
    pcm = say(client, TEXT, response_format="pcm")
    assert 3 < len(pcm) / BYTES_A_SECOND < 8
    assert word_error_rate(TEXT, ear.hear(pcm)) < 0.1


def test_a_pause_lies_between_paragraphs(client: OpenAI, ear: Ear) -> None:
    apart = say(client, PARAGRAPHS, response_format="pcm")
    assert bytes(BYTES_A_SECOND * 6 // 10) in apart
    together = say(client, PARAGRAPHS.replace("\n\n", " "), response_format="pcm")
    assert bytes(BYTES_A_SECOND * 6 // 10) not in together
    assert word_error_rate(PARAGRAPHS, ear.hear(apart)) < 0.1


def test_the_speed_is_that_of_the_speech(client: OpenAI) -> None:
    slow, fast = (len(say(client, TEXT, response_format="pcm", speed=s)) for s in (0.8, 1.6))
    assert 1.6 < slow / fast < 2.4


def test_a_long_text_and_a_word_are_as_loud_as_asked(client: OpenAI) -> None:
    text, word = f"{TEXT} We shall see.\n\n{TEXT}", "Hello."
    asked: Any = {"response_format": "pcm", "extra_body": {"loudness": -20}}
    long = say(client, text, **asked)
    loudness, peak = measured(long)
    assert loudness == pytest.approx(-20, abs=1)
    assert peak <= -1
    first, last = (measured(part)[0] for part in (long[: len(long) // 2], long[len(long) // 2 :]))
    assert first == pytest.approx(last, abs=1.5)
    # A word is over before much is known of it.
    assert measured(say(client, word, **asked))[0] == pytest.approx(-20, abs=3)


def decoded(file: bytes) -> bytes:
    """The samples of a file as any player decodes it: s16le mono at :data:`RATE`."""
    library: Any = av
    to_mono = library.AudioResampler(format="s16", layout="mono", rate=RATE)
    with library.open(io.BytesIO(file)) as container:
        pieces = [each for frame in container.decode(audio=0) for each in to_mono.resample(frame)]
    return b"".join(each.to_ndarray().tobytes() for each in [*pieces, *to_mono.resample(None)])


@pytest.mark.parametrize("form", ["mp3", "opus", "aac", "flac", "wav"])
def test_each_format_has_all_of_the_speech(client: OpenAI, ear: Ear, form: Any) -> None:
    pcm = say(client, TEXT, response_format="pcm")
    sound = decoded(say(client, TEXT, response_format=form))
    assert len(pcm) - 2 <= len(sound) < len(pcm) + BYTES_A_SECOND // 5
    assert word_error_rate(TEXT, ear.hear(sound)) < 0.1


@pytest.mark.parametrize("form", ["mp3", "opus", "aac", "flac", "wav"])
def test_the_first_of_a_file_comes_while_the_rest_is_made(
    client: OpenAI, scripted_server: Server, form: Any
) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=LONG, response_format=form
    ) as spoken:
        assert spoken.headers["transfer-encoding"] == "chunked"
        # Held until the server was asked: an iterator that is let go closes the connection.
        pieces = spoken.iter_bytes(1024)
        assert next(pieces)
        assert scripted_server.sessions()["stages"]["speech"]["running"] == 1
    # Closed without having read on: the work ends.
    told = wait_quiet(scripted_server)
    assert told["stages"]["speech"]["running"] == 0


def test_clients_who_leave_leave_nothing(scripted_server: Server) -> None:
    async def leave(client: AsyncOpenAI, after: int) -> None:
        async with client.audio.speech.with_streaming_response.create(
            model="tts-1", voice="alloy", input=LONG
        ) as spoken:
            async for _ in spoken.iter_bytes(after):
                return

    async def main() -> None:
        async with AsyncOpenAI(base_url=f"{scripted_server.url}/v1", api_key="x") as client:
            await asyncio.gather(*(leave(client, 100 * (n + 1)) for n in range(8)))

    asyncio.run(main())
    wait_quiet(scripted_server)


def test_events_tell_words_and_use(scripted_server: Server, ear: Ear) -> None:
    line = http.client.HTTPConnection("127.0.0.1", scripted_server.port, timeout=30)
    asked = {
        "model": "tts-1",
        "input": TEXT,
        "response_format": "pcm",
        "stream_format": "sse",
        "timestamp_granularities": ["word"],
    }
    line.request("POST", "/v1/audio/speech", json.dumps(asked))
    answer = line.getresponse()
    assert answer.getheader("content-type") == "text/event-stream"
    told = [json.loads(each[6:]) for each in answer.read().decode().split("\n\n") if each]
    line.close()
    words = [word for event in told for word in event.get("words", [])]
    assert " ".join(word["word"] for word in words) == TEXT
    starts = [word["start"] for word in words]
    assert starts == sorted(starts)
    assert told[0]["type"] == "speech.audio.words"
    assert told[-1]["usage"] == {"input_tokens": 14, "output_tokens": 14, "total_tokens": 28}


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"input": " "}, "input"),
        ({"input": "a" * 100_001}, "input"),
        ({"voice": "nobody"}, "voice"),
        ({"instructions": "Whisper."}, "instructions"),
        ({"response_format": "ogg"}, "response_format"),
        ({"speed": 9}, "speed"),
    ],
)
def test_the_client_is_told_what_is_wrong(client: OpenAI, asked: Any, param: str) -> None:
    whole: Any = {"model": "tts-1", "voice": "alloy", "input": "Hello.", **asked}
    with pytest.raises(BadRequestError) as caught:
        client.audio.speech.create(**whole)
    assert caught.value.param == param


def test_ten_megabytes_of_text(client: OpenAI) -> None:
    with pytest.raises(APIStatusError) as caught:
        say(client, "hello " * 2_000_000)
    assert caught.value.status_code == 413
