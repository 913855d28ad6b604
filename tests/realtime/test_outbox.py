"""The queue towards one client."""

from __future__ import annotations

import asyncio
import threading

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.loop import run_simulated

from antiphon.realtime.outbox import Frame, Outbox, SlowFrames, SlowText

HIGH, LIMIT = 10, 20


async def drained(outbox: Outbox) -> list[str]:
    outbox.close()
    texts: list[str] = []
    while (frame := await outbox.get()) is not None:
        assert isinstance(frame.data, str)
        texts.append(frame.data)
    return texts


def test_text_that_is_made_later_takes_no_room() -> None:
    async def main() -> None:
        outbox = Outbox(HIGH, LIMIT)
        frame = Frame(SlowText(lambda: "x" * 100, 100))
        outbox.put(frame)
        outbox.put(Frame("a"))
        assert (outbox.queued_bytes, outbox.overflowed) == (1, False)
        assert await outbox.get() == frame

    asyncio.run(main())


def test_frames_come_in_order() -> None:
    async def main() -> None:
        outbox = Outbox(HIGH, LIMIT)
        for text in "abc":
            outbox.put(Frame(text))
        assert outbox.queued_bytes == 3
        assert await drained(outbox) == ["a", "b", "c"]
        assert outbox.queued_bytes == 0

    run_simulated(main())


def test_the_reader_waits_for_a_frame() -> None:
    async def main() -> None:
        outbox = Outbox(HIGH, LIMIT)
        reader = asyncio.create_task(outbox.get())
        await asyncio.sleep(1)
        assert not reader.done()
        outbox.put(Frame("late"))
        assert await reader == Frame("late")

    run_simulated(main())


def test_a_closed_outbox_gives_what_it_has_and_takes_no_more() -> None:
    async def main() -> None:
        outbox = Outbox(HIGH, LIMIT)
        waiting = asyncio.create_task(outbox.get())
        await asyncio.sleep(0)
        outbox.close()
        outbox.put(Frame("too late"))
        assert await waiting is None
        assert outbox.queued_bytes == 0

    run_simulated(main())


def test_a_purge_takes_the_audio_of_one_response_only() -> None:
    async def main() -> None:
        outbox = Outbox(HIGH, LIMIT)
        outbox.put(Frame("event"))
        outbox.put(Frame("old 1", "old", 40.0))
        outbox.put(Frame("new 1", "new", 40.0))
        outbox.put(Frame("old 2", "old", 20.0))
        assert outbox.purge("old") == 60.0
        assert outbox.purge("old") == 0.0
        assert outbox.queued_bytes == len("event" + "new 1")
        assert await drained(outbox) == ["event", "new 1"]

    run_simulated(main())


def test_who_makes_audio_waits_above_the_mark_until_there_is_room() -> None:
    async def main() -> None:
        outbox = Outbox(HIGH, LIMIT)
        outbox.put(Frame("x" * 9))
        await outbox.wait_room()
        outbox.put(Frame("x" * 9))
        waiting = asyncio.create_task(outbox.wait_room())
        await asyncio.sleep(1)
        assert not waiting.done()
        await outbox.get()
        await waiting

    run_simulated(main())


def test_a_purge_makes_room() -> None:
    async def main() -> None:
        outbox = Outbox(HIGH, LIMIT)
        outbox.put(Frame("x" * HIGH, "old"))
        waiting = asyncio.create_task(outbox.wait_room())
        await asyncio.sleep(0)
        outbox.purge("old")
        await waiting

    run_simulated(main())


def test_nobody_waits_for_room_in_a_closed_outbox() -> None:
    async def main() -> None:
        outbox = Outbox(HIGH, LIMIT)
        outbox.put(Frame("x" * HIGH))
        outbox.close()
        await outbox.wait_room()

    run_simulated(main())


def test_overflow_begins_above_the_limit() -> None:
    async def main() -> None:
        outbox = Outbox(HIGH, LIMIT)
        outbox.put(Frame("x" * LIMIT))
        assert not outbox.overflowed
        outbox.put(Frame("x"))
        assert outbox.overflowed

    run_simulated(main())


def slowly(*made: Frame, size: int = 6, gate: threading.Event | None = None) -> Frame:
    """Return audio of response "old" that becomes ``made`` once ``gate`` is open."""

    def make() -> list[Frame]:
        if gate is not None:
            gate.wait()
        return list(made)

    return Frame(SlowFrames(make, size), "old", 30.0)


def test_slow_frames_are_made_when_it_is_their_turn() -> None:
    async def main() -> None:
        outbox = Outbox(HIGH, LIMIT)
        outbox.put(Frame("a"))
        outbox.put(slowly(Frame(b"bc", "old", 10.0), Frame(b"def", "old", 20.0)))
        outbox.put(Frame("g"))
        assert outbox.queued_bytes == 8
        assert await outbox.get() == Frame("a")
        assert await outbox.get() == Frame(b"bc", "old", 10.0)
        assert outbox.queued_bytes == 4
        assert outbox.purge("old") == 20.0
        assert await drained(outbox) == ["g"]
        assert outbox.queued_bytes == 0

    run_simulated(main())


def test_slow_frames_may_become_none() -> None:
    async def main() -> None:
        outbox = Outbox(HIGH, LIMIT)
        outbox.put(slowly(size=HIGH))
        outbox.put(Frame("a"))
        assert await outbox.get() == Frame("a")
        assert outbox.queued_bytes == 0
        await outbox.wait_room()

    run_simulated(main())


def test_what_is_purged_while_it_is_made_is_not_given() -> None:
    async def main() -> None:
        outbox = Outbox(HIGH, LIMIT)
        gate = threading.Event()
        outbox.put(slowly(Frame(b"old", "old", 30.0), gate=gate))
        reader = asyncio.create_task(outbox.get())
        await asyncio.sleep(0)
        assert outbox.purge("old") == 30.0
        outbox.put(Frame("after"))
        gate.set()
        assert await reader == Frame("after")
        assert outbox.queued_bytes == 0

    asyncio.run(main())


_steps = st.lists(
    st.tuples(st.just("put"), st.sampled_from([None, "a", "b"]), st.integers(1, 9))
    | st.tuples(st.just("get"), st.none(), st.just(0))
    | st.tuples(st.just("purge"), st.sampled_from(["a", "b"]), st.just(0)),
    max_size=40,
)


@settings(deadline=None)
@given(_steps)
def test_it_is_a_queue_from_which_responses_can_be_taken(
    steps: list[tuple[str, str | None, int]],
) -> None:
    async def main() -> None:
        outbox = Outbox(HIGH, LIMIT)
        model: list[Frame] = []
        for number, (step, response_id, size) in enumerate(steps):
            if step == "put":
                frame = Frame(f"{number}".ljust(size), response_id, float(size))
                outbox.put(frame)
                model.append(frame)
            elif step == "get" and model:
                assert await outbox.get() == model.pop(0)
            elif step == "purge":
                assert response_id is not None
                gone = [frame for frame in model if frame.response_id == response_id]
                model = [frame for frame in model if frame.response_id != response_id]
                assert outbox.purge(response_id) == sum(frame.audio_ms for frame in gone)
            assert outbox.queued_bytes == sum(frame.size for frame in model)
            assert outbox.overflowed == (outbox.queued_bytes > LIMIT)
            room = asyncio.ensure_future(outbox.wait_room())
            await asyncio.sleep(0)
            assert room.done() == (outbox.queued_bytes < HIGH)
            room.cancel()
        assert await drained(outbox) == [frame.data for frame in model]

    asyncio.run(main())
