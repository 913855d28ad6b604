"""What each bound does when a stage stalls, a listener stops, or too many come at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from tests.support.loop import run_simulated

from antiphon.engines.chunks import EndReason
from antiphon.engines.deployment import Pacing, parse_deployment
from antiphon.engines.pipeline import Message, ReplyRequest
from antiphon.engines.pipelines.cascade import CascadePipeline
from antiphon.engines.pipelines.gate import RETRY_MS

from .paced import WORD_MS, Ear, Rig

T = TypeVar("T")

SENTENCE = "The light takes a longer way in the evening."
SENTENCE_MS = WORD_MS * len(SENTENCE.split())
MINUTE = " ".join([SENTENCE] * 22)
"""A minute of speech."""

WORDS = len(MINUTE.split())
LEAD_MS = Pacing().lead_ms


def run(rig: Callable[[], Rig], scenario: Callable[[Rig], Awaitable[T]]) -> T:
    """Run with a started pipeline; afterwards nothing of it may be left."""

    async def main() -> T:
        it = rig()
        await it.pipeline.start()
        async with asyncio.timeout(3600):
            result = await scenario(it)
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others)
        numbers = it.statistics
        assert (numbers["running"], numbers["spoken"], numbers["waiting"]) == (0, 0, 0)
        await it.pipeline.close()
        return result

    return run_simulated(main())


def listening(ear: Ear) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(ear.listen())


def test_a_talker_that_stalls_is_not_heard_where_the_lead_covers_it() -> None:
    async def scenario(rig: Rig) -> Ear:
        ear = Ear(rig.reply("r"))
        await ear.listen()
        return ear

    ear = run(lambda: Rig((MINUTE,), stall_at_ms=20_000), scenario)
    assert ear.completed
    assert ear.gap_ms == 0
    assert ear.got_ms == WORDS * WORD_MS


def test_a_stall_longer_than_what_is_ahead_is_heard_once() -> None:
    async def scenario(rig: Rig) -> Ear:
        ear = Ear(rig.reply("r"))
        await ear.listen()
        return ear

    ear = run(lambda: Rig((MINUTE,), stall_at_ms=SENTENCE_MS, stall_seconds=5), scenario)
    # The first sentence was being heard, and nothing was ahead of it yet.
    assert 5000 - SENTENCE_MS <= ear.gap_ms <= 5500 - SENTENCE_MS
    assert ear.got_ms == WORDS * WORD_MS


def test_a_listener_who_pauses_costs_the_lead_and_goes_on_with_nothing_lost() -> None:
    async def scenario(rig: Rig) -> Ear:
        ear = Ear(rig.reply("r"))
        read = listening(ear)
        await ear.heard(2000)
        ear.reply.played(1500, 1500)
        await asyncio.sleep(10)
        # What was allowed ahead of the ear, and what was begun by then.
        assert 1500 + LEAD_MS <= ear.got_ms <= 1500 + LEAD_MS + rig.chunk_ms
        assert rig.spoken_ms <= 1500 + LEAD_MS + SENTENCE_MS
        # A clause in each hand, and those in the queues between model and talker.
        assert len(ear.text.split()) * WORD_MS <= rig.spoken_ms + 7 * SENTENCE_MS
        busy = rig.talker.busy_seconds, rig.code2wav.busy_seconds
        await asyncio.sleep(60)
        assert busy == (rig.talker.busy_seconds, rig.code2wav.busy_seconds)
        ear.reply.played(1500, 10_000_000)
        await read
        return ear

    ear = run(lambda: Rig((MINUTE,)), scenario)
    assert ear.completed
    assert ear.got_ms == WORDS * WORD_MS
    assert " ".join(ear.words) == ear.text == MINUTE


def test_a_reply_that_nobody_reads_stops_at_the_lead_and_is_gone_when_cancelled() -> None:
    async def scenario(rig: Rig) -> None:
        unread = rig.reply("unread")
        await asyncio.sleep(60)
        assert LEAD_MS <= rig.made_ms <= LEAD_MS + rig.chunk_ms
        assert rig.spoken_ms <= LEAD_MS + SENTENCE_MS
        unread.cancel()
        ear = Ear(unread)
        await ear.listen()
        assert ear.end is not None
        assert ear.end.reason is EndReason.CANCELLED

    run(lambda: Rig((MINUTE,), chunk_ms=500), scenario)


def test_a_reply_that_nobody_reads_takes_no_place_from_others() -> None:
    async def scenario(rig: Rig) -> None:
        unread = [rig.reply(f"unread {n}") for n in range(5)]
        await asyncio.sleep(10)
        ear = Ear(rig.reply("read"))
        await ear.listen()
        assert ear.completed
        assert ear.gap_ms == 0
        assert ear.first_at is not None
        assert ear.first_at - ear.asked_at < 1
        for each in unread:
            each.cancel()

    # Each needs a third of code2wav's time: there is no room for five.
    run(lambda: Rig((SENTENCE,), chunk_seconds=0.033), scenario)


def crowded() -> Rig:
    """One reply at a time takes nearly all of code2wav's time."""
    return Rig((MINUTE,), chunk_seconds=0.08)


def test_a_reply_that_waits_is_written_on_within_bounds_and_costs_no_speech() -> None:
    async def scenario(rig: Rig) -> None:
        first = Ear(rig.reply("first"))
        reading = [listening(first)]
        await asyncio.sleep(5)
        spoken = list(rig.first_due_in)
        waiting = Ear(rig.reply("waiting"))
        reading.append(listening(waiting))
        await asyncio.sleep(5)
        assert rig.statistics["waiting"] == 1
        assert waiting.first_at is None
        assert rig.first_due_in == spoken, "no clause of it is at the talker"
        assert 2 * SENTENCE_MS <= len(waiting.text.split()) * WORD_MS <= 4 * SENTENCE_MS
        written = Ear(rig.reply("written", speak=False))
        await written.listen()
        assert written.completed, "who only reads waits for nobody"
        assert written.text == MINUTE
        waiting.reply.cancel()
        await asyncio.wait(reading[1:])
        assert rig.statistics["waiting"] == 0
        await asyncio.wait(reading)
        assert first.gap_ms == 0

    run(crowded, scenario)


def test_closing_ends_a_reply_that_waits() -> None:
    async def scenario(rig: Rig) -> None:
        first = listening(Ear(rig.reply("first")))
        await asyncio.sleep(5)
        waiting = Ear(rig.reply("waiting"))
        reading = listening(waiting)
        await asyncio.sleep(1)
        assert rig.statistics["waiting"] == 1
        await rig.pipeline.close()
        await asyncio.wait([first, reading])
        assert waiting.error is not None
        assert waiting.error.code == "stage_closed"

    run(crowded, scenario)


def test_it_is_told_when_a_reply_was_let_in() -> None:
    async def scenario(rig: Rig) -> None:
        first, second = Ear(rig.reply("first")), Ear(rig.reply("second"))
        reading = [listening(first), listening(second)]
        await first.heard(5000)
        # The second was let in as well: what a reply costs was not known yet.
        late = Ear(rig.reply("late"))
        reading.append(listening(late))
        await asyncio.wait(reading)
        for ear in (first, second, late):
            assert ear.timings is not None
            assert ear.timings.first_clause_at is not None
            assert ear.timings.admitted_at is not None
            assert ear.timings.talker_at is not None
            waited = ear.timings.admitted_at - ear.timings.first_clause_at
            assert waited == 0 if ear is not late else waited > 5
            assert ear.timings.admitted_at <= ear.timings.talker_at

    run(lambda: Rig((" ".join([SENTENCE] * 5),), chunk_seconds=0.048), scenario)


def burst_rig(waiting: int, wait_seconds: int) -> Rig:
    """Five replies of eleven seconds can be spoken at once."""
    pacing = Pacing(waiting=waiting, wait_seconds=wait_seconds)
    return Rig((" ".join([SENTENCE] * 4),), pacing, chunk_seconds=0.016)


@pytest.mark.parametrize(
    ("waiting", "wait_seconds", "refused"),
    [(64, 120, range(1)), (20, 120, range(8, 11)), (64, 20, range(16, 22))],
    ids=["all are served", "too many wait", "some wait too long"],
)
def test_a_burst_of_new_replies_leaves_those_that_sound_alone(
    waiting: int, wait_seconds: int, refused: range
) -> None:
    async def scenario(rig: Rig) -> tuple[list[Ear], list[Ear]]:
        first = [Ear(rig.reply(f"first {n}")) for n in range(4)]
        reading = [listening(ear) for ear in first]
        await asyncio.sleep(3)
        burst: list[Ear] = []
        for number in range(30):
            burst.append(Ear(rig.reply(f"burst {number}")))
            reading.append(listening(burst[-1]))
            await asyncio.sleep(0.001)
        await asyncio.wait(reading)
        numbers = rig.statistics
        assert numbers["refused"] == sum(ear.error is not None for ear in burst)
        assert numbers["admitted"] == 34 - numbers["refused"]
        assert numbers["delayed"] >= numbers["admitted"] - 10
        # Who waited is no more urgent for it than who just came.
        assert rig.first_due_in == pytest.approx([0.3] * len(rig.first_due_in))
        return first, burst

    first, burst = run(lambda: burst_rig(waiting, wait_seconds), scenario)
    assert [ear.gap_ms for ear in first] == [0] * 4
    served = [ear for ear in burst if ear.completed]
    assert 30 - len(served) in refused
    # First come, first served, and none of them stutters.
    starts = [ear.first_at or 0.0 for ear in served]
    assert starts == sorted(starts)
    assert max(ear.gap_ms for ear in served) <= 100
    assert all(starts[n] - ear.asked_at < wait_seconds + 1 for n, ear in enumerate(served))
    for ear in burst:
        if ear.error is not None:
            assert (ear.error.code, ear.error.retry_after_ms) == ("overloaded", RETRY_MS)
            assert ear.got_ms == 0


def test_a_deployment_of_scripted_stages_is_paced_in_the_same_way(tmp_path: Path) -> None:
    talker = {"use": "scripted", "chunk_ms": None, "decode_fixed_ms": 10, "decode_frame_ms": 2}
    model = {"use": "scripted", "lines": [" ".join([SENTENCE] * 4)]}
    stages = {"ar": model, "recognizer": {"use": "scripted"}, "talker": talker}
    deployment = parse_deployment({"pacing": {"wait_seconds": 60}, "stages": stages})

    async def main() -> list[Ear]:
        pipeline = CascadePipeline(deployment, tmp_path)
        await pipeline.start()

        def ask(name: str) -> Ear:
            messages = (Message("user", "Hello"),)
            return Ear(pipeline.reply(ReplyRequest(request_id=name, messages=messages)))

        # The costs are learned by the first.
        await ask("alone").listen()
        ears: list[Ear] = []
        reading: list[asyncio.Task[None]] = []
        for number in range(24):
            ears.append(ask(str(number)))
            reading.append(listening(ears[-1]))
            await asyncio.sleep(0.5 if number < 4 else 0.001)
        await asyncio.wait(reading)
        assert pipeline.statistics()["reply"]["share"] == pytest.approx(0.11, rel=0.2)
        assert pipeline.statistics()["reply"]["delayed"] > 8
        await pipeline.close()
        return ears

    ears = run_simulated(main())
    assert all(ear.completed for ear in ears)
    assert max(ear.gap_ms for ear in ears[:4]) == 0
    assert max(ear.gap_ms for ear in ears[4:]) <= 100
    starts = [ear.first_at or 0.0 for ear in ears[4:]]
    assert starts == sorted(starts)
