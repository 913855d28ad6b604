"""The code2wav stage: latents to audio, a chunk at a time, as if decoded whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ..chunks import End, Latents, PcmChunk, Samples, SpokenWords
from ..deployment import Code2wavConfig, TalkerConfig
from ..flow import Flow
from ..pipeline import OUTPUT_RATE
from ..scheduling.costs import Costs
from ..stage import StageClosed, StageStream
from ..streams import Inbox, TaskStream
from .ahead import Ahead
from .chunking import INPUT_BOUND, ChunkChoice, ChunkCounts, PacedStream, steps
from .decoding import Decoder, DecodeStream, Piece
from .voices.offer import Offer, VoiceUse
from .voices.rack import Rack
from .voices.shelf import Shelf
from .worker import Worker

OutT = TypeVar("OutT")

AHEAD = 2
"""Chunks of one stream decoded at once where a thread has nothing else to do, and nobody hears
them as they come: the listener of a paced one needs no more than one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRequest:
    """Ask for the audio of the latents that follow."""

    request_id: str
    voice: str | None = None
    """Whose latents they are; ``None`` for the default."""

    flow: Flow | None = field(default=None, compare=False)
    """Paces the audio; ``None`` for as fast as it goes."""

    use: VoiceUse | None = field(default=None, compare=False)
    """As :attr:`.talker.TalkRequest.use`, and the same."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Loaded:
    """A decoder, and what is known of it."""

    decoder: Decoder
    costs: Costs
    batch: int
    """How many chunks may be decoded at once."""


@dataclass(frozen=True, slots=True, eq=False)
class _Decoded:
    """A piece, and its samples as they were decoded."""

    piece: Piece
    samples: Samples


class Code2wavStage:
    """Decodes chunks of all streams and voices, the most urgent first, in threads of its own.

    The default voice's decoder is loaded at the start, others when a request asks for one.
    """

    def __init__(
        self,
        config: Code2wavConfig,
        model: str,
        cache_root: Path,
        *,
        shelf: Shelf | None = None,
        keep: int = TalkerConfig().loaded,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``model``: the talker's, whose decoder this is. Loads nothing yet.

        ``shelf``: the voices there are, as the talker has it; ``keep``: how many models to keep.
        """
        self._config = config
        self._shelf = shelf or Shelf(model, (), cache_root)
        self._worker = Worker("code2wav", config.concurrency, clock=clock)
        self._rack = Rack("code2wav", self._load, keep)
        self._shelf.on_removed(self._rack.drop)
        self._made = ChunkCounts(config.sizes)

    async def start(self) -> None:
        """Load the default voice's decoder, warm up, and measure what a chunk takes.

        Raises:
            StageFailure: the model or a package is missing; the message says what to run.
        """
        await self._shelf.start()
        offer = self._shelf.default
        self._rack.begin_with(offer, await self._worker.start(lambda: self._load(offer)))

    def open(self, request: DecodeRequest) -> StageStream[Latents, SpokenWords | PcmChunk]:
        """Begin the audio of one reply: :data:`~..pipeline.OUTPUT_RATE`, without a break.

        Raises:
            StageClosed: the stage is not running.
            StageFailure: there is no such voice.
        """
        if self._rack.default is None:
            raise StageClosed("code2wav")
        use = request.use or VoiceUse()
        offer = use.offer = use.offer or self._shelf.find(request.voice)
        self._rack.request(offer)

        def work(inbox: Inbox[Latents]) -> AsyncGenerator[SpokenWords | PcmChunk | End, None]:
            return self._decode(inbox, request.flow, offer, use)

        def costs() -> Costs | None:
            loaded = self._rack.ready(offer)
            return None if loaded is None else loaded.costs

        name = f"code2wav {request.request_id}"
        stream: TaskStream[Latents, SpokenWords | PcmChunk]
        stream = self._worker.open(name, work, input_bound=INPUT_BOUND)
        return PacedStream(stream, costs)

    async def warm(self) -> None:
        """Make the next chunk as quick as if another had just been decoded."""
        if (loaded := self._rack.default) is not None:
            await self._worker.warm(lambda: loaded.decoder.warm_up(self._config.sizes[:1]))

    async def close(self) -> None:
        """End every stream with an error and free the models. Idempotent."""
        await self._worker.close()
        await self._rack.close()
        await self._shelf.close()

    def statistics(self) -> dict[str, float]:
        """Counters since the start, what is known of costs, and what runs or waits now.

        Those of :class:`Worker` and :class:`ChunkCounts`; of the default voice those of
        :class:`Costs` and ``batch``, how many chunks may be decoded at once; and
        ``voices_loaded``: models that are kept.
        """
        default = self._rack.default
        costs, batch = (default.costs, default.batch) if default else (Costs(), 1)
        made = self._made.statistics() | {"batch": float(batch)} | self._rack.statistics()
        return self._worker.statistics() | costs.statistics() | made

    def _load(self, offer: Offer) -> _Loaded:
        decoder = Decoder(offer.load_decoder(self._config.threads))
        ladder, batch = self._config.sizes, self._config.batch
        decoder.warm_up(ladder)
        fixed_ms, frame_ms = decoder.costs_ms(ladder)
        pays = batch > 1 and decoder.batch_pays(ladder[len(ladder) // 2], batch)
        return _Loaded(decoder, Costs(fixed_ms=fixed_ms, frame_ms=frame_ms), batch if pays else 1)

    async def _decode(
        self, inbox: Inbox[Latents], flow: Flow | None, offer: Offer, use: VoiceUse
    ) -> AsyncGenerator[SpokenWords | PcmChunk | End, None]:
        loaded = self._rack.ready(offer) or await self._rack.get(offer)
        use.keep(loaded)
        voice, stream = loaded.decoder.voice, DecodeStream(loaded.decoder)
        choice = ChunkChoice(
            self._config,
            loaded.costs,
            flow,
            frame_ms=voice.frame_ms,
            context=voice.context_frames,
            spare=lambda: self._worker.spare,
        )
        async with (
            aclosing(steps(inbox, stream, choice, flow)) as todo,
            aclosing(self._pieces(todo, loaded, stream, flow)) as made,
        ):
            async for item in made:
                if isinstance(item, SpokenWords):
                    yield item
                    continue
                frames, pcm = item
                self._made.add(len(pcm) / 2 / OUTPUT_RATE, frames, flow)
                # Empty at times: some is held back until more is there.
                if pcm:
                    yield PcmChunk(pcm, OUTPUT_RATE)
        if not stream.received_ms:
            return
        if pcm := await self._worker.run(stream.flush, due=_due(flow)):
            self._made.add(len(pcm) / 2 / OUTPUT_RATE, 0, flow)
            yield PcmChunk(pcm, OUTPUT_RATE)
        loaded.costs.ended(stream.received_ms)

    async def _pieces(
        self,
        todo: AsyncGenerator[SpokenWords | int, None],
        loaded: _Loaded,
        stream: DecodeStream,
        flow: Flow | None,
    ) -> AsyncGenerator[SpokenWords | tuple[int, bytes], None]:
        """Yield the words, and the audio of as many frames as was said."""
        if flow is not None and flow.paced:
            async for step in todo:
                if isinstance(step, SpokenWords):
                    yield step
                else:
                    yield step, await self._run(loaded, stream.take(step), flow)
            return

        def begin(step: SpokenWords | int) -> Coroutine[Any, Any, SpokenWords | _Decoded]:
            if isinstance(step, SpokenWords):
                return _told(step)
            return self._samples(loaded, stream.take(step), flow)

        def room() -> int:
            # The first is made by itself: until it is there no other is of use.
            begun = flow is None or flow.buffer_ms is not None
            return AHEAD if begun and self._worker.spare else 1

        ahead = Ahead[SpokenWords | int, SpokenWords | _Decoded](room)
        async with aclosing(ahead.run(todo, begin)) as begun:
            async for done in begun:
                if isinstance(done, SpokenWords):
                    yield done
                else:
                    pcm = await asyncio.to_thread(done.piece.finish, done.samples)
                    yield done.piece.window.frames, pcm

    async def _run(self, loaded: _Loaded, piece: Piece, flow: Flow | None) -> bytes:
        return await self._together(loaded, loaded.decoder.decode_pieces, piece, flow)

    async def _samples(self, loaded: _Loaded, piece: Piece, flow: Flow | None) -> _Decoded:
        samples = await self._together(loaded, loaded.decoder.samples, piece, flow)
        return _Decoded(piece, samples)

    async def _together(
        self,
        loaded: _Loaded,
        job: Callable[[Sequence[Piece]], Sequence[OutT]],
        piece: Piece,
        flow: Flow | None,
    ) -> OutT:
        def spent(waited_ms: float, ran_ms: float) -> None:
            loaded.costs.waited(waited_ms)
            loaded.costs.decoded(piece.window.frames, ran_ms)

        return await self._worker.run_together(
            job, piece, shape=piece.shape, due=_due(flow), limit=loaded.batch, spent=spent
        )


async def _told(words: SpokenWords) -> SpokenWords:
    return words


def _due(flow: Flow | None) -> float | None:
    return None if flow is None else flow.due
