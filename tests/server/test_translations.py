"""What is said in Japanese, written down and translated by a recognizer of many languages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai import BadRequestError, OpenAI
from tests.support.models import fetched
from tests.support.server import Server, wait_quiet
from tests.support.speech import RATE, Speaker, silence, speaking, word_errors

from antiphon.codecs.wav import wav_header

pytestmark = [
    pytest.mark.models,
    pytest.mark.server,
    # The first of them fetches two models.
    pytest.mark.timeout(900),
]

VOICE = "kokoro-ja"
STATION = "駅はどこですか。"
"""Where is the station?"""

WEATHER = "明日の天気はどうですか。雨が降りますか。"
"""How will the weather be tomorrow? Will it rain?"""

ENGLISH = "She bought six apples, three oranges and a bottle of milk."

File = tuple[str, bytes]


def as_file(pcm: bytes) -> File:
    whole = silence(300) + pcm + silence(300)
    return "speech.wav", wav_header(RATE, len(whole)) + whole


@pytest.fixture(scope="module")
def japanese() -> dict[str, File]:
    """Files of what is said in Japanese."""
    fetched(VOICE)
    with speaking(VOICE) as speaker:
        return {text: as_file(speaker.say(text).pcm) for text in (STATION, WEATHER)}


@pytest.fixture
def client(multilingual_server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{multilingual_server.url}/v1", api_key="x", max_retries=0) as client:
        yield client
    wait_quiet(multilingual_server)


def transcribed(client: OpenAI, file: File, **asked: Any) -> Any:
    create: Any = client.audio.transcriptions.create
    return create(file=file, model="whisper-1", response_format="verbose_json", **asked)


def translated(client: OpenAI, file: File, **asked: Any) -> Any:
    # Its method sends a header that the client itself calls deprecated.
    return client.post(
        "/audio/translations",
        body={"model": "whisper-1", "response_format": "verbose_json", **asked},
        files={"file": file},
        options={"headers": {"Content-Type": "multipart/form-data"}},
        cast_to=object,
    )


@pytest.mark.parametrize("asked", [{}, {"language": "ja"}], ids=["found", "told"])
def test_japanese_is_written_in_japanese(
    client: OpenAI, japanese: dict[str, File], asked: dict[str, str]
) -> None:
    told = transcribed(client, japanese[STATION], **asked)
    assert told.language == "ja"
    assert "駅はどこですか" in told.text
    assert "天気" in transcribed(client, japanese[WEATHER], **asked).text


def test_japanese_is_translated(client: OpenAI, japanese: dict[str, File]) -> None:
    told = translated(client, japanese[STATION])
    # The language of a translation is that of its text.
    assert (told["task"], told["language"]) == ("translate", "en")
    assert "where" in told["text"].lower()
    assert "station" in told["text"].lower()
    (segment,) = told["segments"]
    assert segment["text"].strip() == told["text"]
    weather = translated(client, japanese[WEATHER])["text"].lower()
    assert "weather" in weather
    assert "tomorrow" in weather


def test_a_language_that_is_wrong_is_taken_at_its_word(
    client: OpenAI, japanese: dict[str, File]
) -> None:
    told = transcribed(client, japanese[STATION], language="en")
    assert told.language == "en"
    assert told.text.isascii()


def test_a_language_there_is_not_is_refused(client: OpenAI, japanese: dict[str, File]) -> None:
    with pytest.raises(BadRequestError) as refused:
        transcribed(client, japanese[STATION], language="tlh")
    assert refused.value.param == "language"


def test_english_is_known_and_stays_english(client: OpenAI, speaker: Speaker) -> None:
    file = as_file(speaker.say(ENGLISH).pcm)
    told = transcribed(client, file)
    assert told.language == "en"
    assert word_errors(ENGLISH, told.text)[0] <= 1
    assert word_errors(ENGLISH, translated(client, file)["text"])[0] <= 1
