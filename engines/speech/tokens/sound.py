"""The code2wav stage of a codec language model: codes to audio, as they come.

The decoder keeps what it needs of each stream, so that every code is computed once. All else is
as in :mod:`..code2wav`: sizes by the ramp, turns by deadline, pushes of several streams at once.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import msgspec

from ...chunks import End, Latents, PcmChunk, SpokenWords
from ...deployment import Code2wavConfig
from ...flow import Flow
from ...pipeline import OUTPUT_RATE
from ...scheduling.costs import Costs
from ...scheduling.ladder import ladder_for
from ...stage import StageClosed, StageStream
from ...streams import Inbox, TaskStream
from ..chunking import INPUT_BOUND, ChunkChoice, ChunkCounts, PacedStream, steps
from ..code2wav import DecodeRequest
from ..decoders.check import check_decoder
from ..decoders.decoder import Decoder
from ..decoders.threads import use_threads
from ..worker import Worker
from .codec import Codec
from .measuring import batch_pays, costs_ms, warm_up
from .stream import CodeStream, Push, Sounded, push_all


@dataclass(slots=True, eq=False)
class _Loaded:
    """A decoder, and what is known of it."""

    decoder: Decoder
    config: Code2wavConfig
    """The deployment's, with the ladder that is used."""

    costs: Costs
    batch: int
    """For how many streams it may be pushed at once."""

    made: ChunkCounts

    def push(self, pushes: Sequence[Push]) -> list[Sounded]:
        """In a thread of the stage."""
        use_threads(self.config.threads)
        return push_all(self.decoder, pushes)


class CodecSoundStage:
    """Decodes codes of all streams, the most urgent first, in threads of its own."""

    def __init__(
        self,
        config: Code2wavConfig,
        codec: Codec,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Loads nothing yet. ``codec``: is told of the decoder when that is loaded."""
        self._config = config
        self._codec = codec
        self._worker = Worker("code2wav", config.concurrency, clock=clock)
        self._loaded: _Loaded | None = None

    async def start(self) -> None:
        """Load the decoder, check that it is what it says, and measure what a push takes.

        Raises:
            StageFailure: the codec or a package is missing, or it can't be used.
        """
        self._loaded = loaded = await self._worker.start(self._load)
        self._codec.loaded(loaded.decoder.card)

    def open(self, request: DecodeRequest) -> StageStream[Latents, SpokenWords | PcmChunk]:
        """Begin the audio of one reply: :data:`~...pipeline.OUTPUT_RATE`, without a break.

        Raises:
            StageClosed: the stage is not running.
        """
        loaded = self._loaded
        if loaded is None:
            raise StageClosed("code2wav")

        def work(inbox: Inbox[Latents]) -> AsyncGenerator[SpokenWords | PcmChunk | End, None]:
            return self._decode(inbox, request.flow, loaded)

        name = f"code2wav {request.request_id}"
        stream: TaskStream[Latents, SpokenWords | PcmChunk]
        stream = self._worker.open(name, work, input_bound=INPUT_BOUND)
        return PacedStream(stream, lambda: loaded.costs)

    async def warm(self) -> None:
        """Make the next push as quick as if another had just been made."""
        if (loaded := self._loaded) is not None:
            size = loaded.config.sizes[:1]
            await self._worker.warm(lambda: warm_up(loaded.decoder, size))

    async def close(self) -> None:
        """End every stream with an error and free the decoder. Idempotent."""
        self._loaded = None
        await self._worker.close()

    def statistics(self) -> dict[str, float]:
        """Counters since the start, what is known of costs, and what runs or waits now.

        As those of :class:`~..code2wav.Code2wavStage`; frames are steps of the codec.
        """
        if (loaded := self._loaded) is None:
            return self._worker.statistics()
        made = loaded.made.statistics() | {"batch": float(loaded.batch)}
        return self._worker.statistics() | loaded.costs.statistics() | made

    def _load(self) -> _Loaded:
        decoder = self._codec.load()
        use_threads(self._config.threads)
        check_decoder(decoder, self._codec.options.dtype)
        sizes = self._config.ladder or ladder_for(decoder.card.step_ms)
        warm_up(decoder, sizes)
        fixed_ms, step_ms = costs_ms(decoder, sizes)
        most = self._config.batch
        pays = most > 1 and batch_pays(decoder, sizes[len(sizes) // 2], most)
        return _Loaded(
            decoder,
            msgspec.structs.replace(self._config, ladder=sizes),
            Costs(fixed_ms=fixed_ms, frame_ms=step_ms),
            most if pays else 1,
            ChunkCounts(sizes),
        )

    async def _decode(
        self, inbox: Inbox[Latents], flow: Flow | None, loaded: _Loaded
    ) -> AsyncGenerator[SpokenWords | PcmChunk | End, None]:
        card, stream = loaded.decoder.card, CodeStream(loaded.decoder)
        choice = ChunkChoice(
            loaded.config,
            loaded.costs,
            flow,
            frame_ms=card.step_ms,
            context=-(-card.lookahead // card.hop),
            spare=lambda: self._worker.spare,
        )
        async with aclosing(steps(inbox, stream, choice, flow)) as todo:
            async for step in todo:
                if isinstance(step, SpokenWords):
                    yield step
                    continue
                sounded = await self._push(loaded, stream.take(step), flow)
                seconds = len(sounded.pcm) / 2 / OUTPUT_RATE
                loaded.made.add(seconds, sounded.steps, flow)
                # Empty at times: some is held back until more is there.
                if sounded.pcm:
                    yield PcmChunk(sounded.pcm, OUTPUT_RATE)
        if not stream.received_ms:
            return
        if pcm := stream.flush():
            loaded.made.add(len(pcm) / 2 / OUTPUT_RATE, 0, flow)
            yield PcmChunk(pcm, OUTPUT_RATE)
        loaded.costs.ended(stream.received_ms)

    async def _push(self, loaded: _Loaded, push: Push, flow: Flow | None) -> Sounded:
        def spent(waited_ms: float, ran_ms: float) -> None:
            loaded.costs.waited(waited_ms)
            loaded.costs.decoded(push.steps, ran_ms)

        return await self._worker.run_together(
            loaded.push,
            push,
            shape=push.steps,
            due=None if flow is None else flow.due,
            limit=loaded.batch,
            spent=spent,
        )
