"""The ``openai`` package: its audio resources, by ``AsyncOpenAI`` or, with ``sync``, ``OpenAI``."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from inspect import isawaitable
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI, BadRequestError, NotFoundError, OpenAI

from .harness import (
    BYTES_PER_MS,
    FILES,
    HEARD,
    SPOKEN_MS,
    SPOKEN_TEXT,
    Job,
    Report,
    check,
    run,
)

SAID = {"model": "gpt-4o-mini-tts", "voice": "alloy", "input": SPOKEN_TEXT}


async def done(value: Any) -> Any:
    """Return what a method of either client gives."""
    return await value if isawaitable(value) else value


async def each(values: Any) -> AsyncGenerator[Any, None]:
    """Yield what an iterator of either client gives."""
    if hasattr(values, "__aiter__"):
        async for value in values:
            yield value
    else:
        for value in values:
            yield value


@asynccontextmanager
async def opened(manager: Any) -> AsyncGenerator[Any, None]:
    """Enter a context manager of either client."""
    if hasattr(manager, "__aenter__"):
        async with manager as value:
            yield value
    else:
        with manager as value:
            yield value


class Audio:
    """The audio resources of one client."""

    def __init__(self, client: Any, job: Job, report: Report) -> None:
        self._audio = client.audio
        self._question = Path(job.question)
        self._report = report

    async def use(self) -> None:
        """Try every feature."""
        try_ = self._report.feature
        await try_("speech", self._speech)
        await try_("file formats", self._files)
        await try_("speech events", self._events)
        await try_("transcription", self._transcription)
        await try_("word times", self._word_times)
        await try_("streamed transcript", self._stream)
        await try_("translation", self._translation)
        await try_("refusal", self._refusal)

    async def _speech(self) -> None:
        asked = self._audio.speech.with_streaming_response.create(**SAID, response_format="pcm")
        async with opened(asked) as answer:
            check(answer.headers["content-type"] == "audio/pcm", answer.headers)
            pieces = [piece async for piece in each(answer.iter_bytes())]
        check(len(pieces) > 1, "all came at once")
        check(sum(map(len, pieces)) > SPOKEN_MS * BYTES_PER_MS, "the speech is not whole")

    async def _files(self) -> None:
        for form, begins in FILES.items():
            answer = await done(self._audio.speech.create(**SAID, response_format=form))
            check(answer.content.startswith(begins), f"{form} begins {answer.content[:8]!r}")

    async def _events(self) -> None:
        asked = self._audio.speech.with_streaming_response.create(
            **SAID, response_format="pcm", stream_format="sse"
        )
        async with opened(asked) as answer:
            lines = [line async for line in each(answer.iter_lines()) if line]
        *deltas, last = [json.loads(line.removeprefix("data: ")) for line in lines]
        check({event["type"] for event in deltas} == {"speech.audio.delta"}, deltas[0])
        pcm = b"".join(base64.b64decode(event["audio"]) for event in deltas)
        check(len(pcm) > SPOKEN_MS * BYTES_PER_MS, "the speech is not whole")
        check(last["type"] == "speech.audio.done" and last["usage"]["total_tokens"] > 0, last)

    async def _transcription(self) -> None:
        with self._question.open("rb") as file:
            told = await done(self._audio.transcriptions.create(file=file, model="whisper-1"))
        check(HEARD in told.text.lower(), told)
        check(told.usage.seconds > 1, told.usage)

    async def _word_times(self) -> None:
        told = await done(
            self._audio.transcriptions.create(
                file=self._question,
                model="whisper-1",
                response_format="verbose_json",
                timestamp_granularities=["word", "segment"],
            )
        )
        check([word.word for word in told.words] == told.text.split(), told)
        ends = [time for word in told.words for time in (word.start, word.end)]
        check(ends == sorted(ends) and ends[-1] <= told.duration, ends)
        check(told.segments and told.language == "en", told)

    async def _stream(self) -> None:
        stream = await done(
            self._audio.transcriptions.create(
                file=self._question, model="gpt-4o-mini-transcribe", stream=True
            )
        )
        *deltas, last = [event async for event in each(stream)]
        check({event.type for event in deltas} == {"transcript.text.delta"}, deltas)
        check(last.type == "transcript.text.done", last)
        check("".join(event.delta for event in deltas) == last.text, last)
        check(HEARD in last.text.lower(), last)

    async def _translation(self) -> None:
        told = await done(self._audio.translations.create(file=self._question, model="whisper-1"))
        check(HEARD in told.text.lower(), told)

    async def _refusal(self) -> None:
        with self._refused("voice"):
            await done(self._audio.speech.create(**{**SAID, "voice": "nobody"}))
        with self._refused("file"):
            file = ("speech.wav", b"no audio")
            await done(self._audio.transcriptions.create(file=file, model="whisper-1"))

    def _refused(self, param: str) -> Any:
        return Refused(param)


class Refused:
    """A block that has to end with a refusal of one parameter, or of what is asked for by it."""

    def __init__(self, param: str | None) -> None:
        self._param = param

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        check(isinstance(error, (BadRequestError, NotFoundError)), f"no refusal: {error!r}")
        assert isinstance(error, (BadRequestError, NotFoundError))
        check(error.param == self._param, error)
        return True


async def talk(job: Job, report: Report) -> None:
    """Use one client."""
    kind: Any = OpenAI if "sync" in sys.argv else AsyncOpenAI
    async with opened(kind(base_url=f"{job.url}/v1", api_key="none", max_retries=0)) as client:
        await Audio(client, job, report).use()


if __name__ == "__main__":
    run(talk)
