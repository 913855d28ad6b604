"""The token engine on the link to its process: what is asked, and what comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.engines.speech.tokens.fake_tokens import ASKED, LOADED
from tests.support.waiting import until

from antiphon.engines.speech.families.family import TokenSampling
from antiphon.engines.speech.tokens import vllm_tokens
from antiphon.engines.speech.tokens.config import TokenModelConfig
from antiphon.engines.speech.tokens.engine import TokenEngine, TokenEngineDied, TokenRequest
from antiphon.engines.speech.tokens.layout import Layout, Slot, TokenBlock
from antiphon.engines.speech.tokens.rules import Script
from antiphon.engines.speech.tokens.vllm_tokens import load_tokens
from antiphon.engines.stage import StageFailure

LAYOUT = Layout(
    slots=(Slot(0), Slot(1)),
    blocks=(TokenBlock(100, 8), TokenBlock(108, 8)),
    steps=1,
    codebooks=2,
)
LLAMA = ("LlamaForCausalLM", "Qwen2ForCausalLM")


class Wider(TokenModelConfig, frozen=True, kw_only=True, tag_field="use", tag="wider"):
    """What a deployment has, with members that are not the engine's."""

    family: str = "f"


@pytest.fixture(autouse=True)
def fake_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_tokens, "HOST", "tests.engines.speech.tokens.fake_tokens")


def load(folder: Path, about: dict[str, object], context: int | None = None) -> TokenEngine:
    (folder / "config.json").write_text(json.dumps(about), encoding="utf-8")
    config = Wider(model="m", context_tokens=context)
    return load_tokens(config, LLAMA, 4096, folder, folder)


def with_engine(folder: Path, scenario: Callable[[TokenEngine], Awaitable[None]]) -> None:
    async def main() -> None:
        engine = await asyncio.to_thread(load, folder, {"architectures": ["LlamaForCausalLM"]})
        try:
            async with asyncio.timeout(30):
                await scenario(engine)
        finally:
            await engine.close()

    asyncio.run(main())


def request(*tokens: int, **members: Any) -> TokenRequest:
    named: dict[str, Any] = {"max_tokens": 9, "stop": (7, 8), "sampling": TokenSampling()}
    named |= members
    return TokenRequest(request_id="r", tokens=tokens, **named)


async def said(engine: TokenEngine, asked: TokenRequest) -> list[tuple[list[int], str | None]]:
    return [(list(piece.tokens), piece.finish) async for piece in engine.generate(asked)]


def test_pieces_of_any_size_and_without_the_token_that_stopped(tmp_path: Path) -> None:
    async def scenario(engine: TokenEngine) -> None:
        got = await said(engine, request(1, 2, 3, 4))
        assert got == [([], None), ([1], None), ([2, 3], None), ([4], None), ([], "stop")]
        assert engine.unfinished == 0

    with_engine(tmp_path, scenario)


def test_all_of_a_request_is_told(tmp_path: Path) -> None:
    async def scenario(engine: TokenEngine) -> None:
        async def asked(**members: Any) -> dict[str, Any]:
            await said(engine, request(1, **members))
            told: dict[str, Any] = json.loads((tmp_path / ASKED).read_bytes())
            choice: dict[str, Any] = told["choice"]
            return told | choice

        sampling: dict[str, Any] = {"temperature": 0.5, "top_k": 4, "top_p": 0.75, "min_p": 0.25}
        plain = await asked(sampling=TokenSampling(**sampling, repetition_penalty=1.5), seed=3)
        assert plain.items() >= {**sampling, "max_tokens": 9, "seed": 3, "stop": [7, 8]}.items()
        assert (plain["repetition_penalty"], plain["extra"]) == (1.5, {})
        short = await asked(sampling=TokenSampling(repetition_penalty=1.5, penalty_window=64))
        assert short["repetition_penalty"] == 1.0
        rules = short["extra"]["token_rules"]
        assert (rules["penalty"], rules["window"], rules["frames"]) == (1.5, 64, [])
        script = Script(ask=1, each=2, tokens=(5, 6))
        ruled = await asked(grammar=LAYOUT, markup=False, script=script)
        rules = ruled["extra"]["token_rules"]
        assert (rules["frames"], rules["ends"]) == ([[100, 8], [108, 8]], [7, 8])
        assert rules["markup"] is False
        assert rules["script"] == {"ask": 1, "each": 2, "tokens": [5, 6]}

    with_engine(tmp_path, scenario)


def test_closing_aborts_and_death_is_told(tmp_path: Path) -> None:
    async def scenario(engine: TokenEngine) -> None:
        async with aclosing(engine.generate(request(99))) as pieces:
            waiting = asyncio.ensure_future(anext(pieces))
            await until(lambda: engine.unfinished == 1)
            waiting.cancel()
            await asyncio.wait([waiting])
        await until(lambda: engine.unfinished == 0)
        with pytest.raises(TokenEngineDied):
            await said(engine, request(13))
        with pytest.raises(TokenEngineDied):
            await said(engine, request(1))

    with_engine(tmp_path, scenario)


@pytest.mark.parametrize(
    ("own", "named", "expected"),
    [(None, None, 4096), (2048, None, 2048), (8192, None, 4096), (2048, 1024, 1024)],
)
def test_the_context_is_the_models_the_familys_or_the_deployments(
    tmp_path: Path, own: int | None, named: int | None, expected: int
) -> None:
    about: dict[str, object] = {"architectures": ["Qwen2ForCausalLM"]}
    engine = load(tmp_path, about | {"max_position_embeddings": own}, named)
    asyncio.run(engine.close())
    told = json.loads((tmp_path / LOADED).read_bytes())
    assert told["config"]["context_tokens"] == expected
    assert "family" not in told["config"]


@pytest.mark.parametrize(
    ("about", "got"),
    [({"architectures": ["MimiModel"]}, "MimiModel"), ({}, "none that it names")],
)
def test_a_model_of_another_kind_is_refused(
    tmp_path: Path, about: dict[str, object], got: str
) -> None:
    with pytest.raises(StageFailure) as failed:
        load(tmp_path, about)
    assert failed.value.error.code == "model_unusable"
    expected = "expected a model of LlamaForCausalLM or Qwen2ForCausalLM"
    assert failed.value.error.message == f"{expected}, got {got}"


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageFailure, match=r"a folder with a config\.json") as failed:
        load_tokens(TokenModelConfig(model="m"), LLAMA, 64, tmp_path / "none", tmp_path)
    assert str(tmp_path) not in failed.value.error.message
