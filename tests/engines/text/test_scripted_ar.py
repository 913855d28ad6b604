"""The scripted model: its lines, its pace and its ends."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.chunks import CallDelta, End, EndReason, Fitted, TextDelta, Usage
from antiphon.engines.deployment import ScriptedArConfig, ScriptedCall
from antiphon.engines.pipeline import Message
from antiphon.engines.stage import StageClosed, StageFailure
from antiphon.engines.text.request import GenerateRequest
from antiphon.engines.text.scripted_ar import ScriptedArStage, split_words
from antiphon.engines.tools import Tool, ToolChoice, Truncation

T = TypeVar("T")
Chunk: TypeAlias = TextDelta | CallDelta | Fitted
FAST = 1e6
WEATHER, CLOCK = Tool(name="get_weather"), Tool(name="get_time")
CALLING = ScriptedArConfig(
    lines=("It is {tool}.", "You said: {user}"),
    tokens_per_second=FAST,
    calls=(
        ScriptedCall(name="get_weather", arguments={"city": "Oslo"}, when="Weather"),
        ScriptedCall(name="get_time", when="what time"),
    ),
)


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
        assert isinstance(item, TextDelta)
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

    async def scenario(stage: ScriptedArStage) -> tuple[list[Chunk | End], float]:
        stream = stage.open(ask())
        seen: list[Chunk | End] = []
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


def calling(
    *messages: Message, tools: tuple[Tool, ...] = (WEATHER, CLOCK), **choice: Any
) -> GenerateRequest:
    return GenerateRequest(
        request_id="r", messages=messages, tools=tools, tool_choice=ToolChoice(**choice)
    )


def asked(text: str) -> Message:
    return Message("user", text)


def collect(request: GenerateRequest, config: ScriptedArConfig = CALLING) -> list[Chunk | End]:
    async def scenario(stage: ScriptedArStage) -> list[Chunk | End]:
        return [item async for item in stage.open(request)]

    return run(config, scenario)


def called(seen: list[Chunk | End]) -> tuple[str, str] | None:
    """The name and the arguments of the one call, which is whole; ``None`` without one."""
    pieces = [item for item in seen if isinstance(item, CallDelta)]
    if not pieces:
        return None
    assert not any(isinstance(item, TextDelta) for item in seen)
    assert [piece.done for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert {piece.index for piece in pieces} == {0}
    (name,) = {piece.name for piece in pieces}
    return name, "".join(piece.arguments for piece in pieces)


def test_a_call_is_made_in_pieces_where_its_words_are_said() -> None:
    seen = collect(calling(asked("How is the WEATHER today?")))
    assert called(seen) == ("get_weather", '{"city":"Oslo"}')
    assert len(seen) == 5
    assert seen[-1] == End(EndReason.COMPLETED, usage=Usage(input_tokens=5, output_tokens=4))


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert called(collect(calling(asked("Say, what time is it?")))) == ("get_time", "{}")


@pytest.mark.parametrize(
    "request_",
    [
        calling(asked("Hello")),
        calling(asked("The weather?"), tools=()),
        calling(asked("The weather?"), tools=(CLOCK,)),
        calling(asked("The weather?"), mode="none"),
        calling(asked("The weather?"), Message("assistant", "Yes?")),
        calling(asked("The weather?"), Message("tool", "weather: rain", call_id="c")),
        calling(),
    ],
)
def test_otherwise_a_line_is_said(request_: GenerateRequest) -> None:
    seen = collect(request_)
    assert called(seen) is None
    assert isinstance(seen[0], TextDelta)


@pytest.mark.parametrize(
    ("request_", "call"),
    [
        (calling(asked("Hello"), mode="required"), ("get_weather", '{"city":"Oslo"}')),
        (calling(asked("what time"), mode="required"), ("get_time", "{}")),
        (calling(asked("x"), tools=(Tool(name="other"),), mode="required"), ("other", "{}")),
        (calling(asked("weather"), mode="function", name="get_time"), ("get_time", "{}")),
        (
            calling(asked("x"), mode="function", name="get_weather"),
            ("get_weather", '{"city":"Oslo"}'),
        ),
    ],
)
def test_a_call_that_is_required_is_made(request_: GenerateRequest, call: tuple[str, str]) -> None:
    assert called(collect(request_)) == call


@pytest.mark.parametrize("choice", [{"mode": "required"}, {"mode": "function", "name": "other"}])
def test_a_choice_that_nothing_can_meet_is_refused(choice: dict[str, str]) -> None:
    tools = (WEATHER,) if choice["mode"] == "function" else ()
    with pytest.raises(StageFailure, match=r"invalid_value: tool_choice: "):
        collect(calling(asked("Hello"), tools=tools, **choice))


def test_the_answer_to_an_output_is_the_next_line_with_it() -> None:
    async def scenario(stage: ScriptedArStage) -> list[str]:
        question = asked("How is the weather?")
        async for _ in stage.open(calling(question)):
            pass
        output = Message("tool", "sunny", call_id="c1")
        first, _ = await read(stage, calling(question, output))
        second, _ = await read(stage, calling(question, output))
        return [first, second]

    assert run(CALLING, scenario) == ["It is sunny.", "You said: How is the weather?"]


def test_the_token_limit_ends_a_call() -> None:
    request = replace(calling(asked("weather")), max_tokens=2)
    seen = collect(request)
    assert called(seen) == ("get_weather", '{"city":')
    assert isinstance(end := seen[-1], End)
    assert (end.reason, end.usage.output_tokens) == (EndReason.LENGTH, 2)


LONG = (Message("system", "Be brief."), *(asked(f"remark number {n}") for n in range(9)))


def test_what_it_can_be_told_is_bounded() -> None:
    config = ScriptedArConfig(lines=("Hi.",), tokens_per_second=FAST, context_tokens=12)
    seen = collect(calling(*LONG), config)
    assert seen[0] == Fitted(6)
    assert seen[-1] == End(EndReason.COMPLETED, usage=Usage(input_tokens=11, output_tokens=1))


def test_a_conversation_that_may_not_be_cut_is_refused() -> None:
    config = ScriptedArConfig(context_tokens=12)
    request = replace(calling(*LONG), truncation=Truncation(mode="disabled"))
    with pytest.raises(StageFailure, match="context_length_exceeded: .* 29 tokens .* 12 "):
        collect(request, config)
