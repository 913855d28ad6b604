"""Tokens from stock vLLM, in a process of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec

from ...chunks import StageError
from ...stage import StageFailure
from ...text.host_link import Generate, Load, Piece, TokenChoice
from ...text.hosted import EngineDied, Host, Hosted
from .config import TokenModelConfig
from .engine import TokenEngine, TokenEngineDied, TokenPiece, TokenRequest
from .rules import RULES_KEY, Rules, frames_of

HOST = "antiphon.engines.text.vllm_host"

ENVIRONMENT = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
"""Logits processors have another interface in the second runner, which not every machine has."""


def load_tokens(
    config: TokenModelConfig,
    architectures: Sequence[str],
    context_tokens: int,
    folder: Path,
    work: Path,
) -> TokenEngine:
    """Start the engine's process and load the model; blocks for 10 s and more.

    Args:
        config: of the deployment; one with more members than its own may be given.
        architectures: that the model may have.
        context_tokens: where the deployment names none; the model's own where that is less.
        folder: of the model.
        work: a folder for what vLLM keeps.

    Raises:
        StageFailure: the model is not of its family, vLLM is not installed, or could not load it.
    """
    about = _about(folder)
    check_architecture(about, architectures)
    named = config.context_tokens
    most = about.get("max_position_embeddings")
    if isinstance(most, int):
        context_tokens = min(context_tokens, most)
    values: dict[str, Any] = {
        name: getattr(config, name) for name in TokenModelConfig.__struct_fields__
    }
    values["context_tokens"] = named or context_tokens
    plain = TokenModelConfig(**values)
    host = Host.start(HOST, work, ENVIRONMENT)
    host.load(Load(plain, str(folder), str(work)))
    return _HostedTokens(host)


def check_architecture(about: dict[str, Any], architectures: Sequence[str]) -> None:
    """Refuse a model whose ``config.json`` says that it is another one.

    Raises:
        StageFailure: ``model_unusable``, with what it is and what it may be.
    """
    said = about.get("architectures")
    found = [str(each) for each in said] if isinstance(said, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if not set(found) & set(architectures):
        what = f"expected a model of {' or '.join(architectures)}"
        message = f"{what}, got {', '.join(found) or 'none that it names'}"
        raise StageFailure(StageError("model_unusable", message))


def _about(folder: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode((folder / "config.json").read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        message = f"expected a folder with a config.json, got {folder.name}"
        raise StageFailure(StageError("model_unusable", message)) from None


class _HostedTokens(Hosted):
    async def generate(self, request: TokenRequest) -> AsyncGenerator[TokenPiece, None]:
        try:
            async with aclosing(self.pieces(_asked(request))) as pieces:
                async for piece in pieces:
                    yield _given(piece, request.stop)
        except EngineDied:
            raise TokenEngineDied from None


def _asked(request: TokenRequest) -> Generate:
    sampling = request.sampling
    return Generate(
        request_id=request.request_id,
        tokens=list(request.tokens),
        max_tokens=request.max_tokens,
        temperature=sampling.temperature,
        choice=TokenChoice(
            stop=request.stop,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            repetition_penalty=sampling.repetition_penalty
            if sampling.penalty_window is None
            else 1.0,
            seed=request.seed,
            extra=_extra(request),
        ),
    )


def _extra(request: TokenRequest) -> dict[str, Any]:
    sampling = request.sampling
    rules = Rules(
        frames=() if request.grammar is None else frames_of(request.grammar),
        ends=request.stop,
        markup=request.markup,
        penalty=sampling.repetition_penalty,
        window=sampling.penalty_window or 0,
        script=request.script,
    )
    return {} if rules.idle else {RULES_KEY: msgspec.to_builtins(rules)}


def _given(piece: Piece, stop: Sequence[int]) -> TokenPiece:
    tokens = piece.ids
    if piece.finish == "stop" and tokens and tokens[-1] in stop:
        tokens = tokens[:-1]
    return TokenPiece(tokens, piece.finish)
