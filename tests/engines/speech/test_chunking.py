"""The loop that chooses chunks, with frames of which only the number counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import numpy as np
import pytest
from tests.support.loop import run_simulated

from antiphon.engines.chunks import End, Latents, PcmChunk, SpokenWords, Word
from antiphon.engines.deployment import Code2wavConfig
from antiphon.engines.flow import Flow
from antiphon.engines.scheduling.costs import Costs
from antiphon.engines.scheduling.windows import Windows
from antiphon.engines.speech.chunking import (
    ChunkChoice,
    ChunkCounts,
    PacedStream,
    held_bound,
    rules_of,
    steps,
)
from antiphon.engines.streams import Inbox, TaskStream

FRAME_MS = 20.0


class Held:
    """What a stream holds."""

    def __init__(self, context: int) -> None:
        self.windows = Windows(context)
        self.most = 0

    def add(self, latents: Latents) -> tuple[Word, ...]:
        self.windows.add(latents.frames.shape[1], last=latents.last)
        self.most = max(self.most, self.windows.held)
        return latents.words

    def end(self) -> None:
        self.windows.add(0, last=True)


def latents(frames: int, *, last: bool = True, words: tuple[Word, ...] = ()) -> Latents:
    return Latents(np.zeros((1, frames), np.float32), words, last)


async def sizes(
    config: Code2wavConfig,
    parts: list[Latents],
    *,
    context: int = 0,
    flow: Flow | None = None,
    gap_seconds: float = 0.0,
) -> tuple[list[int | SpokenWords], Held]:
    """What is to be done with parts that come one after the other."""
    inbox, held = Inbox[Latents](4), Held(context)
    choice = ChunkChoice(config, Costs(), flow, frame_ms=FRAME_MS, context=context)

    async def feed() -> None:
        for part in parts:
            await inbox.put(part)
            await asyncio.sleep(gap_seconds)
        inbox.shut()

    feeding = asyncio.create_task(feed())
    made: list[int | SpokenWords] = []
    async for step in steps(inbox, held, choice, flow):
        made.append(step)
        if not isinstance(step, SpokenWords):
            held.windows.take(step)
            if flow is not None:
                flow.made(step * FRAME_MS)
        await asyncio.sleep(0)
    await feeding
    return made, held


def test_words_come_ahead_of_their_frames_and_all_are_taken() -> None:
    word = Word("one", 0, 100)
    config = Code2wavConfig(ladder=(4, 8))
    made, held = run_simulated(
        sizes(config, [latents(11, last=False), latents(10, words=(word,))], context=3)
    )
    assert made == [8, SpokenWords((word,)), 8, 5]
    assert held.windows.held == 0


@pytest.mark.parametrize("flow", [False, True])
def test_no_more_is_held_than_the_bound_and_a_part(flow: bool) -> None:
    async def main() -> None:
        # Less than the context, were that not added to it.
        config = Code2wavConfig(ladder=(1,), max_first_delay_ms=0)
        parts = [latents(4, last=False) for _ in range(50)]
        made, held = await sizes(config, parts, context=10, flow=Flow() if flow else None)
        assert made == [1] * 200
        assert held.most <= 2 + 10 + 4

    run_simulated(main())


def test_a_stream_that_is_full_does_not_wait_for_more() -> None:
    windows = Windows(0)
    windows.add(7, last=False)

    async def main() -> None:
        choice = ChunkChoice(
            Code2wavConfig(ladder=(8, 16)), Costs(), Flow(), frame_ms=FRAME_MS, context=0
        )
        assert choice.next(windows, full=False)[0] == 0
        assert choice.next(windows, full=True) == (7, None)

    run_simulated(main())


@pytest.mark.parametrize(
    ("paced", "spare", "frames"), [(False, True, 4), (False, False, 16), (True, False, 4)]
)
def test_speech_for_nobody_begins_with_more_where_others_are_at_work(
    paced: bool, spare: bool, frames: int
) -> None:
    windows = Windows(0)
    windows.add(100, last=True)

    async def main() -> None:
        choice = ChunkChoice(
            Code2wavConfig(ladder=(4, 8, 16), margin_ms=30),
            Costs(fixed_ms=5, frame_ms=2),
            Flow(paced=paced),
            frame_ms=FRAME_MS,
            context=0,
            spare=lambda: spare,
        )
        size, _ = choice.next(windows, full=False)
        assert size == frames

    run_simulated(main())


def test_a_listener_who_runs_low_is_not_kept_waiting_for_a_larger_chunk() -> None:
    async def main() -> None:
        now = asyncio.get_running_loop().time
        flow = Flow()
        inbox, held = Inbox[Latents](4), Held(0)
        config = Code2wavConfig(ladder=(4, 32))
        choice = ChunkChoice(config, Costs(fixed_ms=5), flow, frame_ms=FRAME_MS, context=0)
        await inbox.put(latents(20, last=False))
        taken: list[tuple[float, int]] = []

        async def read() -> None:
            async for step in steps(inbox, held, choice, flow):
                assert not isinstance(step, SpokenWords)
                held.windows.take(step)
                flow.made(step * FRAME_MS)
                taken.append((now(), step))

        reading = asyncio.create_task(read())
        # The producer stands still: what is in hand goes out while the listener has some.
        await asyncio.sleep(10)
        assert sum(size for _, size in taken) == 20
        assert flow.listener.misses == 0
        inbox.shut()
        await reading

    run_simulated(main())


def test_bounds_and_rules_are_the_deployments() -> None:
    config = Code2wavConfig(
        ladder=(2, 50), margin_ms=70, continuity="eager", max_first_delay_ms=1210
    )
    rules = rules_of(config, FRAME_MS)
    assert (rules.frame_ms, rules.sizes, rules.margin_ms) == (20, (2, 50), 70)
    assert (rules.smooth, rules.max_first_delay_ms) == (False, 1210)
    assert held_bound(config, FRAME_MS) == 50 + 61
    assert held_bound(Code2wavConfig(ladder=(2, 50), max_first_delay_ms=0), FRAME_MS) == 100


def test_chunks_are_counted_by_size_and_lateness() -> None:
    async def main() -> dict[str, float]:
        counts, flow = ChunkCounts((4, 8)), Flow()
        counts.add(0.08, 4, flow)
        await asyncio.sleep(0.18)
        counts.add(0.1, 5, flow)
        counts.add(0.2, 9, None)
        # Held back until the end, and nothing at all.
        counts.add(0.02, 0, flow)
        counts.add(0.0, 3, flow)
        assert flow.listener.made_ms == pytest.approx(200)
        return counts.statistics()

    assert run_simulated(main()) == pytest.approx(
        {
            "chunks": 4,
            "audio_seconds": 0.4,
            "underruns": 1,
            "underrun_ms": 100,
            "chunks_of_4": 2,
            "chunks_of_8": 2,
        }
    )


def test_the_pace_is_that_of_a_producer_who_is_not_held_back() -> None:
    async def main() -> None:
        async def read(inbox: Inbox[Latents]) -> AsyncGenerator[SpokenWords | PcmChunk | End, None]:
            async for _ in inbox:
                await asyncio.sleep(0.5)
            yield SpokenWords(())

        costs = Costs()
        stream = PacedStream(TaskStream("t", read, input_bound=1), lambda: costs)
        await stream.send(latents(10))
        await asyncio.sleep(0.03)
        await stream.send(latents(10))
        assert costs.pace.mean == pytest.approx(3)
        # This one waits for room, so that the next was ready meanwhile.
        await stream.send(latents(10))
        first = costs.pace
        await stream.send(latents(10))
        assert costs.pace == first
        await stream.end()
        assert [type(item) for item in [each async for each in stream]] == [SpokenWords, End]

    run_simulated(main())
