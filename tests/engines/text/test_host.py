"""The link to the language model's process, and what the server makes of its end."""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.waiting import until

from antiphon.engines.deployment import VllmConfig
from antiphon.engines.pipeline import Message
from antiphon.engines.stage import StageFailure
from antiphon.engines.text import vllm_engine
from antiphon.engines.text.host_link import (
    MAX_MESSAGE,
    Abort,
    Generate,
    LinkClosed,
    Load,
    Question,
    ToHost,
    Unframer,
    frame,
)
from antiphon.engines.text.vllm_engine import EngineDied, Sampling, TextEngine, load_engine
from antiphon.engines.tools import Call, Tool

FAKE = "tests.engines.text.fake_host"
SAMPLING = Sampling(max_tokens=8, temperature=0.5)


@pytest.fixture(autouse=True)
def fake_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_engine, "HOST", FAKE)


def load(folder: str = "here") -> TextEngine:
    return load_engine(VllmConfig(temperature=0.25), Path(folder), Path("work"))


def with_engine(scenario: Callable[[TextEngine], Awaitable[None]]) -> None:
    async def main() -> None:
        engine = await asyncio.to_thread(load)
        try:
            async with asyncio.timeout(30):
                await scenario(engine)
        finally:
            await engine.close()

    asyncio.run(main())


async def written(engine: TextEngine, name: str, tokens: list[int], sampling: Sampling) -> str:
    return "".join([piece.text async for piece in engine.generate(name, tokens, sampling)])


MESSAGES = st.lists(
    st.one_of(
        st.builds(Abort, st.text(max_size=20)),
        st.builds(
            Generate,
            request_id=st.text(max_size=20),
            tokens=st.lists(st.integers(0, 2**31), max_size=40),
            max_tokens=st.integers(1, 4096),
            temperature=st.floats(0, 2),
            constraint=st.none() | st.text(max_size=50),
        ),
    ),
    max_size=5,
)


@given(MESSAGES, st.lists(st.integers(1, 50), min_size=1))
def test_messages_arrive_however_they_are_cut(
    messages: list[Generate | Abort], cuts: list[int]
) -> None:
    data = b"".join(frame(each) for each in messages)
    got: list[Generate | Abort] = []
    unframer, at, turn = Unframer(ToHost), 0, 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        got += list(unframer.feed(data[at : at + size]))
        at, turn = at + size, turn + 1
    assert got == messages


@pytest.mark.parametrize(
    "data",
    [
        (MAX_MESSAGE + 1).to_bytes(4, "big"),
        (3).to_bytes(4, "big") + b"\xc1\xc1\xc1",
        (1).to_bytes(4, "big") + b"\x01",
    ],
)
def test_what_is_no_message_closes_the_link(data: bytes) -> None:
    with pytest.raises(LinkClosed):
        list(Unframer(ToHost).feed(data))


def test_requests_run_side_by_side() -> None:
    async def scenario(engine: TextEngine) -> None:
        many = (written(engine, f"r{n}", [n, n + 20], SAMPLING) for n in range(10))
        assert await asyncio.gather(*many) == [f"{n}@0.5 {n + 20}@0.5 " for n in range(10)]
        assert engine.unfinished == 0

    with_engine(scenario)


def test_the_deployments_temperature_where_none_is_asked_for() -> None:
    async def scenario(engine: TextEngine) -> None:
        assert await written(engine, "r", [1], Sampling(max_tokens=8)) == "1@0.25 "

    with_engine(scenario)


def test_an_answer_that_is_not_wanted_any_more() -> None:
    async def scenario(engine: TextEngine) -> None:
        async with aclosing(engine.generate("r", [1, 99], SAMPLING)) as pieces:
            assert (await anext(pieces)).text == "1@0.5 "
            assert engine.unfinished == 1
        await until(lambda: engine.unfinished == 0)
        assert await written(engine, "r", [2], SAMPLING) == "2@0.5 "

    with_engine(scenario)


def test_questions_are_answered() -> None:
    async def scenario(engine: TextEngine) -> None:
        calls = (Call("c", "f", "{}"),)
        messages = [Message("user", "abc"), Message("assistant", "de", calls=calls)]
        assert await asyncio.to_thread(engine.count, "hello") == 5
        assert await asyncio.to_thread(engine.render, messages, [Tool(name="f")]) == [*range(6)]
        assert await asyncio.to_thread(engine.problem_of, "bad") == "bad"
        assert await asyncio.to_thread(engine.problem_of, "") is None

    with_engine(scenario)


def test_the_end_of_the_process_is_seen_by_all() -> None:
    async def scenario(engine: TextEngine) -> None:
        async def lost(tokens: list[int]) -> None:
            with pytest.raises(EngineDied):
                await written(engine, f"r{tokens[-1]}", tokens, SAMPLING)

        await asyncio.gather(lost([1, 99]), lost([2, 13]))
        await asyncio.to_thread(select.select, [engine.sentinel], [], [], 30)
        assert os.read(engine.sentinel, 1) == b""
        assert engine.unfinished == 0
        await lost([3])
        with pytest.raises(EngineDied):
            await asyncio.to_thread(engine.count, "hello")

    with_engine(scenario)


@pytest.mark.parametrize(
    ("folder", "said"),
    [("broken", "it is broken"), ("dies", "the language model's process did not start")],
)
def test_a_model_that_does_not_load(folder: str, said: str) -> None:
    with pytest.raises(StageFailure, match=said) as failed:
        load(folder)
    assert failed.value.error.code == "model_unloadable"
    assert not [each for each in psutil.Process().children() if FAKE in each.cmdline()]


def test_closing_ends_the_process_and_nothing_can_be_asked() -> None:
    async def scenario(engine: TextEngine) -> None:
        await engine.close()
        await engine.close()
        assert not [each for each in psutil.Process().children() if FAKE in each.cmdline()]
        with pytest.raises(EngineDied):
            engine.count("hello")

    with_engine(scenario)


def test_the_server_imports_neither_vllm_nor_torch() -> None:
    """They would double its memory and the time to start."""
    code = (
        "import sys; import antiphon.engines.pipelines.cascade; "
        "print([each for each in ('vllm', 'torch', 'transformers') if each in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_deployment_travels_whole() -> None:
    """The link carries the configuration of the stage as it is."""
    config = VllmConfig(model="x", context_tokens=77, top_p=0.5)
    (got,) = Unframer(Question).feed(frame(Load(config, "f", "w")))
    assert got == Load(config, "f", "w")
