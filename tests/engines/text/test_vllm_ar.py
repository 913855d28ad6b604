"""The vLLM stage with an engine that is played: its streams, prompts, death and restart."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from antiphon.engines.chunks import End, EndReason, StageError, TextDelta, Usage
from antiphon.engines.deployment import VllmConfig
from antiphon.engines.pipeline import Message
from antiphon.engines.stage import StageClosed, StageFailure
from antiphon.engines.text.request import GenerateRequest
from antiphon.engines.text.vllm_ar import VllmStage
from antiphon.engines.text.vllm_engine import EngineDied, Piece

T = TypeVar("T")


class PlayedEngine:
    """Counts a token a character, and writes what it is told to."""

    def __init__(self, words: Sequence[str] = ("Hel", "", "lo.")) -> None:
        self.words = words
        self.finish = "stop"
        self.hold_after: int | None = None
        """Words after which it never goes on."""

        self.dead = False
        self.closed = False
        self.asked: list[tuple[list[int], int]] = []
        self.running: set[str] = set()
        self.aborted: list[str] = []
        self._alive: int | None
        self.sentinel, self._alive = os.pipe()

    @property
    def unfinished(self) -> int:
        return len(self.running)

    def count(self, text: str) -> int:
        return len(text)

    def render(self, messages: Sequence[Message]) -> list[int]:
        return [ord(char) for message in messages for char in f"<{message.text}>"]

    async def generate(
        self, request_id: str, tokens: Sequence[int], max_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        self.asked.append((list(tokens), max_tokens))
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


async def read(stage: VllmStage, request: GenerateRequest) -> list[TextDelta | End]:
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
    async def scenario(stage: VllmStage, garage: Garage) -> list[TextDelta | End]:
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
        return garage.engine.asked[-1]

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
    async def scenario(stage: VllmStage, garage: Garage) -> tuple[list[TextDelta | End], int]:
        garage.engine.hold_after = 1
        stream = stage.open(ask())
        seen: list[TextDelta | End] = []
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
    async def scenario(stage: VllmStage, garage: Garage) -> tuple[End, list[TextDelta | End]]:
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
    async def scenario(stage: VllmStage, garage: Garage) -> list[TextDelta | End]:
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
    async def scenario(stage: VllmStage, garage: Garage) -> list[TextDelta | End]:
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
