"""A model that "writes" given lines word by word, at an exact pace: for tests and load."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from itertools import cycle
from typing import TypeAlias

from ..chunks import CallDelta, End, EndReason, Fitted, TextDelta, Usage
from ..deployment import ScriptedArConfig
from ..stage import StageClosed
from ..streams import Inbox, TaskStream
from .request import GenerateRequest

Chunk: TypeAlias = TextDelta | CallDelta | Fitted

USER_MARK = "{user}"
"""Where a line has this, the text of the last user message is put."""


class ScriptedArStage:
    """Answers every request with the next of its lines; one word is one token."""

    def __init__(self, config: ScriptedArConfig) -> None:
        self._config = config
        self._lines: Iterator[str] = cycle(config.lines or ("",))
        self._streams: set[TaskStream[None, Chunk]] = set()
        self._running = False
        self._opened = 0

    @property
    def state(self) -> str:
        """``ready`` or ``closed``."""
        return "ready" if self._running else "closed"

    async def start(self) -> None:
        """Be ready at once."""
        self._running = True

    def open(self, request: GenerateRequest) -> TaskStream[None, Chunk]:
        """Begin writing the next line.

        Raises:
            StageClosed: the stage is not running.
        """
        if not self._running:
            raise StageClosed("ar")
        line = next(self._lines).replace(USER_MARK, _last_question(request))
        stream = TaskStream[None, Chunk](
            f"ar-{request.request_id}",
            lambda inbox: self._write(line, request, inbox),
            on_done=lambda end: self._streams.discard(stream),
        )
        self._streams.add(stream)
        self._opened += 1
        return stream

    async def close(self) -> None:
        """End every stream with an error. Idempotent."""
        self._running = False
        for stream in (streams := tuple(self._streams)):
            stream.fail(StageClosed("ar").error)
        for stream in streams:
            await stream.wait_done()

    def statistics(self) -> Mapping[str, float]:
        """``requests``: opened so far; ``running``: open now."""
        return {"requests": self._opened, "running": len(self._streams)}

    async def _write(
        self, line: str, request: GenerateRequest, inbox: Inbox[None]
    ) -> AsyncGenerator[Chunk | End, None]:
        words = split_words(line)
        allowed = words if request.max_tokens is None else words[: request.max_tokens]
        first_at = asyncio.get_running_loop().time() + self._config.first_token_ms / 1000
        for n, word in enumerate(allowed):
            await _sleep_until(first_at + n / self._config.tokens_per_second)
            yield TextDelta(word, 1)
        told = sum(len(split_words(message.text)) for message in request.messages)
        cut = len(allowed) < len(words)
        yield End(
            EndReason.LENGTH if cut else EndReason.COMPLETED,
            usage=Usage(input_tokens=told, output_tokens=len(allowed)),
        )


def split_words(line: str) -> list[str]:
    """The words of a line, each with the space before it; joined they are the line."""
    return re.findall(r"\s*\S+", line)


async def _sleep_until(at: float) -> None:
    # Against the start and not the last word: lateness of one word must not add up.
    delay = at - asyncio.get_running_loop().time()
    if delay > 0:
        await asyncio.sleep(delay)


def _last_question(request: GenerateRequest) -> str:
    questions = [message.text for message in request.messages if message.role == "user"]
    return questions[-1] if questions else ""
