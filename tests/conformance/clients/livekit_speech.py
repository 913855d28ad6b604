"""The ``livekit-plugins-openai`` package: its ``TTS`` and ``STT``, without a room."""

# The package lies in an environment of its own, where no checker looks.
# mypy: disable-error-code="import-not-found"
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from typing import Any

from livekit import rtc
from livekit.agents import APIConnectOptions, APIStatusError
from livekit.plugins import openai

from .harness import (
    HEARD,
    RATE,
    SPOKEN_MS,
    SPOKEN_TEXT,
    Job,
    Report,
    check,
    read_speech,
    run,
)

ONCE = APIConnectOptions(max_retry=0)
FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
"""The plugin decodes them by itself."""


class Audio:
    """Both services."""

    def __init__(self, job: Job, report: Report) -> None:
        self._about: Any = {"base_url": f"{job.url}/v1", "api_key": "none"}
        self._question = read_speech(job.question)
        self._report = report

    async def use(self) -> None:
        """Try every feature."""
        try_ = self._report.feature
        await try_("speech", self._speech)
        await try_("file formats", self._files)
        await try_("speech events", self._events)
        await try_("transcription", self._transcription)
        await try_("refusal", self._refusal)

    async def _speech(self) -> None:
        # It asks these models for plain audio.
        check(await self._say("tts-1", "pcm") > 1, "all came at once")

    async def _files(self) -> None:
        for form in FORMATS:
            try:
                await self._say("tts-1", form)
            except Exception as error:
                raise AssertionError(f"{form}: {error!r}") from error

    async def _events(self) -> None:
        check(await self._say("gpt-4o-mini-tts", "mp3") > 1, "all came at once")

    async def _say(self, model: str, form: str) -> int:
        """Have a text said; return in how many pieces it came."""
        service = openai.TTS(model=model, response_format=form, **self._about)
        try:
            stream = service.synthesize(SPOKEN_TEXT, conn_options=ONCE)
            frames = [said.frame async for said in stream]
            await stream.aclose()
        finally:
            await service.aclose()
        check({frame.sample_rate for frame in frames} == {RATE}, "another rate")
        ms = sum(frame.duration for frame in frames) * 1000
        check(SPOKEN_MS < ms < 3 * SPOKEN_MS, f"{ms:.0f} ms of audio came")
        return len(frames)

    async def _transcription(self) -> None:
        samples = len(self._question) // 2
        frame = rtc.AudioFrame(self._question, RATE, 1, samples)
        # The second of them asks for verbose_json.
        for model in ("gpt-4o-mini-transcribe", "whisper-1"):
            service = openai.STT(model=model, **self._about)
            event = await service.recognize(frame, conn_options=ONCE)
            (told,) = event.alternatives
            check(HEARD in told.text.lower(), told)
            check(told.language == "en", told)
            await service.aclose()

    async def _refusal(self) -> None:
        service = openai.TTS(model="tts-1", voice="nobody", **self._about)
        try:
            stream = service.synthesize(SPOKEN_TEXT, conn_options=ONCE)
            async for _ in stream:
                pass
        except APIStatusError as error:
            check(error.status_code == 400 and "voice" in error.message, error)
        else:
            raise AssertionError("it was spoken")
        finally:
            await service.aclose()


async def talk(job: Job, report: Report) -> None:
    """Use them."""
    await Audio(job, report).use()


if __name__ == "__main__":
    run(talk)
