"""The talker stage of a codec language model: clauses to codes, with the times of their words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from ...chunks import Clause, End, Latents, StageError
from ...pipeline import NewVoice, VoiceCard, VoiceFiles, VoiceSource
from ...stage import StageFailure, StageStream
from ...streams import Inbox, TaskStream
from ...text.keeper import RESTART_WAITS, Keeper
from ..decoders.decoder import DecoderCard
from ..families.family import Family, Reader, TokenSampling
from ..talker import TalkRequest
from .engine import TokenEngine, TokenEngineDied
from .references import References
from .talk import Speech, Talk, TalkCounts
from .timing import Paces
from .voicing import Speaking, Voicing

T = TypeVar("T")
Stream: TypeAlias = TaskStream[Clause, Latents]

INPUT_BOUND = 4
"""Clauses a stream holds before ``send`` waits: what waits is said in one utterance, which
sounds better than two."""

WARM_UP_TOKENS = 4
"""Generated at the start: the first are slower than any other."""

WARM_UP = "Hello."

NAME = "the talker's language model"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecTalkerParts:
    """What a talker is made of."""

    family: Family
    sampling: TokenSampling
    context_tokens: Callable[[], int]
    """Prompt and speech of one utterance; blocks."""

    max_requests: int
    """Utterances that the engine generates at once."""

    language: str
    """ISO 639-1, of the model's own voices."""

    seed: int | None
    grammar: bool
    """Whether frames that are broken are made impossible."""

    references: References
    bind: Callable[[], Reader]
    """Bind the family to the model's vocabulary; blocks."""

    launch: Callable[[], TokenEngine]
    """Start an engine; blocks."""

    card: Callable[[], Awaitable[DecoderCard]]
    """What the decoder is that the codes are for; waits until it is loaded."""


class CodecTalkerStage:
    """Has clauses spoken by a language model, any number of replies at once.

    An utterance is one request to the engine. It is one clause at first, and then all that
    waits; while the listener has enough ahead, nothing of it is taken from the engine.
    """

    def __init__(
        self, parts: CodecTalkerParts, *, restart_waits: Sequence[float] = RESTART_WAITS
    ) -> None:
        """Loads nothing yet."""
        self._parts = parts
        self._voices = Voicing(parts.family, parts.references, parts.language)
        self._keeper = Keeper[TokenEngine](
            "talker", NAME, self._launch, self._lost, waits=restart_waits
        )
        self._paces = Paces(parts.family.chars_per_second)
        self._counts = TalkCounts()
        self._reader: Reader | None = None
        self._speech: Speech | None = None
        self._context_tokens = 0
        self._threads: ThreadPoolExecutor | None = None
        self._streams: set[Stream] = set()
        self._opened = 0

    @property
    def state(self) -> str:
        """``ready``, ``starting``, ``restarting``, ``failed`` or ``closed``."""
        state = self._keeper.state
        return "starting" if state == "ready" and self._speech is None else state

    @property
    def voices(self) -> tuple[str, ...]:
        """Names of the voices, the default one first."""
        return self._voices.names

    @property
    def voice_cards(self) -> tuple[VoiceCard, ...]:
        """What is known of each, in the same order."""
        return self._voices.cards

    @property
    def voice_source(self) -> VoiceSource:
        """As :attr:`~...pipeline.Pipeline.voice_source`."""
        return "recording"

    def language(self, voice: str | None) -> str:
        """ISO 639-1, of the text that a voice reads.

        Raises:
            StageFailure: there is no such voice.
        """
        return self._voices.find(voice).language

    async def add_voice(self, new: NewVoice) -> tuple[VoiceCard, ...]:
        """As :meth:`~...pipeline.Pipeline.add_voice`."""
        if isinstance(new, VoiceFiles):
            what = "voices of Piper can't be spoken with here: send a recording"
            raise StageFailure(StageError("files_unsupported", what))
        return (await self._parts.references.add(new),)

    async def remove_voice(self, name: str) -> None:
        """As :meth:`~...pipeline.Pipeline.remove_voice`."""
        if any(card.name == name and not card.own for card in self.voice_cards):
            what = f"{name} is a voice of the model, and stays"
            raise StageFailure(StageError("voice_fixed", what))
        await self._parts.references.remove(name)

    async def start(self) -> None:
        """Read the vocabulary, start the engine, and wait for the decoder's card.

        Raises:
            StageFailure: the model or a package is missing, or they don't fit each other.
        """
        if self._keeper.state not in ("closed", "failed"):
            return
        # One thread: tokenizers are not made for two at once.
        self._threads = self._threads or ThreadPoolExecutor(1, thread_name_prefix="talker")
        await self._parts.references.start()
        reader = self._reader = await self._in_thread(self._bind)
        await self._keeper.start()
        try:
            card = await self._parts.card()
            check_fits(reader, card)
        except BaseException:
            await self.close()
            raise
        self._speech = self._spoken(reader, card.step_ms)

    def open(self, request: TalkRequest) -> StageStream[Clause, Latents]:
        """Begin the speech of one reply. A clause without any word gives nothing.

        Raises:
            StageClosed: the stage is not running.
            StageFailure: the engine is being restarted; there is no such voice, or no such speed
                (``speed_unsupported``).
        """
        engine, speech = self._keeper.engine, self._speech
        if engine is None or speech is None:
            raise self._keeper.unavailable()
        if request.speed != 1.0:
            what = f"speed: expected 1, as {self._parts.family.name} knows no other"
            raise StageFailure(StageError("speed_unsupported", what))
        talk = Talk(speech, engine, self._voice_of(request), request)
        self._opened += 1

        async def work(inbox: Inbox[Clause]) -> AsyncGenerator[Latents | End, None]:
            try:
                async with aclosing(talk.run(inbox)) as made:
                    async for item in made:
                        yield item
            except TokenEngineDied:
                # The keeper is about to find out by itself.
                self._keeper.lost(engine)
                raise self._keeper.unavailable() from None

        stream = Stream(
            f"talker {request.request_id}",
            work,
            input_bound=INPUT_BOUND,
            on_done=lambda end: self._streams.discard(stream),
        )
        self._streams.add(stream)
        return stream

    async def close(self) -> None:
        """End every stream with an error, and the engine's process. Idempotent."""
        self._speech = None
        await self._keeper.close()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    def statistics(self) -> dict[str, float]:
        """Counters since the start; ``running`` counts open streams, ``unfinished`` the
        engine's own requests.

        ``truncated``: utterances that were stopped at their bound of tokens; ``dropped_tokens``:
        codes of broken frames. ``busy_seconds``: for how long tokens were waited for, over all
        streams, of which there may be as many at once as ``threads``.
        """
        engine = self._keeper.engine
        now = {
            "requests": float(self._opened),
            "running": float(len(self._streams)),
            "unfinished": float(engine.unfinished if engine is not None else 0),
            "restarts": float(self._keeper.restarts),
            "threads": float(self._parts.max_requests),
        }
        return now | self._counts.statistics()

    def _voice_of(self, request: TalkRequest) -> Speaking:
        """The voice of a request: the one that its first stream found."""
        if request.use is None:
            return self._voices.find(request.voice)
        kept = next((each for each in request.use.halves if isinstance(each, Speaking)), None)
        voice = kept or self._voices.find(request.voice)
        request.use.keep(voice)
        return voice

    def _bind(self) -> Reader:
        reader = self._parts.bind()
        self._context_tokens = self._parts.context_tokens()
        self._voices.bind(reader)
        return reader

    async def _launch(self) -> TokenEngine:
        """Start an engine, and generate something."""
        engine = await self._in_thread(self._parts.launch)
        try:
            await self._warm_up(engine)
        except BaseException:
            await engine.close()
            raise
        return engine

    async def _warm_up(self, engine: TokenEngine) -> None:
        if self._reader is None or not self._voices.names:
            return
        speech = self._spoken(self._reader, step_ms=0.0)
        prompt = await speech.prompt(WARM_UP, self._voices.find(None))
        request = speech.request("warm-up", prompt, WARM_UP_TOKENS)
        async with aclosing(engine.generate(request)) as pieces:
            async for _ in pieces:
                pass

    def _spoken(self, reader: Reader, step_ms: float) -> Speech:
        parts = self._parts
        return Speech(
            family=parts.family,
            reader=reader,
            sampling=parts.sampling,
            context_tokens=self._context_tokens,
            seed=parts.seed,
            grammar=parts.grammar,
            step_ms=step_ms,
            in_thread=self._in_thread,
            paces=self._paces,
            counts=self._counts,
        )

    async def _lost(self, error: StageError) -> None:
        streams = tuple(self._streams)
        for stream in streams:
            stream.fail(error)
        for stream in streams:
            await stream.wait_done()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def check_fits(reader: Reader, card: DecoderCard) -> None:
    """Refuse codes that the decoder does not have.

    Raises:
        StageFailure: the family's layout and the codec don't fit each other
            (``model_unusable``).
    """
    layout = reader.layout
    if layout.codebooks != len(card.sizes):
        what = f"the model writes {layout.codebooks} codebooks, and {card.name} has"
        raise StageFailure(StageError("model_unusable", f"{what} {len(card.sizes)}"))
    for slot, block in zip(layout.slots, layout.blocks, strict=True):
        size = card.sizes[slot.codebook]
        if block.size > size:
            what = f"the model writes {block.size} codes of codebook {slot.codebook}, and"
            raise StageFailure(StageError("model_unusable", f"{what} {card.name} has {size}"))
