"""The code2wav stage: latents to audio, a chunk at a time, as if decoded whole."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from ..catalog import require
from ..chunks import End, Latents, PcmChunk, SpokenWords
from ..deployment import Code2wavConfig
from ..flow import Flow
from ..pipeline import OUTPUT_RATE
from ..scheduling.costs import Costs
from ..stage import StageStream
from ..streams import Inbox, TaskStream
from .chunking import INPUT_BOUND, ChunkChoice, ChunkCounts, PacedStream, steps
from .decoding import Decoder, DecodeStream, Piece
from .worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRequest:
    """Ask for the audio of the latents that follow."""

    request_id: str
    flow: Flow | None = field(default=None, compare=False)
    """Paces the audio; ``None`` for as fast as it goes."""


class Code2wavStage:
    """Decodes chunks of all streams, the most urgent first, in a thread of its own."""

    def __init__(
        self,
        config: Code2wavConfig,
        model: str,
        cache_root: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``model``: the talker's, whose decoder this is. Loads nothing yet."""
        self._config = config
        self._model = model
        self._cache_root = cache_root
        self._worker = Worker("code2wav", clock=clock)
        self._decoder: Decoder | None = None
        self._costs = Costs()
        self._batch = 1
        self._made = ChunkCounts(config.ladder)

    async def start(self) -> None:
        """Load, warm up, and measure what a chunk takes.

        Raises:
            StageFailure: the model or a package is missing; the message says what to run.
        """
        self._decoder = await self._worker.start(self._load)

    def open(self, request: DecodeRequest) -> StageStream[Latents, SpokenWords | PcmChunk]:
        """Begin the audio of one reply: :data:`~..pipeline.OUTPUT_RATE`, without a break.

        Raises:
            StageClosed: the stage is not running.
        """

        def work(inbox: Inbox[Latents]) -> AsyncGenerator[SpokenWords | PcmChunk | End, None]:
            return self._decode(inbox, request.flow)

        name = f"code2wav {request.request_id}"
        stream: TaskStream[Latents, SpokenWords | PcmChunk]
        stream = self._worker.open(name, work, input_bound=INPUT_BOUND)
        return PacedStream(stream, self._costs)

    async def warm(self) -> None:
        """Make the next chunk as quick as if another had just been decoded."""
        if (decoder := self._decoder) is not None:
            await self._worker.warm(lambda: decoder.warm_up(self._config.ladder[:1]))

    async def close(self) -> None:
        """End every stream with an error and free the model. Idempotent."""
        await self._worker.close()
        self._decoder = None

    def statistics(self) -> dict[str, float]:
        """Counters since the start, what is known of costs, and what runs or waits now.

        Those of :class:`Worker`, :class:`ChunkCounts` and :class:`Costs`, and ``batch``: how
        many chunks may be decoded at once.
        """
        made = self._made.statistics() | {"batch": float(self._batch)}
        return self._worker.statistics() | self._costs.statistics() | made

    def _load(self) -> Decoder:
        _, folder = require(self._model, self._cache_root)
        decoder = Decoder(folder, self._config.threads)
        ladder, batch = self._config.ladder, self._config.batch
        decoder.warm_up(ladder)
        fixed_ms, frame_ms = decoder.costs_ms(ladder)
        self._costs = Costs(fixed_ms=fixed_ms, frame_ms=frame_ms)
        pays = batch > 1 and decoder.batch_pays(ladder[len(ladder) // 2], batch)
        self._batch = batch if pays else 1
        return decoder

    async def _decode(
        self, inbox: Inbox[Latents], flow: Flow | None
    ) -> AsyncGenerator[SpokenWords | PcmChunk | End, None]:
        decoder = self._decoder
        assert decoder is not None, "a stream was opened before the stage started"
        voice, stream = decoder.voice, DecodeStream(decoder)
        choice = ChunkChoice(
            self._config,
            self._costs,
            flow,
            frame_ms=voice.frame_ms,
            context=voice.context_frames,
        )
        async with aclosing(steps(inbox, stream, choice, flow)) as todo:
            async for step in todo:
                if isinstance(step, SpokenWords):
                    yield step
                    continue
                pcm = await self._run(decoder, stream.take(step), flow)
                self._made.add(len(pcm) / 2 / OUTPUT_RATE, step, flow)
                # Empty at times: some is held back until more is there.
                if pcm:
                    yield PcmChunk(pcm, OUTPUT_RATE)
        if not stream.received_ms:
            return
        if pcm := await self._worker.run(stream.flush, due=_due(flow)):
            self._made.add(len(pcm) / 2 / OUTPUT_RATE, 0, flow)
            yield PcmChunk(pcm, OUTPUT_RATE)
        self._costs.ended(stream.received_ms)

    async def _run(self, decoder: Decoder, piece: Piece, flow: Flow | None) -> bytes:
        def spent(waited_ms: float, ran_ms: float) -> None:
            self._costs.waited(waited_ms)
            self._costs.decoded(piece.window.frames, ran_ms)

        return await self._worker.run_together(
            decoder.decode_pieces,
            piece,
            shape=piece.window.stop,
            due=_due(flow),
            limit=self._batch,
            spent=spent,
        )


def _due(flow: Flow | None) -> float | None:
    return None if flow is None else flow.due
