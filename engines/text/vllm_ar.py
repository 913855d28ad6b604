"""The autoregressive stage on vLLM: a conversation in, the assistant's next words out."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from ..catalog import require
from ..chunks import CallDelta, End, EndReason, Fitted, StageError, TextDelta, Usage
from ..deployment import VllmConfig
from ..pipeline import Message
from ..stage import FRESH_SECONDS, StageFailure
from ..streams import Inbox, TaskStream
from .host_link import Piece
from .keeper import RESTART_WAITS, Keeper
from .prompt import Count, CountCache, fit_or_refuse, too_long
from .request import GenerateRequest
from .tool_parser import ToolParser
from .tool_plan import ToolPlanner
from .vllm_engine import EngineDied, Sampling, TextEngine, load_engine

logger = logging.getLogger(__name__)

MESSAGE_TOKENS = 8
"""Allowance for the marks around a message; what templates add is 4 to 6."""

LEAST_ROOM = 8
"""Tools have to leave this part of the context, an eighth, for the conversation."""

ONE_TOKEN, TWO_TOKENS = Sampling(max_tokens=1), Sampling(max_tokens=2)

ABORT_SECONDS = 5.0
"""Bound on telling the engine to abort: a socket to a process on this machine."""

T = TypeVar("T")
Load: TypeAlias = Callable[[VllmConfig, Path, Path], TextEngine]
Chunk: TypeAlias = TextDelta | CallDelta | Fitted
Stream: TypeAlias = TaskStream[None, Chunk]

_NOT_WRITTEN = StageError("generation_failed", "the language model could not go on")


class VllmStage:
    """Serves many conversations at once from one engine, and restarts it when it dies."""

    def __init__(
        self,
        config: VllmConfig,
        cache_root: Path,
        *,
        load: Load = load_engine,
        restart_waits: Sequence[float] = RESTART_WAITS,
    ) -> None:
        self._config = config
        self._cache_root = cache_root
        self._load = load
        self._keeper = Keeper[TextEngine](
            "ar", "the language model", self._launch, self._end_streams, waits=restart_waits
        )
        self._count: Count = len
        self._streams: set[Stream] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._greeting: list[int] = []
        self._answered_at = -math.inf
        self._opened = 0
        self._usage = Usage()
        self._planned: tuple[TextEngine, ToolPlanner] | None = None

    @property
    def state(self) -> str:
        """``ready``, ``starting``, ``restarting``, ``failed`` or ``closed``."""
        return self._keeper.state

    async def wait_state(self, *states: str) -> None:
        """Return as soon as :attr:`state` is one of ``states``."""
        await self._keeper.wait_state(*states)

    async def start(self) -> None:
        """Start the engine's process, load the model and generate a first answer.

        Raises:
            StageFailure: the model is missing or does not load.
        """
        # One thread: the tokenizer is not made for two at once.
        self._threads = self._threads or ThreadPoolExecutor(1, thread_name_prefix="ar")
        await self._keeper.start()

    def open(self, request: GenerateRequest) -> Stream:
        """Begin one answer.

        Raises:
            StageClosed: the stage is not running.
            StageFailure: its engine is being restarted.
        """
        engine = self._keeper.engine
        if engine is None:
            raise self._keeper.unavailable()
        self._opened += 1
        name = f"{request.request_id}-{self._opened}"
        stream = TaskStream[None, Chunk](
            f"ar-{name}",
            lambda inbox: self._answer(engine, name, request, inbox),
            on_done=lambda end: self._streams.discard(stream),
        )
        self._streams.add(stream)
        return stream

    async def warm(self) -> None:
        """Make the next answer as quick as if another had just been given."""
        engine, loop = self._keeper.engine, asyncio.get_running_loop()
        if engine is None or engine.unfinished or loop.time() - self._answered_at < FRESH_SECONDS:
            return
        self._answered_at = loop.time()
        try:
            async with aclosing(engine.generate("warm", self._greeting, ONE_TOKEN)) as pieces:
                async for _ in pieces:
                    pass
        except EngineDied:
            # The keeper is about to find out by itself.
            pass

    async def close(self) -> None:
        """End every stream with an error, and the engine's process. Idempotent."""
        await self._keeper.close()
        self._count = len
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    def statistics(self) -> Mapping[str, float]:
        """Counters since the start; ``running`` counts open streams, ``unfinished`` the
        engine's own requests."""
        engine = self._keeper.engine
        return {
            "requests": self._opened,
            "running": len(self._streams),
            "unfinished": engine.unfinished if engine is not None else 0,
            "restarts": self._keeper.restarts,
            "input_tokens": self._usage.input_tokens,
            "cached_tokens": self._usage.cached_tokens,
            "output_tokens": self._usage.output_tokens,
        }

    # The engine and its life.

    async def _launch(self) -> TextEngine:
        engine = await self._in_thread(self._load_now)
        try:
            # The first answer takes twice as long as any other.
            self._greeting = await self._in_thread(lambda: engine.render([Message("user", "Hi")]))
            async for _ in engine.generate("warm-up", self._greeting, TWO_TOKENS):
                pass
        except BaseException:
            await engine.close()
            raise
        self._count = CountCache(lambda text: engine.count(text) + MESSAGE_TOKENS)
        return engine

    def _load_now(self) -> TextEngine:
        named = Path(self._config.model)
        folder = named if named.is_dir() else require(self._config.model, self._cache_root)[1]
        return self._load(self._config, folder, self._cache_root / ".vllm")

    async def _end_streams(self, error: StageError) -> None:
        streams = tuple(self._streams)
        for stream in streams:
            stream.fail(error)
        for stream in streams:
            await stream.wait_done()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    # One answer.

    async def _answer(
        self, engine: TextEngine, name: str, request: GenerateRequest, inbox: Inbox[None]
    ) -> AsyncGenerator[Chunk | End, None]:
        usage, finish = Usage(), None
        try:
            plan = await self._in_thread(lambda: self._plan(engine, request))
            if plan.dropped:
                yield Fitted(plan.dropped)
            writing = _Writing(plan.parser)
            async with aclosing(engine.generate(name, plan.tokens, plan.sampling)) as pieces:
                async for piece in pieces:
                    usage, finish = _add(usage, piece), piece.finish
                    for chunk in writing.take(piece):
                        yield chunk
        except EngineDied:
            # The keeper is about to find out by itself.
            self._keeper.lost(engine)
            raise self._keeper.unavailable() from None
        finally:
            self._usage = _sum(self._usage, usage)
            self._answered_at = asyncio.get_running_loop().time()
            if finish is None:
                await _abort(engine, name)
        if finish == "error":
            raise StageFailure(_NOT_WRITTEN)
        yield End(EndReason.LENGTH if finish == "length" else EndReason.COMPLETED, usage=usage)

    def _plan(self, engine: TextEngine, request: GenerateRequest) -> _Plan:
        """The prompt, and how the answer to it is to be written and read."""
        context = self._config.context_tokens
        wanted = request.max_tokens or self._config.max_output_tokens
        budget = context - min(wanted, context // 2)
        tools = self._planner(engine).plan(request.tools, request.tool_choice)
        if budget - tools.tokens < context // LEAST_ROOM:
            message = f"tools: they take {tools.tokens} tokens, and the model's context has"
            raise too_long(f"{message} {context}")
        room = budget - tools.tokens
        fit = fit_or_refuse(request.messages, room, self._count, request.truncation)
        tokens = engine.render(fit.messages, tools.shown)[-(context - 1) :]
        sampling = Sampling(
            max_tokens=min(wanted, context - len(tokens)),
            temperature=request.temperature,
            constraint=tools.constraint,
        )
        parser = tools.new_parser() if tools.new_parser is not None else None
        return _Plan(tokens, sampling, fit.dropped, parser)

    def _planner(self, engine: TextEngine) -> ToolPlanner:
        if self._planned is None or self._planned[0] is not engine:
            self._planned = (engine, ToolPlanner(engine, self._config.tool_dialect))
        return self._planned[1]


@dataclass(frozen=True, slots=True)
class _Plan:
    tokens: list[int]
    sampling: Sampling
    dropped: int
    parser: ToolParser | None


class _Writing:
    """Makes chunks of an engine's pieces, each token counted in one text at most."""

    def __init__(self, parser: ToolParser | None) -> None:
        self._parser = parser
        self._silent = 0

    def take(self, piece: Piece) -> list[TextDelta | CallDelta]:
        """The chunks of a piece; with the last piece all that is left."""
        self._silent += piece.tokens
        if self._parser is None:
            return [self._text(piece.text)] if piece.text else []
        made = self._parser.feed(piece.text)
        if piece.finish is not None:
            made += self._parser.flush(cut=piece.finish == "length")
        return [self._text(each) if isinstance(each, str) else self._call(each) for each in made]

    def _text(self, text: str) -> TextDelta:
        tokens, self._silent = self._silent, 0
        return TextDelta(text, tokens)

    def _call(self, call: CallDelta) -> CallDelta:
        self._silent = 0
        return call


async def _abort(engine: TextEngine, name: str) -> None:
    try:
        async with asyncio.timeout(ABORT_SECONDS):
            await engine.abort(name)
    except TimeoutError:
        logger.error("the engine was not told to abort within %.0f s", ABORT_SECONDS)


def _add(usage: Usage, piece: Piece) -> Usage:
    return Usage(
        input_tokens=piece.prompt_tokens or usage.input_tokens,
        cached_tokens=piece.cached_tokens or usage.cached_tokens,
        output_tokens=usage.output_tokens + piece.tokens,
    )


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
    )
