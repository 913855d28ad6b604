"""The people of a load: each speaks, listens to the answer in real time, and speaks again."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from benchmarks.caller import Caller, Question

from antiphon.realtime.client import RealtimeClient, open_session
from antiphon.realtime.playback import Listener

PAUSE_S = 0.6
"""From the end of an answer to the next question: a polite pause."""

SILENCE_MS = 300
"""After which a turn is over."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and what was heard of its answer."""

    latency_ms: float
    """From the end of the last word to the first sound; infinite where none came."""

    ttfa_ms: float
    """From the server's notice that the turn is over to the first sound."""

    audio_ms: float
    underruns: int
    gap_ms: float
    reported: bool
    """Whether this listener tells the server how far it is."""

    status: str
    """Of the response."""

    @property
    def answered(self) -> bool:
        return self.status == "completed" and self.audio_ms > 0


@dataclass
class _Answer:
    """What came of an answer; instants on the loop's clock."""

    response_id: str = ""
    stopped_at: float | None = None
    first_at: float | None = None
    status: str = ""


@dataclass
class Load:
    """What a group of people goes through; only turns begun while it counts are kept."""

    turns: list[Turn] = field(default_factory=list[Turn])
    counting: bool = False
    under_way: int = 0
    """Turns that will count."""


async def hold(
    load: Load, url: str, questions: Sequence[Question], number: int, *, reports: bool
) -> None:
    """Talk to the server until cancelled.

    ``number`` chooses the first question. Without ``reports`` the client is a stock one,
    that speaks nothing but the public protocol.
    """
    async with open_session(url, extensions=reports) as client:
        await _configure(client)
        person = _Person(client, reports)
        async with person.on_the_line():
            for turn in itertools.count(number):
                counts = load.counting
                load.under_way += counts
                heard = await person.turn(questions[turn % len(questions)])
                if counts:
                    load.turns.append(heard)
                    load.under_way -= 1
                await asyncio.sleep(PAUSE_S)


async def _configure(client: RealtimeClient) -> None:
    await client.wait_for("session.created")
    turns = {"type": "server_vad", "silence_duration_ms": SILENCE_MS}
    audio = {"input": {"turn_detection": turns}}
    await client.send("session.update", session={"type": "realtime", "audio": audio})
    await client.wait_for("session.updated")


class _Person:
    """Speaks, and listens through a loudspeaker without any cushion."""

    def __init__(self, client: RealtimeClient, reports: bool) -> None:
        self._reports = reports
        self._listener = Listener(client)
        self._caller = Caller(client, hears=self._listener.take)
        self._clock = asyncio.get_running_loop().time

    @contextlib.asynccontextmanager
    async def on_the_line(self) -> AsyncGenerator[None]:
        """Keep microphone and ear open."""
        tasks = [asyncio.create_task(self._listener.run())] if self._reports else []
        try:
            async with self._caller.on_the_line():
                yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def turn(self, question: Question) -> Turn:
        """Ask, and hear the whole answer to its last sample."""
        word_end_at = await self._caller.say(question)
        answer = await self._answer()
        player = self._listener.player
        await asyncio.sleep(player.buffered_ms(self._clock()) / 1000)
        heard = player.report(answer.response_id, self._clock())
        first, stopped = answer.first_at, answer.stopped_at
        return Turn(
            latency_ms=(first - word_end_at) * 1000 if first else math.inf,
            ttfa_ms=(first - stopped) * 1000 if first and stopped else math.inf,
            audio_ms=heard.played_ms + heard.buffered_ms if heard else 0.0,
            underruns=heard.underruns if heard else 0,
            gap_ms=heard.gap_ms if heard else 0.0,
            reported=self._reports,
            status=answer.status,
        )

    async def _answer(self) -> _Answer:
        """Return what came of the answer once it is complete, though not yet heard."""
        answer = _Answer()
        while True:
            at, event = await self._caller.next_event()
            match event["type"]:
                case "input_audio_buffer.speech_started":
                    # What was begun in a pause of the question is not the answer to it.
                    answer.response_id = ""
                case "input_audio_buffer.speech_stopped":
                    answer.stopped_at = at
                case "response.created":
                    answer.response_id = event["response"]["id"]
                    answer.first_at = None
                case "response.output_audio.delta":
                    if event["response_id"] == answer.response_id:
                        answer.first_at = answer.first_at or at
                case "response.done" if event["response"]["id"] == answer.response_id:
                    answer.status = event["response"]["status"]
                    return answer
                case "error":
                    raise RuntimeError(event["error"]["message"])
                case _:
                    pass
