"""A model that "writes" given lines word by word, at an exact pace: for tests and load."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from itertools import cycle
from typing import TypeAlias

import msgspec

from ..chunks import CallDelta, End, EndReason, Fitted, TextDelta, Usage
from ..deployment import ScriptedArConfig, ScriptedCall
from ..stage import StageClosed
from ..streams import Inbox, TaskStream
from ..tools import callable_tools
from .prompt import Fit, fit_or_refuse
from .request import GenerateRequest
from .tool_checks import check_choice

Chunk: TypeAlias = TextDelta | CallDelta | Fitted

USER_MARK = "{user}"
"""Where a line has this, the text of the last user message is put."""

TOOL_MARK = "{tool}"
"""Where a line has this, the last output of a function is put."""

CALL_PIECES = 4
"""In so many pieces the arguments of a call are written, each a token, where they are as
long as that."""


class ScriptedArStage:
    """Answers every request with the next of its lines, or a call; one word is one token."""

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
        """Begin writing the next line, or a call, which uses up no line.

        Raises:
            StageClosed: the stage is not running.
            StageFailure: a call is required, and no function is on offer for it
                (``invalid_value``); or the conversation is too long
                (``context_length_exceeded``).
        """
        if not self._running:
            raise StageClosed("ar")
        check_choice(request.tools, request.tool_choice)
        fit = self._fit(request)
        call = choose_call(self._config.calls, request)
        pieces = _call_pieces(call) if call is not None else self._line_pieces(request)
        stream = TaskStream[None, Chunk](
            f"ar-{request.request_id}",
            lambda inbox: self._write(pieces, fit, request.max_tokens, inbox),
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

    def _fit(self, request: GenerateRequest) -> Fit:
        room = self._config.context_tokens
        if room is None:
            return Fit(request.messages, 0)
        return fit_or_refuse(request.messages, room, _count_words, request.truncation)

    def _line_pieces(self, request: GenerateRequest) -> list[TextDelta | CallDelta]:
        line = next(self._lines)
        for mark, role in ((USER_MARK, "user"), (TOOL_MARK, "tool")):
            line = line.replace(mark, _last_text(request, role))
        return [TextDelta(word, 1) for word in split_words(line)]

    async def _write(
        self,
        pieces: Sequence[TextDelta | CallDelta],
        fit: Fit,
        max_tokens: int | None,
        inbox: Inbox[None],
    ) -> AsyncGenerator[Chunk | End, None]:
        if fit.dropped:
            yield Fitted(fit.dropped)
        allowed = list(pieces if max_tokens is None else pieces[:max_tokens])
        if allowed and isinstance(last := allowed[-1], CallDelta):
            allowed[-1] = CallDelta(last.index, last.name, last.arguments, True)
        first_at = asyncio.get_running_loop().time() + self._config.first_token_ms / 1000
        for n, piece in enumerate(allowed):
            await _sleep_until(first_at + n / self._config.tokens_per_second)
            yield piece
        told = sum(_count_words(message.text) for message in fit.messages)
        cut = len(allowed) < len(pieces)
        yield End(
            EndReason.LENGTH if cut else EndReason.COMPLETED,
            usage=Usage(input_tokens=told, output_tokens=len(allowed)),
        )


def choose_call(calls: Sequence[ScriptedCall], request: GenerateRequest) -> ScriptedCall | None:
    """The call that is made, ``None`` where a line is said.

    Where one is required and none fits, it is one that is configured for a function on
    offer, and else the first function on offer, without arguments.
    """
    names = [tool.name for tool in callable_tools(request.tools, request.tool_choice)]
    offered = [call for call in calls if call.name in names]
    last = request.messages[-1] if request.messages else None
    asked = last.text.lower() if last is not None and last.role == "user" else None
    fitting = [each for each in offered if asked is not None and each.when.lower() in asked]
    if fitting:
        return fitting[0]
    if not names or request.tool_choice.mode == "auto":
        return None
    return offered[0] if offered else ScriptedCall(name=names[0])


def split_words(line: str) -> list[str]:
    """The words of a line, each with the space before it; joined they are the line."""
    return re.findall(r"\s*\S+", line)


def _call_pieces(call: ScriptedCall) -> list[TextDelta | CallDelta]:
    text = msgspec.json.encode(call.arguments).decode()
    size = -(-len(text) // CALL_PIECES)
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    return [
        CallDelta(0, call.name, part, done=n == len(parts)) for n, part in enumerate(parts, start=1)
    ]


def _count_words(text: str) -> int:
    return len(split_words(text))


async def _sleep_until(at: float) -> None:
    # Against the start and not the last word: lateness of one word must not add up.
    delay = at - asyncio.get_running_loop().time()
    if delay > 0:
        await asyncio.sleep(delay)


def _last_text(request: GenerateRequest, role: str) -> str:
    texts = [message.text for message in request.messages if message.role == role]
    return texts[-1] if texts else ""
