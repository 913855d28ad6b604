"""The contract of a stage stream, line by line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

import pytest

from antiphon.engines.chunks import End, EndReason, StageError, TextDelta, Usage
from antiphon.engines.stage import StageFailure
from antiphon.engines.streams import Inbox, TaskStream

T = TypeVar("T")
Stream = TaskStream[str, TextDelta]
GONE = StageError("engine_restarting", "the model is being restarted", 500)


def run(scenario: Callable[[], Awaitable[T]]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(10):
            return await scenario()

    return asyncio.run(bounded())


async def read(stream: Stream) -> list[TextDelta | End]:
    return [item async for item in stream]


async def echo(inbox: Inbox[str]) -> AsyncGenerator[TextDelta | End, None]:
    async for text in inbox:
        yield TextDelta(text, 1)


async def stuck(inbox: Inbox[str]) -> AsyncGenerator[TextDelta | End, None]:
    yield TextDelta("first", 1)
    await asyncio.Event().wait()


def test_chunks_come_out_in_order_and_then_one_end() -> None:
    async def scenario() -> list[TextDelta | End]:
        stream = Stream("echo", echo)
        for text in ("a", "b", "c"):
            await stream.send(text)
        await stream.end()
        await stream.end()
        return await read(stream)

    *chunks, end = run(scenario)
    assert chunks == [TextDelta("a", 1), TextDelta("b", 1), TextDelta("c", 1)]
    assert end == End(EndReason.COMPLETED)


def test_the_worker_says_how_it_ended() -> None:
    told = End(EndReason.LENGTH, usage=Usage(output_tokens=3))

    async def work(inbox: Inbox[str]) -> AsyncGenerator[TextDelta | End, None]:
        yield TextDelta("a", 1)
        yield told
        yield TextDelta("never seen", 1)

    async def scenario() -> list[TextDelta | End]:
        return await read(Stream("work", work))

    assert run(scenario) == [TextDelta("a", 1), told]


def test_cancelled_before_the_first_step() -> None:
    async def scenario() -> list[TextDelta | End]:
        stream = Stream("stuck", stuck)
        stream.cancel()
        stream.cancel()
        return await read(stream)

    assert run(scenario) == [End(EndReason.CANCELLED)]


def test_cancelled_while_it_works_and_again_when_over() -> None:
    async def scenario() -> list[TextDelta | End]:
        stream = Stream("stuck", stuck)
        seen: list[TextDelta | End] = []
        async for item in stream:
            seen.append(item)
            stream.cancel()
        stream.cancel()
        return seen

    assert run(scenario) == [TextDelta("first", 1), End(EndReason.CANCELLED)]


def test_cancelled_by_its_reader_and_nobody_reads_on() -> None:
    async def scenario() -> bool:
        stream = Stream("echo", echo, output_bound=1)
        for text in ("a", "b", "c"):
            await stream.send(text)
        stream.cancel()
        await stream.wait_done()
        return stream.done

    assert run(scenario)


@pytest.mark.parametrize("error", [None, GONE])
def test_a_second_stop_does_not_disturb_the_cleaning_up(error: StageError | None) -> None:
    async def scenario() -> tuple[list[str], list[TextDelta | End]]:
        steps: list[str] = []
        cleaning, go_on = asyncio.Event(), asyncio.Event()

        async def work(inbox: Inbox[str]) -> AsyncGenerator[TextDelta | End, None]:
            try:
                yield TextDelta("a", 1)
                await asyncio.Event().wait()
            finally:
                cleaning.set()
                await go_on.wait()
                steps.append("cleaned")

        stream = Stream("work", work)
        reader = asyncio.create_task(read(stream))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        stream.cancel()
        await cleaning.wait()
        stream.fail(error) if error else stream.cancel()
        go_on.set()
        return steps, await reader

    steps, seen = run(scenario)
    assert steps == ["cleaned"]
    assert seen[-1] == End(EndReason.CANCELLED)


def test_failed_from_outside_with_the_error_given() -> None:
    async def scenario() -> list[TextDelta | End]:
        stream = Stream("stuck", stuck)
        seen: list[TextDelta | End] = []
        async for item in stream:
            seen.append(item)
            stream.fail(GONE)
        return seen

    assert run(scenario)[-1] == End(EndReason.FAILED, GONE)


def test_a_stage_failure_reaches_the_reader_as_it_is() -> None:
    async def work(inbox: Inbox[str]) -> AsyncGenerator[TextDelta | End, None]:
        yield TextDelta("a", 1)
        raise StageFailure(GONE)

    async def scenario() -> list[TextDelta | End]:
        return await read(Stream("work", work))

    assert run(scenario) == [TextDelta("a", 1), End(EndReason.FAILED, GONE)]


def test_any_other_failure_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    async def work(inbox: Inbox[str]) -> AsyncGenerator[TextDelta | End, None]:
        yield TextDelta("a", 1)
        raise RuntimeError("secret of /home/somebody")

    async def scenario() -> list[TextDelta | End]:
        return await read(Stream("work", work))

    with caplog.at_level(logging.ERROR):
        *_, end = run(scenario)
    assert isinstance(end, End)
    assert end.reason is EndReason.FAILED
    assert end.error is not None
    assert end.error.code == "internal_error"
    assert "secret" not in end.error.message
    assert "secret" in caplog.text


def test_send_waits_at_the_input_bound() -> None:
    async def scenario() -> tuple[bool, list[TextDelta | End]]:
        gate = asyncio.Event()

        async def work(inbox: Inbox[str]) -> AsyncGenerator[TextDelta | End, None]:
            await gate.wait()
            async for text in inbox:
                yield TextDelta(text, 1)

        stream = Stream("work", work, input_bound=2)
        await stream.send("a")
        await stream.send("b")
        third = asyncio.create_task(stream.send("c"))
        await asyncio.sleep(0)
        waited = not third.done()
        gate.set()
        await third
        await stream.end()
        return waited, await read(stream)

    waited, seen = run(scenario)
    assert waited
    assert [item.text for item in seen if isinstance(item, TextDelta)] == ["a", "b", "c"]


def test_a_waiting_send_is_released_when_the_stream_ends() -> None:
    async def scenario() -> list[TextDelta | End]:
        stream = Stream("stuck", stuck, input_bound=1)
        await stream.send("a")
        waiting = asyncio.create_task(stream.send("b"))
        await asyncio.sleep(0)
        stream.cancel()
        await waiting
        await stream.send("after the end, dropped")
        return await read(stream)

    assert run(scenario)[-1] == End(EndReason.CANCELLED)


def test_the_worker_waits_at_the_output_bound_and_the_end_never_does() -> None:
    made = 0

    async def work(inbox: Inbox[str]) -> AsyncGenerator[TextDelta | End, None]:
        nonlocal made
        for _ in range(100):
            made += 1
            yield TextDelta("x", 1)

    async def scenario() -> tuple[int, list[TextDelta | End]]:
        stream = Stream("work", work, output_bound=4)
        for _ in range(50):
            await asyncio.sleep(0)
        ahead = made
        stream.cancel()
        return ahead, await read(stream)

    ahead, seen = run(scenario)
    assert ahead == 5, "four are handed out, the fifth waits for room"
    assert seen == [TextDelta("x", 1)] * 4 + [End(EndReason.CANCELLED)]


def test_the_worker_cleans_up_when_its_output_is_not_wanted() -> None:
    async def scenario() -> list[str]:
        steps: list[str] = []

        async def work(inbox: Inbox[str]) -> AsyncGenerator[TextDelta | End, None]:
            try:
                while True:
                    yield TextDelta("x", 1)
            finally:
                steps.append("cleaned")

        stream = Stream("work", work, output_bound=1)
        await anext(aiter(stream))
        stream.cancel()
        await stream.wait_done()
        return steps

    assert run(scenario) == ["cleaned"]


def test_reading_twice_is_refused() -> None:
    async def scenario() -> None:
        stream = Stream("echo", echo)
        await stream.end()
        await read(stream)
        await read(stream)

    with pytest.raises(RuntimeError, match="already being read"):
        run(scenario)


@pytest.mark.parametrize("stop", ["finish", "cancel", "fail"])
def test_on_done_is_called_once_with_the_end(stop: str) -> None:
    async def scenario() -> tuple[list[End], list[TextDelta | End]]:
        told: list[End] = []
        stream = Stream("echo", echo, on_done=told.append)
        match stop:
            case "cancel":
                stream.cancel()
            case "fail":
                stream.fail(GONE)
            case _:
                await stream.end()
        return told, await read(stream)

    told, seen = run(scenario)
    assert told == seen


def test_an_inbox_can_be_looked_into_without_waiting() -> None:
    async def scenario() -> None:
        inbox: Inbox[str] = Inbox(1)
        assert inbox.take() is None
        await inbox.put("a")
        waiting = asyncio.create_task(inbox.put("b"))
        assert await inbox.readable()
        assert inbox.take() == "a"
        await waiting
        inbox.shut()
        # Shut, but not read to its end.
        assert not inbox.over
        assert await inbox.readable()
        assert inbox.take() == "b"
        assert inbox.over
        assert not await inbox.readable()
        assert inbox.take() is None

    run(scenario)
