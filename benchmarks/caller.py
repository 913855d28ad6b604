"""A person on the line, played by the benchmark: a microphone that never stops, and an ear."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from antiphon.engines.catalog import default_cache_root
from antiphon.engines.chunks import Word
from antiphon.engines.speech.speaker import Speaker
from antiphon.realtime.client import Event, RealtimeClient, audio_of

CHUNK_MS = 20
BYTES_PER_MS = 48
SILENCE = b"\0" * (CHUNK_MS * BYTES_PER_MS)


@dataclass(frozen=True)
class Question:
    """Something to say, and when its last word ends."""

    pcm: bytes
    words: tuple[Word, ...]

    @property
    def last_word_ms(self) -> float:
        return self.words[-1].end_ms


async def spoken(texts: Sequence[str]) -> dict[str, Question]:
    """Let our voice say each text once."""
    async with Speaker(default_cache_root(os.environ)) as speaker:
        said = {text: await speaker.say(text) for text in texts}
    return {text: Question(each.pcm, each.words) for text, each in said.items()}


@dataclass
class Heard:
    """What the client noticed of one turn; instants on the loop's clock."""

    word_end_at: float
    stopped_at: float | None = None
    first_audio_at: float | None = None
    audio_bytes: int = 0
    metrics: Event | None = None
    response_id: str | None = None
    stale_bytes: int = 0
    """Audio of an older response that came in this turn."""

    @property
    def latency_ms(self) -> float:
        assert self.first_audio_at is not None
        return (self.first_audio_at - self.word_end_at) * 1000


@dataclass
class Caller:
    """Sends audio in real time, 20 ms at a time, silence where there is nothing to say."""

    client: RealtimeClient
    hears: Callable[[Event], None] = lambda event: None
    """Is told of each event as it comes."""

    _next: tuple[bytes, asyncio.Future[float]] | None = None
    _events: asyncio.Queue[tuple[float, Event]] = field(
        default_factory=lambda: asyncio.Queue[tuple[float, Event]]()
    )

    @contextlib.asynccontextmanager
    async def on_the_line(self) -> AsyncGenerator[None]:
        """Keep microphone and ear open."""
        tasks = [asyncio.create_task(self._speak()), asyncio.create_task(self._listen())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def say(self, question: Question) -> float:
        """Start to say something; return when its last word will end."""
        began: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._next = (question.pcm, began)
        return await began + question.last_word_ms / 1000

    async def turn(self, question: Question) -> Heard:
        """Say something and hear the whole answer."""
        heard = Heard(await self.say(question))
        while True:
            at, event = await self.next_event()
            self._note(heard, at, event)
            if event["type"] == "response.done":
                return heard

    async def next_event(self) -> tuple[float, Event]:
        """Return the next event and when it came; fails when none comes for long."""
        async with asyncio.timeout(60):
            return await self._events.get()

    def _note(self, heard: Heard, at: float, event: Event) -> None:
        match event["type"]:
            case "input_audio_buffer.speech_stopped":
                heard.stopped_at = at
            case "response.created":
                heard.response_id = event["response"]["id"]
            case "response.output_audio.delta":
                if heard.first_audio_at is None:
                    heard.first_audio_at = at
                heard.audio_bytes += len(audio_of(event))
            case "antiphon.metrics":
                heard.metrics = event
            case "error":
                raise RuntimeError(event["error"]["message"])
            case _:
                pass

    async def _speak(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        rest = b""
        while True:
            if not rest and self._next is not None:
                (rest, began), self._next = self._next, None
                began.set_result(due)
            chunk, rest = rest[: len(SILENCE)].ljust(len(SILENCE), b"\0"), rest[len(SILENCE) :]
            # A microphone hands over a chunk when its last sample was heard.
            due += CHUNK_MS / 1000
            await asyncio.sleep(due - loop.time())
            await self.client.append(chunk)

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        async for event in self.client:
            self.hears(event)
            self._events.put_nowait((loop.time(), event))
