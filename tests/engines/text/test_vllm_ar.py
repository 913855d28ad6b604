"""The vLLM stage with an engine that is played: its streams, prompts, death and restart."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, TypeVar

import pytest

from antiphon.engines.chunks import CallDelta, End, EndReason, Fitted, StageError, TextDelta, Usage
from antiphon.engines.deployment import VllmConfig
from antiphon.engines.pipeline import Message
from antiphon.engines.stage import StageClosed, StageFailure
from antiphon.engines.text import vllm_ar
from antiphon.engines.text.host_link import Piece
from antiphon.engines.text.request import GenerateRequest
from antiphon.engines.text.vllm_ar import VllmStage
from antiphon.engines.text.vllm_engine import EngineDied, Sampling
from antiphon.engines.tools import Tool, ToolChoice, ToolMode, Truncation

T = TypeVar("T")
Chunk: TypeAlias = TextDelta | CallDelta | Fitted


def _marked(messages: Sequence[Message]) -> list[str]:
    return [f"<{message.text}>" for message in messages]


class PlayedEngine:
    """Counts a token a character, and writes what it is told to."""

    def __init__(self, words: Sequence[str] = ("Hel", "", "lo.")) -> None:
        self.words = words
        self.finish = "stop"
        self.hold_after: int | None = None
        """Words after which it never goes on."""

        self.problem = "it is odd"
        self.dead = False
        self.closed = False
        self.asked: list[tuple[list[int], Sampling]] = []
        self.running: set[str] = set()
        self.aborted: list[str] = []
        self._alive: int | None
        self.sentinel, self._alive = os.pipe()

    @property
    def unfinished(self) -> int:
        return len(self.running)

    def count(self, text: str) -> int:
        return len(text)

    def render(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        shown = [f"{{{tool.name}}}" for tool in tools]
        return [ord(char) for text in (*shown, *_marked(messages)) for char in text]

    def problem_of(self, constraint: str) -> str | None:
        return self.problem if "odd" in constraint else None

    async def generate(
        self, request_id: str, tokens: Sequence[int], sampling: Sampling
    ) -> AsyncGenerator[Piece, None]:
        self.asked.append((list(tokens), sampling))
        self.running.add(request_id)
        for n, word in enumerate(self.words):
            if n == self.hold_after:
                await asyncio.Event().wait()
            if self.dead:
                raise EngineDied
            last = word == self.words[-1]
            if last:
                self.running.discard(request_id)
            yield Piece(
                text=word,
                tokens=1,
                prompt_tokens=len(tokens),
                cached_tokens=7,
                finish=self.finish if last else None,
            )

    async def abort(self, request_id: str) -> None:
        self.aborted.append(request_id)
        self.running.discard(request_id)

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._let_go()
            os.close(self.sentinel)

    def die(self) -> None:
        """As when the process is killed: nothing more comes, and its sentinel says so."""
        self.dead = True
        self._let_go()

    def _let_go(self) -> None:
        if self._alive is not None:
            os.close(self._alive)
            self._alive = None


class Garage:
    """Hands out played engines, or fails to."""

    def __init__(self, *failures: bool) -> None:
        self.failures = list(failures)
        self.engines: list[PlayedEngine] = []

    def load(self, config: VllmConfig, folder: Path, work: Path) -> PlayedEngine:
        if self.failures and self.failures.pop(0):
            raise StageFailure(StageError("model_unloadable", "no"))
        self.engines.append(PlayedEngine())
        return self.engines[-1]

    @property
    def engine(self) -> PlayedEngine:
        return self.engines[-1]


def ask(*texts: str, max_tokens: int | None = None) -> GenerateRequest:
    messages = tuple(Message("user", text) for text in texts or ("Hello",))
    return GenerateRequest(request_id="r", messages=messages, max_tokens=max_tokens)


async def read(stage: VllmStage, request: GenerateRequest) -> list[Chunk | End]:
    return [item async for item in stage.open(request)]


def run(
    tmp_path: Path,
    scenario: Callable[[VllmStage, Garage], Awaitable[T]],
    garage: Garage | None = None,
    waits: Sequence[float] = (0.0, 0.0),
) -> T:
    cars = garage or Garage()
    config = VllmConfig(model=str(tmp_path), context_tokens=100, max_output_tokens=20)

    async def started() -> T:
        stage = VllmStage(config, tmp_path, load=cars.load, restart_waits=waits)
        await stage.start()
        try:
            async with asyncio.timeout(10):
                return await scenario(stage, cars)
        finally:
            await stage.close()
            assert all(engine.closed for engine in cars.engines)

    return asyncio.run(started())


def test_text_is_passed_on_with_all_its_tokens(tmp_path: Path) -> None:
    seen = run(tmp_path, lambda stage, garage: read(stage, ask()))
    usage = Usage(input_tokens=len("<Hello>"), cached_tokens=7, output_tokens=3)
    assert seen == [
        TextDelta("Hel", 1),
        TextDelta("lo.", 2),
        End(EndReason.COMPLETED, usage=usage),
    ]


def test_the_token_limit_is_told(tmp_path: Path) -> None:
    async def scenario(stage: VllmStage, garage: Garage) -> list[Chunk | End]:
        garage.engine.finish = "length"
        return await read(stage, ask())

    end = run(tmp_path, scenario)[-1]
    assert isinstance(end, End)
    assert end.reason is EndReason.LENGTH


@pytest.mark.parametrize(
    ("text", "wanted", "limit"),
    [("short", None, 20), ("short", 5, 5), ("short", 1000, 100 - 7), ("x" * 500, None, 20)],
)
def test_prompt_and_answer_share_the_context(
    tmp_path: Path, text: str, wanted: int | None, limit: int
) -> None:
    async def scenario(stage: VllmStage, garage: Garage) -> tuple[list[int], int]:
        await read(stage, ask(text, max_tokens=wanted))
        prompt, sampling = garage.engine.asked[-1]
        return prompt, sampling.max_tokens

    tokens, allowed = run(tmp_path, scenario)
    assert allowed >= limit
    assert len(tokens) + allowed <= 100
    assert wanted is None or allowed <= wanted


def test_older_turns_give_way(tmp_path: Path) -> None:
    async def scenario(stage: VllmStage, garage: Garage) -> str:
        await read(stage, ask(*(f"message {n}" for n in range(20))))
        return "".join(map(chr, garage.engine.asked[-1][0]))

    prompt = run(tmp_path, scenario)
    assert prompt.endswith("<message 19>")
    assert "<message 0>" not in prompt


def test_cancelling_aborts(tmp_path: Path) -> None:
    async def scenario(stage: VllmStage, garage: Garage) -> tuple[list[Chunk | End], int]:
        garage.engine.hold_after = 1
        stream = stage.open(ask())
        seen: list[Chunk | End] = []
        async for item in stream:
            seen.append(item)
            stream.cancel()
        assert stage.statistics()["running"] == 0
        assert stage.statistics()["unfinished"] == 0
        return seen, len(garage.engine.aborted)

    seen, aborted = run(tmp_path, scenario)
    assert seen[-1] == End(EndReason.CANCELLED)
    assert aborted == 1


def test_what_is_finished_is_not_aborted(tmp_path: Path) -> None:
    async def scenario(stage: VllmStage, garage: Garage) -> list[str]:
        await read(stage, ask())
        return garage.engine.aborted

    assert run(tmp_path, scenario) == []


def test_death_ends_streams_and_the_engine_comes_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(stage: VllmStage, garage: Garage) -> tuple[End, list[Chunk | End]]:
        garage.engine.hold_after = 1
        end = End(EndReason.COMPLETED)
        async for item in stage.open(ask()):
            if isinstance(item, End):
                end = item
            else:
                garage.engine.die()
        await stage.wait_state("restarting")
        await stage.wait_state("ready")
        assert stage.statistics()["restarts"] == 1
        return end, await read(stage, ask())

    with caplog.at_level(logging.CRITICAL):
        end, again = run(tmp_path, scenario)
    assert end.reason is EndReason.FAILED
    assert end.error is not None
    assert end.error.code == "engine_restarting"
    assert end.error.retry_after_ms is not None
    assert again[-1] == End(
        EndReason.COMPLETED, usage=Usage(input_tokens=7, cached_tokens=7, output_tokens=3)
    )


def test_death_is_told_even_before_the_process_is_seen_to_be_gone(tmp_path: Path) -> None:
    async def scenario(stage: VllmStage, garage: Garage) -> list[Chunk | End]:
        garage.engine.dead = True
        seen = await read(stage, ask())
        with pytest.raises(StageFailure, match="engine_restarting"):
            stage.open(ask())
        return seen

    (end,) = run(tmp_path, scenario)
    assert isinstance(end, End)
    assert end.error is not None
    assert end.error.code == "engine_restarting"


def test_a_restart_that_fails_is_tried_again(tmp_path: Path) -> None:
    async def scenario(stage: VllmStage, garage: Garage) -> list[Chunk | End]:
        garage.failures = [True]
        garage.engine.die()
        await stage.wait_state("restarting")
        await stage.wait_state("ready")
        return await read(stage, ask())

    assert len(run(tmp_path, scenario)) == 3


def test_attempts_to_restart_are_bounded(tmp_path: Path) -> None:
    async def scenario(stage: VllmStage, garage: Garage) -> list[bool]:
        garage.failures = [True, True, True]
        garage.engine.die()
        await stage.wait_state("failed")
        with pytest.raises(StageClosed):
            stage.open(ask())
        return garage.failures

    assert run(tmp_path, scenario) == [True], "two waits, two attempts"


def test_closing_while_an_engine_is_being_loaded_leaves_none(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, PlayedEngine]:
        loading, go_on = threading.Event(), threading.Event()
        made: list[PlayedEngine] = []

        def load(config: VllmConfig, folder: Path, work: Path) -> PlayedEngine:
            loading.set()
            go_on.wait(10)
            made.append(PlayedEngine())
            return made[0]

        stage = VllmStage(VllmConfig(model=str(tmp_path)), tmp_path, load=load)
        starting = asyncio.create_task(stage.start())
        await asyncio.to_thread(loading.wait, 10)
        assert stage.state == "starting"
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        closing = asyncio.create_task(stage.close())
        await asyncio.sleep(0)
        go_on.set()
        await closing
        await stage.close()
        return stage.state, made[0]

    state, engine = asyncio.run(scenario())
    assert state == "closed"
    assert engine.closed


def test_closing_ends_what_is_open(tmp_path: Path) -> None:
    async def scenario(stage: VllmStage, garage: Garage) -> End:
        garage.engine.hold_after = 0
        stream = stage.open(ask())
        closing = asyncio.create_task(stage.close())
        (end,) = [item async for item in stream]
        await closing
        with pytest.raises(StageClosed):
            stage.open(ask())
        assert isinstance(end, End)
        return end

    end = run(tmp_path, scenario)
    assert end.reason is EndReason.FAILED
    assert end.error is not None
    assert end.error.code == "stage_closed"


def test_a_model_that_does_not_load_stops_the_start(tmp_path: Path) -> None:
    async def scenario() -> str:
        stage = VllmStage(VllmConfig(model=str(tmp_path)), tmp_path, load=Garage(True).load)
        with pytest.raises(StageFailure, match="model_unloadable"):
            await stage.start()
        state = stage.state
        await stage.close()
        return state

    assert asyncio.run(scenario()) == "failed"


def test_a_model_that_is_not_here_stops_the_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        stage = VllmStage(VllmConfig(), tmp_path, load=Garage().load)
        try:
            await stage.start()
        finally:
            await stage.close()

    with pytest.raises(StageFailure, match="antiphon models fetch smollm2-135m"):
        asyncio.run(scenario())


# Functions.

WEATHER = Tool(
    name="get_weather",
    parameters='{"type": "object", "properties": {"city": {"type": "string"}}}',
)
ODD = Tool(name="odd", parameters='{"type": "object", "properties": {"odd": {}}}')
CALL = (
    "Let me see.",
    "<tool_call>\n{",
    '"name": "get_weather", ',
    '"arguments": {"city": ',
    '"Oslo"}',
    "}\n</tool_call>",
    "",
)


def calling(
    *tools: Tool, mode: ToolMode = "auto", name: str | None = None, text: str = "Hello"
) -> GenerateRequest:
    choice = ToolChoice(mode=mode, name=name)
    return replace(ask(text), tools=tools, tool_choice=choice)


def written(
    tmp_path: Path, request: GenerateRequest, words: Sequence[str] = CALL, finish: str = "stop"
) -> tuple[list[Chunk | End], PlayedEngine]:
    async def scenario(stage: VllmStage, garage: Garage) -> tuple[list[Chunk | End], PlayedEngine]:
        garage.engine.words = words
        garage.engine.finish = finish
        return await read(stage, request), garage.engine

    return run(tmp_path, scenario)


def test_calls_are_told_apart_from_text(tmp_path: Path) -> None:
    seen, engine = written(tmp_path, calling(WEATHER))
    assert seen == [
        TextDelta("Let me see.", 1),
        CallDelta(0, "get_weather", "", False),
        CallDelta(0, "get_weather", '{"city": ', False),
        CallDelta(0, "get_weather", '"Oslo"}', True),
        End(
            EndReason.COMPLETED,
            usage=Usage(input_tokens=20, cached_tokens=7, output_tokens=len(CALL)),
        ),
    ]
    prompt, sampling = engine.asked[-1]
    assert "".join(map(chr, prompt)) == "{get_weather}<Hello>"
    assert sampling.constraint is not None
    assert "triggered_tags" in sampling.constraint


@pytest.mark.parametrize("request_", [calling(WEATHER, mode="none"), calling()])
def test_without_functions_marks_are_text(tmp_path: Path, request_: GenerateRequest) -> None:
    seen, engine = written(tmp_path, request_)
    text = "".join(item.text for item in seen if isinstance(item, TextDelta))
    assert text == "".join(CALL)
    prompt, sampling = engine.asked[-1]
    assert "".join(map(chr, prompt)) == "<Hello>"
    assert sampling.constraint is None


@pytest.mark.parametrize(
    ("mode", "form"), [("required", "tags_with_separator"), ("function", "tag")]
)
def test_a_call_can_be_enforced(tmp_path: Path, mode: ToolMode, form: str) -> None:
    other = Tool(name="get_time")
    name = "get_weather" if mode == "function" else None
    _, engine = written(tmp_path, calling(other, WEATHER, mode=mode, name=name))
    prompt, sampling = engine.asked[-1]
    assert "".join(map(chr, prompt)) == "{get_time}{get_weather}<Hello>"
    assert json.loads(sampling.constraint or "")["format"]["type"] == form
    assert ("get_time" in (sampling.constraint or "")) == (mode == "required")


def test_the_token_limit_ends_a_call(tmp_path: Path) -> None:
    seen, _ = written(tmp_path, calling(WEATHER), CALL[1:4], "length")
    assert seen[-2] == CallDelta(0, "get_weather", "", True)
    assert isinstance(end := seen[-1], End)
    assert (end.reason, end.usage.output_tokens) == (EndReason.LENGTH, 3)


def test_what_is_held_back_is_text_when_the_model_stops(tmp_path: Path) -> None:
    seen, _ = written(tmp_path, calling(WEATHER), ("So <tool", "_ca"))
    assert [item for item in seen if isinstance(item, TextDelta)] == [
        TextDelta("So ", 1),
        TextDelta("<tool_ca", 1),
    ]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (calling(WEATHER, ODD), "tools[1].parameters: can't be enforced: it is odd"),
        (calling(Tool(name="f", parameters="[]")), "tools[0].parameters: "),
        (calling(mode="required"), "tool_choice: "),
        (calling(WEATHER, mode="function", name="other"), "tool_choice: "),
    ],
)
def test_functions_that_cannot_be_used_fail_the_reply_only(
    tmp_path: Path, request_: GenerateRequest, message: str
) -> None:
    async def scenario(stage: VllmStage, garage: Garage) -> tuple[list[Chunk | End], int]:
        seen = [await read(stage, request_) for _ in range(2)]
        assert seen[0] == seen[1]
        return seen[0], len(await read(stage, ask()))

    (end,), after = run(tmp_path, scenario)
    assert isinstance(end, End)
    assert end.reason is EndReason.FAILED
    assert end.error is not None
    assert end.error.code == "invalid_value"
    assert end.error.message.startswith(message)
    assert after == 3


def test_functions_take_room_of_the_conversation(tmp_path: Path) -> None:
    tools = tuple(Tool(name=f"f{n}_" + "x" * 10) for n in range(3))

    async def scenario(stage: VllmStage, garage: Garage) -> tuple[int, list[Chunk | End]]:
        talk = replace(ask(*(f"message {n}" for n in range(20))), tools=tools)
        seen = await read(stage, talk)
        prompt, sampling = garage.engine.asked[-1]
        assert len(prompt) + sampling.max_tokens <= 100
        return len(prompt), seen

    size, seen = run(tmp_path, scenario)
    assert size <= 80
    assert isinstance(seen[0], Fitted)
    assert seen[0].dropped == 20 - 1


def test_functions_that_leave_no_room_are_refused(tmp_path: Path) -> None:
    (end,), _ = written(tmp_path, calling(*(Tool(name=f"f{n}_" + "x" * 30) for n in range(3))))
    assert isinstance(end, End)
    assert end.error is not None
    assert end.error.code == "context_length_exceeded"
    assert end.error.message.startswith("tools: they take ")


def test_an_answer_that_the_engine_gives_up_has_failed(tmp_path: Path) -> None:
    seen, _ = written(tmp_path, calling(WEATHER), ("So",), "error")
    assert isinstance(end := seen[-1], End)
    assert end.error is not None
    assert end.error.code == "generation_failed"


# What else a request may say.


@pytest.mark.parametrize("temperature", [None, 0.0, 1.2])
def test_the_temperature_is_the_requests(tmp_path: Path, temperature: float | None) -> None:
    _, engine = written(tmp_path, replace(ask(), temperature=temperature))
    assert engine.asked[-1][1].temperature == temperature


def test_what_was_left_out_is_told_first(tmp_path: Path) -> None:
    seen, _ = written(tmp_path, ask(*(f"message {n}" for n in range(20))))
    assert isinstance(first := seen[0], Fitted)
    assert 10 < first.dropped < 20
    assert not any(isinstance(item, Fitted) for item in seen[1:])


def test_a_conversation_that_may_not_be_cut_fails(tmp_path: Path) -> None:
    request = replace(ask("x" * 100), truncation=Truncation(mode="disabled"))
    (end,), engine = written(tmp_path, request)
    assert isinstance(end, End)
    assert end.error is not None
    assert end.error.code == "context_length_exceeded"
    assert "108 tokens" in end.error.message
    assert "at most 80" in end.error.message
    assert len(engine.asked) == 1, "only the warm-up"


# Waking the model.


def test_waking_asks_for_one_token(tmp_path: Path) -> None:
    async def scenario(stage: VllmStage, garage: Garage) -> list[Sampling]:
        await stage.warm()
        return [sampling for _, sampling in garage.engine.asked]

    assert [each.max_tokens for each in run(tmp_path, scenario)] == [2, 1]


def test_a_model_that_is_awake_is_let_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_ar, "FRESH_SECONDS", 1e9)

    async def scenario(stage: VllmStage, garage: Garage) -> int:
        await read(stage, ask())
        before = len(garage.engine.asked)
        await stage.warm()
        await stage.warm()
        return len(garage.engine.asked) - before

    assert run(tmp_path, scenario) == 0


def test_a_model_at_work_is_let_be(tmp_path: Path) -> None:
    async def scenario(stage: VllmStage, garage: Garage) -> int:
        garage.engine.hold_after = 1
        stream = stage.open(ask())
        async for _ in stream:
            before = len(garage.engine.asked)
            await stage.warm()
            stream.cancel()
            return len(garage.engine.asked) - before
        return -1

    assert run(tmp_path, scenario) == 0


def test_a_death_while_waking_is_left_to_the_keeper(tmp_path: Path) -> None:
    async def scenario(stage: VllmStage, garage: Garage) -> str:
        garage.engine.dead = True
        await stage.warm()
        return stage.state

    assert run(tmp_path, scenario) == "ready"


def test_what_is_not_running_is_not_woken(tmp_path: Path) -> None:
    stage = VllmStage(VllmConfig(model=str(tmp_path)), tmp_path, load=Garage().load)
    asyncio.run(stage.warm())
    assert stage.state == "closed"
