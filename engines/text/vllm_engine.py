"""The language model's process, as the server sees it: text in, text out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..deployment import VllmConfig
from ..pipeline import Message
from ..tools import Tool
from .host_link import Answer, Check, Count, Generate, Load, Piece, Question, Render
from .hosted import EngineDied, Host, Hosted

__all__ = ["HOST", "EngineDied", "Sampling", "TextEngine", "load_engine"]

HOST = f"{__package__}.vllm_host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How one answer is to be written."""

    max_tokens: int
    temperature: float | None = None
    """``None`` for the deployment's."""

    constraint: str | None = None
    """A structural tag, as JSON: what the answer has to look like."""


class TextEngine(Protocol):
    """A running engine and its tokenizer."""

    @property
    def unfinished(self) -> int:
        """Requests that are being generated or wait."""
        ...

    @property
    def sentinel(self) -> int:
        """A file descriptor that becomes readable when the engine's process is gone."""
        ...

    def count(self, text: str) -> int:
        """Tokens of a text; blocks. Raises :class:`EngineDied`, as the next two do."""
        ...

    def render(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        """The tokens of a conversation, up to where the assistant is to speak; blocks."""
        ...

    def problem_of(self, constraint: str) -> str | None:
        """Why a structural tag can't be enforced, in words for a client; blocks."""
        ...

    def generate(
        self, request_id: str, tokens: Sequence[int], sampling: Sampling
    ) -> AsyncGenerator[Piece, None]:
        """Generate until the model stops; closing the generator aborts.

        Raises:
            EngineDied: the engine's process is gone.
        """
        ...

    async def abort(self, request_id: str) -> None:
        """Stop generating; returns when the engine has been told."""
        ...

    async def close(self) -> None:
        """End the process and return when it is gone. Idempotent."""
        ...


def load_engine(config: VllmConfig, folder: Path, work: Path) -> TextEngine:
    """Start the engine's process and load the model; blocks for 10 s and more.

    Raises:
        StageFailure: vLLM is not installed, or could not load the model.
    """
    host = Host.start(HOST, work)
    host.load(Load(config, str(folder), str(work)))
    return _HostedText(host, config)


class _HostedText(Hosted):
    def __init__(self, host: Host, config: VllmConfig) -> None:
        super().__init__(host)
        self._config = config

    def count(self, text: str) -> int:
        return self._answer(Count(text)).count

    def render(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        return self._answer(Render(tuple(messages), tuple(tools))).tokens

    def problem_of(self, constraint: str) -> str | None:
        return self._answer(Check(constraint)).problem

    async def generate(
        self, request_id: str, tokens: Sequence[int], sampling: Sampling
    ) -> AsyncGenerator[Piece, None]:
        asked = sampling.temperature
        request = Generate(
            request_id=request_id,
            tokens=list(tokens),
            max_tokens=sampling.max_tokens,
            temperature=self._config.temperature if asked is None else asked,
            constraint=sampling.constraint,
        )
        async with aclosing(self.pieces(request)) as pieces:
            async for piece in pieces:
                yield piece

    def _answer(self, question: Question) -> Answer:
        answer: Answer = self.ask(question)
        return answer
