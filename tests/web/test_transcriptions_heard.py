"""Files of many kinds, said by the real voice and heard by the real recognizer over HTTP."""

from __future__ import annotations

import io
import os
import wave
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.fakes import FakePipeline
from tests.support.files import KINDS, made
from tests.support.speech import word_errors

from antiphon.codecs.encode import new_encoder
from antiphon.codecs.pcm import from_float
from antiphon.codecs.resample import resample
from antiphon.engines.catalog import default_cache_root
from antiphon.engines.chunks import Samples
from antiphon.engines.deployment import WhisperConfig, parse_deployment
from antiphon.engines.pipeline import TranscribeRequest, Transcription
from antiphon.engines.speech.recognizer import WhisperStage
from antiphon.web.app import Server

from .visitor import Visitor

pytestmark = [pytest.mark.models]

TEXT = "She bought six apples, three oranges and a bottle of milk."
ROUTE = "/v1/audio/transcriptions"


class Hearing(FakePipeline):
    """Fake but for its recognizer."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = WhisperStage(WhisperConfig(), default_cache_root(os.environ))

    async def start(self) -> None:
        await self.stage.start()
        self._state = "ready"

    async def close(self) -> None:
        await self.stage.close()

    def transcribe(self, request: TranscribeRequest) -> Transcription:
        return self.stage.transcribe(request)


@pytest.fixture(scope="module")
def client() -> Iterator[Visitor]:
    server = Server(parse_deployment({"model": "fake-model"}), Hearing())
    started: list[str | None] = []
    server.on_started = started.append
    with Visitor(server.app) as each:
        while not started:
            assert each.get("/healthz").status_code == 200
        yield each


def stereo(samples: Samples, rate: int = 48_000) -> bytes:
    """A WAV file whose second channel is softer."""
    mono = np.frombuffer(resample(from_float(samples), 24_000, rate), "<i2")
    both = np.stack([mono, mono // 2], axis=1)
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(both.astype("<i2").tobytes())
    return out.getvalue()


def encoded(form: str, samples: Samples) -> bytes:
    encoder = new_encoder(form)
    return encoder.feed(from_float(samples)) + encoder.finish()


def said(samples: Samples) -> Samples:
    return np.pad(samples, (12_000, 12_000))


def hear(client: Visitor, file: bytes, **fields: Any) -> Any:
    files = {"file": ("speech", file)}
    answer = client.post(ROUTE, data={"model": "whisper-1", **fields}, files=files)
    assert answer.status_code == 200, answer.text
    return answer


def test_stereo_of_48_khz_is_understood(client: Visitor, spoken: Callable[[str], Samples]) -> None:
    samples = said(spoken(TEXT))
    fields = {"response_format": "verbose_json", "timestamp_granularities[]": ["word", "segment"]}
    shown = hear(client, stereo(samples), **fields).json()
    assert word_errors(TEXT, shown["text"])[0] <= 1
    assert shown["duration"] == pytest.approx(len(samples) / 24_000, abs=0.01)
    loud = np.flatnonzero(np.abs(samples) > 0.02) / 24_000
    assert shown["words"][0]["start"] == pytest.approx(loud[0], abs=0.3)
    assert shown["words"][-1]["end"] == pytest.approx(loud[-1], abs=0.3)
    assert [each["word"] for each in shown["words"]] == shown["text"].split()


@pytest.mark.parametrize("text", ["Stop. Look. Listen.", "The end."])
def test_no_word_is_lost_where_a_file_has_no_silence(
    client: Visitor, spoken: Callable[[str], Samples], text: str
) -> None:
    samples = spoken(text)
    loud = np.flatnonzero(np.abs(samples) > 0.02)
    cut = samples[loud[0] : loud[-1]]
    fields = {"response_format": "verbose_json", "timestamp_granularities[]": ["word"]}
    shown = hear(client, encoded("wav", cut), **fields).json()
    assert word_errors(text, shown["text"])[0] == 0
    times = [time for word in shown["words"] for time in (word["start"], word["end"])]
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] <= shown["duration"]


@pytest.mark.parametrize("form", ["mp3", "opus", "aac", "flac", "wav"])
def test_files_of_all_kinds_are_understood(
    client: Visitor, spoken: Callable[[str], Samples], form: str
) -> None:
    shown = hear(client, encoded(form, said(spoken(TEXT)))).json()
    assert word_errors(TEXT, shown["text"])[0] <= 1


@pytest.mark.parametrize(
    ("kind", "rate", "channels"),
    [
        ("wav", 8_000, 1),
        ("wav", 44_100, 2),
        ("m4a", 44_100, 2),
        ("webm", 48_000, 1),
        ("ogg-opus", 48_000, 2),
        ("mp3", 22_050, 1),
    ],
)
def test_rates_and_files_of_other_programs_are_understood(
    client: Visitor, spoken: Callable[[str], Samples], kind: str, rate: int, channels: int
) -> None:
    mono = np.frombuffer(resample(from_float(said(spoken(TEXT))), 24_000, rate), "<i2")
    samples = np.tile(mono / 32_768, (channels, 1))
    shown = hear(client, made(*KINDS[kind], samples, rate), response_format="verbose_json").json()
    assert word_errors(TEXT, shown["text"])[0] <= 1
    # A codec's last frame may be longer than the sound.
    assert shown["duration"] == pytest.approx(len(mono) / rate, abs=0.1)


def test_a_truncated_file_gives_what_is_there(
    client: Visitor, spoken: Callable[[str], Samples]
) -> None:
    file = encoded("mp3", said(spoken(TEXT)))
    text = hear(client, file[: len(file) // 2], response_format="text").text
    assert "apples" in text
    assert "milk" not in text


def test_silence_has_no_text(client: Visitor) -> None:
    silent = stereo(np.zeros(48_000, np.float32))
    assert hear(client, silent).json()["text"] == ""
    assert hear(client, silent, response_format="srt").text == ""
