"""The real thing: one stock vLLM engine serves all tests of this file, and is killed by the last."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

import psutil
import pytest
from tests.support.token_models import OTHER, Chain, TinyModel, write_model
from tests.support.waiting import until

from antiphon.engines.catalog import default_cache_root
from antiphon.engines.speech.families.family import TokenSampling
from antiphon.engines.speech.tokens.config import TokenModelConfig
from antiphon.engines.speech.tokens.engine import TokenEngine, TokenEngineDied, TokenRequest
from antiphon.engines.speech.tokens.layout import Layout, Slot, TokenBlock
from antiphon.engines.speech.tokens.rules import Script
from antiphon.engines.speech.tokens.splitter import Splitter
from antiphon.engines.speech.tokens.vllm_tokens import HOST, load_tokens

T = TypeVar("T")
# Starting vLLM is 20 s on two idle cores, and the whole of it counts for the first test.
pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]

STOP, ASK, WORD = 290, 291, 3
ONE, TWO, THREE = 292, 293, 294
SAID = range(270, 280)
ROUND = range(280, 286)
BLOCKS = tuple(TokenBlock(300 + 16 * n, 16) for n in range(7))
LAYOUT = Layout(
    slots=(Slot(0, 0, 4), Slot(1, 0, 2), *(Slot(2, n) for n in (0, 1)), Slot(1, 2, 2))
    + tuple(Slot(2, n) for n in (2, 3)),
    blocks=BLOCKS,
    steps=4,
    codebooks=3,
)
SLOTS = [f"slot{n}" for n in range(7)]
# It stops seldom, breaks half of its frames, and lays words between their tokens.
SLOPPY: dict[str, dict[str, float]] = {
    slot: {following: 0.85, slot: 0.05, OTHER: 0.08, "stop": 0.02}
    for slot, following in zip(SLOTS, [*SLOTS[1:], SLOTS[0]], strict=True)
}
CHAIN = Chain(
    classes={
        "stop": [STOP],
        "ask": [ASK],
        "one": [ONE],
        "two": [TWO],
        "three": [THREE],
        "said": SAID,
        "round": ROUND,
        **{
            name: range(block.base, block.base + block.size)
            for name, block in zip(SLOTS, BLOCKS, strict=True)
        },
    },
    follow={
        "one": {"two": 1},
        "two": {"three": 1},
        "three": {"stop": 1},
        "said": {"ask": 1},
        "round": {"round": 1},
        OTHER: {"slot0": 1},
        **SLOPPY,
    },
)
GREEDY = TokenSampling(temperature=0.0)


class Lab:
    """A running engine, and the loop it lives in."""

    def __init__(self, runner: asyncio.Runner, engine: TokenEngine) -> None:
        self._runner = runner
        self.engine = engine
        self._asked = 0

    def run(self, scenario: Callable[[], Awaitable[T]]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(120):
                return await scenario()

        return self._runner.run(bounded())

    def request(self, *tokens: int, **members: Any) -> TokenRequest:
        self._asked += 1
        named: dict[str, Any] = {"max_tokens": 60, "stop": (STOP,), "sampling": TokenSampling()}
        named |= members
        return TokenRequest(request_id=f"r{self._asked}", tokens=tokens, **named)

    async def said(self, request: TokenRequest) -> tuple[list[int], str | None]:
        tokens: list[int] = []
        finish = None
        async for piece in self.engine.generate(request):
            assert finish is None
            tokens += piece.tokens
            finish = piece.finish
        return tokens, finish

    def answer(self, *tokens: int, **members: Any) -> tuple[list[int], str | None]:
        return self.run(lambda: self.said(self.request(*tokens, **members)))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = write_model(
        tmp_path_factory.mktemp("tiny"), TinyModel(chain=CHAIN, size=450, eos=THREE)
    )
    config = TokenModelConfig(model=str(folder))
    with asyncio.Runner() as runner:
        # What vLLM finds out of a class of models is kept there.
        work = default_cache_root(os.environ) / ".vllm"
        engine = load_tokens(config, ("LlamaForCausalLM",), 512, folder, work)
        made = Lab(runner, engine)
        yield made
        made.run(engine.close)
    assert hosts() == []


def hosts() -> list[int]:
    return [
        child.pid
        for child in psutil.Process().children()
        if any(HOST in part for part in child.cmdline())
    ]


def broken(tokens: list[int]) -> int:
    """Code tokens of frames that aren't whole."""
    splitter = Splitter(LAYOUT)
    splitter.feed(tokens)
    splitter.end()
    return splitter.dropped


def test_ids_go_in_and_come_out_and_the_one_that_stops_is_left_out(lab: Lab) -> None:
    assert lab.answer(WORD, WORD, ONE, sampling=GREEDY) == ([TWO, THREE], "stop")
    assert lab.answer(ONE, TWO, sampling=GREEDY) == ([THREE], "stop")


def test_the_models_own_end_is_no_end_unless_it_is_named(lab: Lab) -> None:
    assert lab.answer(ONE, sampling=GREEDY, stop=(TWO,)) == ([], "stop")
    tokens, finish = lab.answer(ONE, sampling=GREEDY, stop=(), max_tokens=5)
    assert tokens[:3] == [TWO, THREE, STOP]
    assert (len(tokens), finish) == (5, "length")


def test_the_bound_of_tokens_is_told_as_length(lab: Lab) -> None:
    tokens, finish = lab.answer(ROUND[0], max_tokens=9)
    assert (len(tokens), finish) == (9, "length")


def test_a_prompt_that_does_not_fit_is_an_error(lab: Lab) -> None:
    assert lab.answer(*[WORD] * 600) == ([], "error")


def test_eight_at_once_keep_their_own_grammar(lab: Lab) -> None:
    """With others among them that have none, and that come and go at other times."""
    ruled = [
        lab.request(WORD, grammar=LAYOUT, markup=False, max_tokens=77 + 7 * n) for n in range(4)
    ]
    mixed = [lab.request(WORD, grammar=LAYOUT, max_tokens=77 + 7 * n) for n in range(2)]
    free = [lab.request(WORD, max_tokens=30 + 40 * n, stop=()) for n in range(3)]

    async def all_of_them() -> tuple[list[tuple[list[int], str | None]], int]:
        tasks = [asyncio.ensure_future(lab.said(each)) for each in (*free, *ruled, *mixed)]
        await until(lambda: lab.engine.unfinished >= 8)
        return await asyncio.gather(*tasks), lab.engine.unfinished

    answers, unfinished = lab.run(all_of_them)
    for tokens, finish in answers[3:7]:
        assert broken(tokens) == 0 or finish == "length"
        assert all(BLOCKS[n % 7].code(token) is not None for n, token in enumerate(tokens))
        assert finish == "length" or len(tokens) % 7 == 0
    for tokens, finish in answers[7:]:
        codes = [token for token in tokens if token >= BLOCKS[0].base and token < 412]
        assert all(BLOCKS[n % 7].code(token) is not None for n, token in enumerate(codes))
        assert finish == "length" or len(codes) % 7 == 0
    assert sum(broken(tokens) for tokens, _ in answers[:3]) > 0
    assert unfinished == 0


@pytest.mark.parametrize("window", [5, None])
def test_a_short_memory_is_another_than_that_of_all(lab: Lab, window: int | None) -> None:
    """Six tokens that may follow each other: with the last five punished it is always the
    turn of the sixth; with all of them punished, none is."""
    sampling = replace(GREEDY, repetition_penalty=2.0, penalty_window=window)
    tokens, _ = lab.answer(ROUND[0], sampling=sampling, max_tokens=24)
    said = [ROUND[0], *tokens]
    assert set(said) == set(ROUND)
    turns = all(len(set(said[n : n + 6])) == 6 for n in range(len(said) - 5))
    assert turns == (window is not None)


def test_a_script_is_told_on_demand(lab: Lab) -> None:
    first, *told = list(SAID)[:5]
    script = Script(ask=ASK, each=2, tokens=tuple(told))
    tokens, finish = lab.answer(first, sampling=GREEDY, script=script)
    assert tokens == [ASK, told[0], told[1], ASK, told[2], told[3], ASK]
    assert finish == "stop"


def test_a_seed_says_the_same_again(lab: Lab) -> None:
    one, again, other = (lab.answer(WORD, grammar=LAYOUT, seed=seed)[0] for seed in (5, 5, 6))
    assert one == again
    assert one != other


def test_prompts_that_are_too_long_for_one_step_may_have_seeds(lab: Lab) -> None:
    """Read in parts, one of them would end the engine."""
    long = [lab.request(*[WORD] * 490, ONE, sampling=GREEDY, seed=n) for n in range(6)]

    async def all_of_them() -> list[tuple[list[int], str | None]]:
        return await asyncio.gather(*map(lab.said, long))

    assert lab.run(all_of_them) == [([TWO, THREE], "stop")] * 6


def test_who_goes_away_is_not_generated_for(lab: Lab) -> None:
    async def scenario() -> int:
        request = lab.request(ROUND[0], max_tokens=450)
        async with aclosing(lab.engine.generate(request)) as pieces:
            await anext(pieces)
            assert lab.engine.unfinished == 1
        await until(lambda: lab.engine.unfinished == 0)
        return len((await lab.said(lab.request(ONE, sampling=GREEDY)))[0])

    assert lab.run(scenario) == 2


def test_the_end_of_the_process_ends_all_that_wait(lab: Lab) -> None:
    async def scenario() -> None:
        async def lost(request: TokenRequest) -> None:
            with pytest.raises(TokenEngineDied):
                await lab.said(request)

        tasks = [
            asyncio.ensure_future(lost(lab.request(ROUND[0], max_tokens=450))) for _ in range(2)
        ]
        await until(lambda: lab.engine.unfinished == 2)
        (pid,) = hosts()
        os.kill(pid, signal.SIGKILL)
        await asyncio.gather(*tasks)
        assert lab.engine.unfinished == 0
        await lost(lab.request(ONE))

    lab.run(scenario)
