"""The scripted model: its lines, its pace and its ends."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.chunks import End, EndReason, TextDelta, Usage
from antiphon.engines.deployment import ScriptedArConfig
from antiphon.engines.pipeline import Message
from antiphon.engines.stage import StageClosed
from antiphon.engines.text.request import GenerateRequest
from antiphon.engines.text.scripted_ar import ScriptedArStage, split_words

T = TypeVar("T")
FAST = 1e6


def ask(text: str = "Hello", max_tokens: int | None = None) -> GenerateRequest:
    messages = (Message("system", "Be brief."), Message("user", text))
    return GenerateRequest(request_id="r", messages=messages, max_tokens=max_tokens)


def run(config: ScriptedArConfig, scenario: Callable[[ScriptedArStage], Awaitable[T]]) -> T:
    async def started() -> T:
        stage = ScriptedArStage(config)
        await stage.start()
        async with asyncio.timeout(10):
            result = await scenario(stage)
        await stage.close()
        return result

    return asyncio.run(started())


async def read(stage: ScriptedArStage, request: GenerateRequest) -> tuple[str, End]:
    text = ""
    async for item in stage.open(request):
        if isinstance(item, End):
            return text, item
        assert item.tokens == 1
        text += item.text
    raise AssertionError("the stream had no end")


@given(st.text())
def test_words_join_to_the_line_but_for_spaces_at_its_end(line: str) -> None:
    assert "".join(split_words(line)) == line.rstrip()


def test_lines_come_in_turn_with_their_usage() -> None:
    config = ScriptedArConfig(lines=("One two.", "Three."), tokens_per_second=FAST)

    async def scenario(stage: ScriptedArStage) -> list[tuple[str, End]]:
        return [await read(stage, ask()) for _ in range(3)]

    first, second, third = run(config, scenario)
    assert [first[0], second[0], third[0]] == ["One two.", "Three.", "One two."]
    assert first[1] == End(EndReason.COMPLETED, usage=Usage(input_tokens=3, output_tokens=2))


def test_a_line_can_repeat_what_was_said() -> None:
    config = ScriptedArConfig(lines=("You said: {user}",), tokens_per_second=FAST)
    text, _ = run(config, lambda stage: read(stage, ask("good morning")))
    assert text == "You said: good morning"


def test_the_token_limit_cuts_a_line() -> None:
    config = ScriptedArConfig(lines=("a b c d",), tokens_per_second=FAST)
    text, end = run(config, lambda stage: read(stage, ask(max_tokens=2)))
    assert text == "a b"
    assert end.reason is EndReason.LENGTH
    assert end.usage.output_tokens == 2


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time stands still, but jumps to the next timer when all is quiet."""

    def __init__(self) -> None:
        self.at = 100.0
        super().__init__(Jumper(self))

    def time(self) -> float:
        return self.at


class Jumper(selectors.SelectSelector):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is not None:
            self._clock.at += timeout
        return ready


def test_the_pace_is_exact_and_lateness_does_not_add_up() -> None:
    config = ScriptedArConfig(lines=("a b c d e",), first_token_ms=500, tokens_per_second=4)
    clock = Clock()

    async def scenario() -> list[float]:
        stage = ScriptedArStage(config)
        await stage.start()
        began, at = clock.at, list[float]()
        async for item in stage.open(ask()):
            if isinstance(item, TextDelta):
                at.append(clock.at - began)
                clock.at += 0.4 if item.text == " b" else 0
        return at

    with asyncio.Runner(loop_factory=lambda: clock) as runner:
        at = runner.run(scenario())
    assert at == pytest.approx([0.5, 0.75, 1.15, 1.25, 1.5])


def test_cancel_ends_at_once_and_leaves_nothing() -> None:
    config = ScriptedArConfig(lines=("a b c",), tokens_per_second=0.001)

    async def scenario(stage: ScriptedArStage) -> tuple[list[TextDelta | End], float]:
        stream = stage.open(ask())
        seen: list[TextDelta | End] = []
        async for item in stream:
            seen.append(item)
            stream.cancel()
        return seen, stage.statistics()["running"]

    seen, running = run(config, scenario)
    assert seen == [TextDelta("a", 1), End(EndReason.CANCELLED)]
    assert running == 0


def test_close_ends_what_is_open_and_refuses_more() -> None:
    config = ScriptedArConfig(lines=("a b c",), tokens_per_second=0.001)

    async def scenario(stage: ScriptedArStage) -> End:
        stream = stage.open(ask())
        async for item in stream:
            if isinstance(item, End):
                assert stage.state == "closed"
                with pytest.raises(StageClosed):
                    stage.open(ask())
                return item
            await stage.close()
        raise AssertionError("the stream had no end")

    end = run(config, scenario)
    assert end.reason is EndReason.FAILED
    assert end.error is not None
    assert end.error.code == "stage_closed"


def test_not_before_it_is_started() -> None:
    with pytest.raises(StageClosed):
        ScriptedArStage(ScriptedArConfig()).open(ask())
