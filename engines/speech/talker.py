"""The talker stage: clauses to latents, with the times of their words."""

from __future__ import annotations

import asyncio
import textwrap
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..catalog import require
from ..chunks import Clause, End, Latents, StageError
from ..deployment import TalkerConfig
from ..flow import Flow
from ..stage import StageFailure, StageStream
from ..streams import Inbox
from .draft import Draft, Speaker
from .worker import Worker

CLAUSE_CHARS = 240
"""A longer clause is spoken in parts: about 16 s of speech."""

SPEEDS = (0.25, 4.0)
"""The slowest and the fastest rate of speech."""

INPUT_BOUND = 1
"""Clauses a stream holds before ``send`` waits: the next one. More would only be written for
a listener who may have stopped."""

WINDOWS = (24, 48, 96)
"""Frames made at once: few where the listener waits, and never so many that the job holds
up others for long. Each window is computed with its context, 64 frames more."""

AHEAD = 2.0
"""How much longer than what the listener has ahead a window may be. It is made in a twentieth
of its length or less, so it is there long before."""

WARM_UP = ("Certainly.", "The sky is blue because", "In the evening the light takes a longer way.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkRequest:
    """Ask for speech of the clauses that follow."""

    request_id: str
    voice: str | None = None
    """One of :attr:`TalkerStage.voices`; ``None`` for the first."""

    speed: float = 1.0
    """Rate of speech, 1 is the voice's own."""

    flow: Flow | None = field(default=None, compare=False)
    """Paces the speech; ``None`` for as fast as it goes."""

    def __post_init__(self) -> None:
        """Refuse a speed that no voice has."""
        if not SPEEDS[0] <= self.speed <= SPEEDS[1]:
            raise ValueError(f"expected a speed from {SPEEDS[0]} to {SPEEDS[1]}, got {self.speed}")


class TalkerStage:
    """Speaks clauses with one voice, one at a time over all streams, in a thread of its own."""

    def __init__(
        self,
        config: TalkerConfig,
        cache_root: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is loaded before :meth:`start`."""
        self._config = config
        self._cache_root = cache_root
        self._worker = Worker("talker", clock=clock)
        self._speaker: Speaker | None = None
        self._clauses = 0
        self._windows = 0
        self._seconds = 0.0

    @property
    def voices(self) -> tuple[str, ...]:
        """Names of the voices, the default one first; none before :meth:`start`."""
        return (self._speaker.voice.name,) if self._speaker else ()

    async def start(self) -> None:
        """Load and warm up.

        Raises:
            StageFailure: the model or a package is missing; the message says what to run.
        """
        self._speaker = await self._worker.start(self._load)

    def open(self, request: TalkRequest) -> StageStream[Clause, Latents]:
        """Begin the speech of one reply. A clause without any word gives nothing.

        Raises:
            StageClosed: the stage is not running.
            StageFailure: there is no such voice.
        """
        if request.voice is not None and self._speaker and request.voice not in self.voices:
            known = ", ".join(self.voices)
            raise StageFailure(StageError("voice_unknown", f"expected a voice out of {known}"))

        async def work(inbox: Inbox[Clause]) -> AsyncGenerator[Latents | End, None]:
            async for clause in inbox:
                for part in parts(clause.text):
                    async with aclosing(self._speak(part, request)) as made:
                        async for latents in made:
                            yield latents

        return self._worker.open(f"talker {request.request_id}", work, input_bound=INPUT_BOUND)

    async def warm(self) -> None:
        """Make the next clause as quick as if another had just been spoken."""
        if (speaker := self._speaker) is not None:
            await self._worker.warm(lambda: speaker.speak(WARM_UP[0], 1.0))

    async def close(self) -> None:
        """End every stream with an error and free the model. Idempotent."""
        await self._worker.close()
        self._speaker = None

    def statistics(self) -> dict[str, float]:
        """Counters since the start, and what runs or waits now.

        ``chunks`` are the windows of latents, ``audio_seconds`` what they amount to.
        """
        made = {"clauses": self._clauses, "chunks": self._windows, "audio_seconds": self._seconds}
        return self._worker.statistics() | made

    def _load(self) -> Speaker:
        _, folder = require(self._config.model, self._cache_root)
        speaker = Speaker(folder, self._config.threads, self._config.variation)
        for text in WARM_UP:
            speaker.speak(text, 1.0)
        return speaker

    async def _speak(self, text: str, request: TalkRequest) -> AsyncGenerator[Latents, None]:
        speaker, flow = self._speaker, request.flow
        assert speaker is not None, "a stream was opened before the stage started"
        held_ms = await wait_to_speak(flow)
        due = None if flow is None else flow.speak_due
        draft = await self._worker.run(speaker.draft, text, request.speed, due=due)
        if draft is None:
            return
        self._clauses += 1
        frame_ms = speaker.voice.frame_ms
        while draft.left:
            size = _window(draft, flow, frame_ms)
            due = None if flow is None else flow.speak_due
            latents = await self._worker.run(draft.next, size, due=due)
            ms = latents.frames.shape[1] * frame_ms
            self._windows += 1
            self._seconds += ms / 1000
            if flow is not None:
                flow.spoke(ms)
            yield replace(latents, held_ms=held_ms)
            held_ms = 0.0


async def wait_to_speak(flow: Flow | None) -> float:
    """Wait until more may be spoken; return for how long, ms."""
    if flow is None:
        return 0.0
    now = asyncio.get_running_loop().time
    began = now()
    await flow.wait_to_speak()
    return (now() - began) * 1000


def _window(draft: Draft, flow: Flow | None, frame_ms: float) -> int:
    """How many frames to make next: nothing that is left is smaller than a window."""
    size = WINDOWS[-1]
    if flow is not None:
        ahead_ms = (flow.buffer_ms or 0.0) + flow.undecoded_ms
        size = window_size(ahead_ms / frame_ms)
    return size if draft.left - size >= WINDOWS[0] else draft.left


def window_size(ahead: float) -> int:
    """Frames to make at once for a listener who has so many ahead."""
    return max((size for size in WINDOWS if size <= ahead * AHEAD), default=WINDOWS[0])


def parts(text: str) -> list[str]:
    """A clause in parts of bounded length; nearly always the clause itself."""
    if len(text) <= CLAUSE_CHARS:
        return [text]
    return textwrap.wrap(text, CLAUSE_CHARS, break_on_hyphens=False, replace_whitespace=False)
