"""How the chunks of a stream are chosen and counted, whatever then decodes them."""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_left
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from ..chunks import End, Latents, PcmChunk, SpokenWords, Word
from ..deployment import Code2wavConfig
from ..flow import Flow
from ..scheduling.costs import Costs
from ..scheduling.ramp import ChunkRule, Fixed, Ramp, RampRules
from ..stage import StageStream
from ..streams import Inbox

INPUT_BOUND = 4
"""Parts of clauses a stream holds before ``send`` waits, besides :attr:`ChunkChoice.most`."""

CAREFUL_MARGIN_MS = 240.0
"""Audio left when the second chunk comes of speech that is not paced, if others are at work."""

BLOCKED_SECONDS = 0.002
"""A ``send`` that takes longer has waited: the next part may have been ready long since."""


class Held(Protocol):
    """How many frames of a stream are held: those of :class:`..scheduling.windows.Windows`."""

    @property
    def have(self) -> int:
        """Frames that can be decoded now."""
        ...

    @property
    def complete(self) -> bool:
        """Whether these are all that will come of their clause."""
        ...

    @property
    def held(self) -> int:
        """Frames of all clauses that are not decoded yet."""
        ...


class Frames(Protocol):
    """Latents that were taken in and not yet decoded."""

    @property
    def windows(self) -> Held:
        """Which of them can be decoded."""
        ...

    def add(self, latents: Latents) -> tuple[Word, ...]:
        """Take some in; return their words with times from the start of the stream."""
        ...

    def end(self) -> None:
        """No more come. Idempotent."""
        ...


async def steps(
    inbox: Inbox[Latents], frames: Frames, choice: ChunkChoice, flow: Flow | None
) -> AsyncGenerator[SpokenWords | int, None]:
    """Read a stream's latents; yield the words to tell, and how many frames to decode next.

    Who reads this takes the frames before it asks on. It ends when all are decoded.
    """
    while True:
        if flow is not None and frames.windows.have:
            await flow.wait_to_make()
        while frames.windows.held < choice.most and (latents := inbox.take()) is not None:
            if words := frames.add(latents):
                yield SpokenWords(words)
        if inbox.over:
            frames.end()
        full = inbox.over or frames.windows.held >= choice.most
        size, again_ms = choice.next(frames.windows, full=full)
        if size:
            yield size
        elif inbox.over:
            return
        else:
            await _more(inbox, again_ms)


class PacedStream:
    """A stream of code2wav, noting at what pace its latents come."""

    def __init__(
        self,
        stream: StageStream[Latents, SpokenWords | PcmChunk],
        costs: Callable[[], Costs | None],
    ) -> None:
        """``costs``: what learns of it; ``None`` while the voice is being loaded."""
        self._stream = stream
        self._costs = costs
        self._clock = asyncio.get_running_loop().time
        self._sent_at: float | None = None

    async def send(self, chunk: Latents) -> None:
        """Hand in latents; waits while the bound is reached."""
        now = self._clock()
        # Nothing is learned where the talker was held back, for one reason or the other.
        if self._sent_at is not None and chunk.held_ms < BLOCKED_SECONDS * 1000:
            gap_ms = (now - self._sent_at) * 1000
            if (costs := self._costs()) is not None:
                costs.arrived(chunk.frames.shape[1], gap_ms)
        await self._stream.send(chunk)
        sent_at = self._clock()
        self._sent_at = sent_at if sent_at - now < BLOCKED_SECONDS else None

    async def end(self) -> None:
        """Say that no more will be sent."""
        await self._stream.end()

    def __aiter__(self) -> AsyncIterator[SpokenWords | PcmChunk | End]:
        """Iterate over the output."""
        return self._stream.__aiter__()

    def cancel(self) -> None:
        """Stop now."""
        self._stream.cancel()


class ChunkChoice:
    """How many frames of one stream to decode next."""

    def __init__(
        self,
        config: Code2wavConfig,
        costs: Costs,
        flow: Flow | None,
        *,
        frame_ms: float,
        context: int,
        spare: Callable[[], bool] = lambda: True,
    ) -> None:
        """Choose as ``config`` says; without a flow, in the largest chunks there are.

        ``context``: frames that must be there besides those decoded. ``spare``: whether the
        stage has time that nobody needs now.
        """
        rules = rules_of(config, frame_ms)
        self._spare = spare
        careful_ms = max(rules.margin_ms, CAREFUL_MARGIN_MS)
        self._careful = Ramp(replace(rules, margin_ms=careful_ms), costs)
        self._largest = config.sizes[-1]
        self.most = context + held_bound(config, frame_ms)
        """Frames to hold at most, but for the last part taken in."""

        self._flow = flow
        self._clock = asyncio.get_running_loop().time
        self._first_at: float | None = None
        self._rule: ChunkRule = Ramp(rules, costs)
        if config.rule == "fixed":
            self._rule = Fixed(config.sizes)
        elif flow is None:
            self._rule = Fixed(config.sizes[-1:])

    def next(self, windows: Held, *, full: bool) -> tuple[int, float | None]:
        """Frames to decode, or 0 and how long, in ms, to wait for more of them at most.

        ``full``: no more are taken in, so there is nothing to wait for.
        """
        if not windows.have:
            return 0, None
        now = self._clock()
        if self._first_at is None:
            self._first_at = now
        step = self._starting().next(
            have=windows.have,
            complete=windows.complete,
            buffer_ms=self._flow.buffer_ms if self._flow is not None else math.inf,
            waited_ms=(now - self._first_at) * 1000,
            behind=windows.held - windows.have,
        )
        if not step.frames and full:
            return min(windows.have, self._largest), None
        return min(step.frames, windows.have), step.again_ms

    def _starting(self) -> ChunkRule:
        """The rule, or for a start that others compete with a more careful one.

        What is not paced takes all the time there is, so that who begins among such waits
        longer at times than has been learned.
        """
        flow = self._flow
        if flow is None or flow.paced or flow.buffer_ms is not None or self._spare():
            return self._rule
        return self._careful if isinstance(self._rule, Ramp) else self._rule


class ChunkCounts:
    """What was made, over all streams."""

    def __init__(self, ladder: tuple[int, ...]) -> None:
        """``ladder``: sizes to count chunks by."""
        self._ladder = ladder
        self._chunks = 0
        self._seconds = 0.0
        self._sizes = [0] * len(ladder)
        self._underruns = 0
        self._underrun_ms = 0.0

    def add(self, seconds: float, frames: int, flow: Flow | None) -> None:
        """Count audio, and tell its flow. ``frames``: 0 for what had only been held back."""
        self._seconds += seconds
        if frames:
            self._chunks += 1
            self._sizes[min(bisect_left(self._ladder, frames), len(self._ladder) - 1)] += 1
        if flow is not None and seconds:
            misses, late_ms = flow.listener.misses, flow.listener.late_ms
            flow.made(seconds * 1000)
            self._underruns += flow.listener.misses - misses
            self._underrun_ms += flow.listener.late_ms - late_ms

    def statistics(self) -> dict[str, float]:
        """By name.

        ``chunks`` and ``audio_seconds``; ``chunks_of_<n>``: chunks of at most so many frames,
        and more than of the size before; ``underruns``: chunks that came after their listener
        had run dry, and ``underrun_ms``: how much too late, in all.
        """
        sizes = zip(self._ladder, self._sizes, strict=True)
        return {
            "chunks": float(self._chunks),
            "audio_seconds": self._seconds,
            "underruns": float(self._underruns),
            "underrun_ms": self._underrun_ms,
        } | {f"chunks_of_{size}": float(count) for size, count in sizes}


def rules_of(config: Code2wavConfig, frame_ms: float) -> RampRules:
    """The rules of a deployment, for frames of so much audio."""
    return RampRules(
        frame_ms=frame_ms,
        sizes=config.sizes,
        margin_ms=float(config.margin_ms),
        smooth=config.continuity == "smooth",
        max_first_delay_ms=float(config.max_first_delay_ms),
    )


def held_bound(config: Code2wavConfig, frame_ms: float) -> int:
    """Frames besides context that a stream holds before it takes no more in.

    Two of the largest chunk, so that one can be chosen; and all that a smooth start may
    wait for.
    """
    largest = config.sizes[-1]
    return largest + max(largest, math.ceil(config.max_first_delay_ms / frame_ms))


async def _more(inbox: Inbox[Latents], again_ms: float | None) -> None:
    """Return when there is more to read, nothing will come, or the time is over."""
    seconds = None if again_ms is None else again_ms / 1000
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await inbox.readable()
