"""What the scripts share. Each runs in its client's environment: only the standard library."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
import wave
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

STEP_SECONDS = 90.0
"""Longest try of one feature."""

HEARD_MS = 1000
"""A reply sounds so long before it is spoken over."""

RATE = 24_000
BYTES_PER_MS = 2 * RATE // 1000
PIECE_MS = 40

INSTRUCTIONS = "You are a friendly guide. Answer in one or two sentences."
WRITTEN_QUESTION = "What is the capital of Italy?"
TOOL_QUESTION = "What is the weather in Paris?"
LONG_QUESTION = "Tell me a long story about the sky, with many details."

TOOL_NAME = "get_weather"
TOOL_DESCRIPTION = "Tells the weather of a city."
TOOL_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 40}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = "The weather in Paris is rainy today."

SPOKEN_TEXT = "The light of the evening takes a longer way, and so it turns red."
SPOKEN_MS = 3000
"""It takes longer to say."""

HEARD = "france"
"""A word of the question that is asked aloud."""

FILES = {
    "mp3": b"\xff",
    "opus": b"OggS",
    "aac": b"\xff\xf1",
    "flac": b"fLaC",
    "wav": b"RIFF",
}
"""How files of speech begin."""


@dataclass(frozen=True)
class Job:
    """What the test hands over."""

    url: str
    """Address of the server, ``http://...`` without a path."""

    model: str
    scripted: bool
    question: str
    """A WAV file."""

    interjection: str
    """Another, said over a reply."""

    @property
    def ws_url(self) -> str:
        """Address of the realtime socket."""
        return f"ws{self.url.removeprefix('http')}/v1/realtime"


def read_job() -> Job:
    """Return the job of the command line's last argument."""
    return Job(**json.loads(sys.argv[-1]))


def read_speech(path: str) -> bytes:
    """Return the 24 kHz s16le audio of a WAV file."""
    with wave.open(path, "rb") as file:
        return file.readframes(file.getnframes())


def check(condition: object, why: object) -> None:
    """Raise where the condition does not hold."""
    if not condition:
        raise AssertionError(str(why))


def check_done(job: Job, status: str | None, details: Any) -> None:
    """Raise where a reply did not come to its end.

    The embedded model may ramble on until it reaches its limit.
    """
    check(status in (("completed",) if job.scripted else ("completed", "incomplete")), details)


class Report:
    """What was tried and how it went; whatever the client complains about is an error."""

    def __init__(self) -> None:
        self.features: dict[str, str] = {}
        self.errors: list[str] = []

    def error(self, what: object) -> None:
        """Keep an error, an unknown event or a parse failure."""
        self.errors.append(str(what)[:2000])

    @contextmanager
    def part(self, name: str) -> Generator[None, None, None]:
        """Try a feature that is part of one being tried; a failure is that one's too."""
        self.features[name] = "not reached"
        try:
            yield
        except Exception as error:
            self.features[name] = _told(error)
            raise
        self.features[name] = "ok"

    async def feature(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Try a feature; what it raises is why it fails."""
        try:
            async with asyncio.timeout(STEP_SECONDS):
                await work()
        except Exception as error:
            self.features[name] = _told(error)
        else:
            self.features[name] = "ok"

    def print(self) -> None:
        """Print it as the last line of the output."""
        print("\n" + json.dumps({"features": self.features, "errors": self.errors}), flush=True)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2000]


class _Complaints(logging.Handler):
    """Every warning of a library is an error of the report."""

    def __init__(self, report: Report, ignored: tuple[str, ...]) -> None:
        super().__init__(logging.WARNING)
        self._report = report
        self._ignored = ignored

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.name} {record.levelname}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1]:
            text += f" ({_told(record.exc_info[1])})"
        if not any(part in text for part in self._ignored):
            self._report.error(text)


def run(talk: Callable[[Job, Report], Awaitable[None]], ignored: tuple[str, ...] = ()) -> None:
    """Run a script, print its report and end the process.

    Args:
        talk: Holds the conversation and fills the report.
        ignored: Parts of log records that say nothing about the server.
    """
    report = Report()
    logging.getLogger().addHandler(_Complaints(report, ignored))
    logging.captureWarnings(False)

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: report.error(
                f"loop: {context.get('exception') or context['message']}"
            )
        )
        await talk(read_job(), report)

    try:
        asyncio.run(main())
    except Exception as error:
        report.error(_told(error))
    report.print()
    # Threads of a library may still run.
    os._exit(0)


class Microphone:
    """Open all the time: silence, and what is said into it, at the pace of the clock.

    Args:
        send: Takes a piece of 40 ms of 24 kHz s16le audio.
    """

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._said = bytearray()

    def say(self, pcm: bytes) -> None:
        """Say something after what is still being said."""
        self._said += pcm

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Microphone, None]:
        """Stream until the end of the block."""
        task = asyncio.create_task(self._stream())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _stream(self) -> None:
        size = PIECE_MS * BYTES_PER_MS
        due = time.monotonic()
        while True:
            piece = bytes(self._said[:size])
            del self._said[:size]
            await self._send(piece.ljust(size, b"\0"))
            # By the clock: a late piece must not slow the voice down.
            due += PIECE_MS / 1000
            await asyncio.sleep(max(0.0, due - time.monotonic()))


class Arrivals:
    """Things that came, in order, and waiting for those to come."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._changed = asyncio.Event()

    def add(self, thing: Any) -> None:
        """Keep what came."""
        self.all.append(thing)
        self._changed.set()

    def since(self, start: int, fits: Callable[[Any], object]) -> list[Any]:
        """Return what came from an index on and fits."""
        return [thing for thing in self.all[start:] if fits(thing)]

    async def first(self, start: int, fits: Callable[[Any], object], what: str) -> Any:
        """Wait for the first thing from an index on that fits.

        Raises:
            TimeoutError: none came; the message says what did.
        """
        try:
            async with asyncio.timeout(STEP_SECONDS - 5):
                while True:
                    for index in range(start, len(self.all)):
                        if fits(self.all[index]):
                            return self.all[index]
                    start = len(self.all)
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"no {what} came") from None
