"""One reply on its way from clauses to codes: what the talker stage does for each stream."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from ...chunks import Clause, End, EndReason, Latents, StageError, Usage
from ...flow import Flow
from ...stage import StageFailure
from ...streams import Inbox
from ..chunking import BLOCKED_SECONDS
from ..families.family import Family, Prompt, Reader, TokenSampling
from ..talker import TalkRequest, wait_to_speak
from .engine import TokenEngine, TokenPiece, TokenRequest
from .saying import Saying
from .timing import Paces, WordGuess, weight
from .utterances import Utterance, token_budget, utterances
from .voicing import Speaking

_NOT_WRITTEN = StageError("generation_failed", "the talker's language model could not go on")


@dataclass(slots=True)
class TalkCounts:
    """What was said since the start, by all streams."""

    clauses: int = 0
    utterances: int = 0
    truncated: int = 0
    chunks: int = 0
    audio_seconds: float = 0.0
    busy_seconds: float = 0.0
    dropped_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def statistics(self) -> dict[str, float]:
        """By name."""
        return {name: float(getattr(self, name)) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """How utterances are asked for: what all streams share."""

    family: Family
    reader: Reader
    sampling: TokenSampling
    context_tokens: int
    seed: int | None
    grammar: bool
    step_ms: float
    """Audio of a step of codes."""

    in_thread: Callable[[Callable[[], Prompt]], Awaitable[Prompt]]
    paces: Paces
    counts: TalkCounts = field(default_factory=TalkCounts)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def prompt(self, text: str, voice: Speaking) -> Prompt:
        """What to give the language model for a text.

        Raises:
            StageFailure: the voice is none that the family can use (``voice_unusable``).
        """

        def made() -> Prompt:
            return self.reader.prompt(voice.asks(self.family.normalise(text)))

        try:
            return await self.in_thread(made)
        except ValueError as error:
            raise StageFailure(StageError("voice_unusable", str(error))) from None

    def request(self, name: str, prompt: Prompt, max_tokens: int) -> TokenRequest:
        """What to ask the engine for."""
        return TokenRequest(
            request_id=f"{name}-{next(self.numbers)}",
            tokens=prompt.tokens,
            max_tokens=max_tokens,
            stop=self.reader.stop,
            sampling=self.sampling,
            seed=self.seed,
            grammar=self.reader.layout if self.grammar else None,
            markup=self.family.markup,
            script=prompt.script,
        )


class Talk:
    """Says the clauses of one stream."""

    def __init__(
        self, speech: Speech, engine: TokenEngine, voice: Speaking, request: TalkRequest
    ) -> None:
        self._speech = speech
        self._engine = engine
        self._voice = voice
        self._name = request.request_id
        self._flow = request.flow
        self._counts = speech.counts
        self._cut = False
        self._usage = Usage()

    async def run(self, inbox: Inbox[Clause]) -> AsyncGenerator[Latents | End, None]:
        """Yield the codes of all clauses, and the ``End``.

        Raises:
            TokenEngineDied: the engine's process is gone.
            StageFailure: an utterance can't be asked for, or was given up.
        """
        async with aclosing(utterances(inbox, self._speech.family.max_chars)) as wanted:
            async for utterance in wanted:
                async with aclosing(self._say(utterance)) as made:
                    async for latents in made:
                        yield self._counted(latents)
        yield End(EndReason.LENGTH if self._cut else EndReason.COMPLETED, usage=self._usage)

    async def _say(self, utterance: Utterance) -> AsyncGenerator[Latents, None]:
        speech, counts = self._speech, self._counts
        hold = _Hold(self._flow)
        await hold.wait()
        prompt = await speech.prompt(utterance.text, self._voice)
        room = speech.context_tokens - len(prompt.tokens)
        budget = token_budget(speech.family, utterance.text, room)
        guess = WordGuess(utterance.text, speech.paces.of(self._voice.name))
        saying = Saying(
            speech.reader,
            guess,
            step_ms=speech.step_ms,
            clauses=utterance.clauses,
            lead=prompt.lead,
        )
        counts.utterances += 1
        counts.clauses += utterance.clauses
        finish: str | None = None
        self._use(len(prompt.tokens), 0)
        asked = speech.request(self._name, prompt, budget)
        try:
            async with aclosing(self._engine.generate(asked)) as pieces:
                while (piece := await self._next(pieces, hold)) is not None:
                    self._use(0, len(piece.tokens))
                    if (latents := saying.feed(piece.tokens)) is not None:
                        yield replace(latents, held_ms=hold.take())
                    if (finish := piece.finish) is not None:
                        break
                    await hold.wait()
            if finish not in ("stop", "length"):
                raise StageFailure(_NOT_WRITTEN)
            ended = saying.end(cut=finish == "length")
        finally:
            counts.dropped_tokens += saying.dropped
        if finish == "length":
            self._cut = True
            counts.truncated += 1
        else:
            speech.paces.learn(self._voice.name, weight(utterance.text), saying.ms)
        yield ended

    async def _next(
        self, pieces: AsyncGenerator[TokenPiece, None], hold: _Hold
    ) -> TokenPiece | None:
        now = asyncio.get_running_loop().time
        began = now()
        piece = await anext(pieces, None)
        took = now() - began
        self._counts.busy_seconds += took
        if took >= BLOCKED_SECONDS:
            hold.over()
        return piece

    def _counted(self, latents: Latents) -> Latents:
        ms = latents.frames.shape[1] * self._speech.step_ms
        if ms:
            self._counts.chunks += 1
            self._counts.audio_seconds += ms / 1000
            if self._flow is not None:
                self._flow.spoke(ms)
        return latents

    def _use(self, read: int, written: int) -> None:
        self._counts.input_tokens += read
        self._counts.output_tokens += written
        self._usage = Usage(
            input_tokens=self._usage.input_tokens + read,
            output_tokens=self._usage.output_tokens + written,
        )


class _Hold:
    """For how long the talker was held back, ahead of what is made next.

    The engine writes on meanwhile: what it has written then is there at once, which says
    nothing of its pace, so it counts as held back as well.
    """

    def __init__(self, flow: Flow | None) -> None:
        self._flow = flow
        self._ms = 0.0
        self._piled = False

    async def wait(self) -> None:
        """Wait until more may be spoken."""
        ms = await wait_to_speak(self._flow)
        if ms >= BLOCKED_SECONDS * 1000:
            self._ms += ms
            self._piled = True

    def over(self) -> None:
        """Something had to be waited for: nothing is piled up."""
        if self._ms <= 0:
            self._piled = False

    def take(self) -> float:
        """What to tell of it, ms."""
        ms, self._ms = self._ms, 0.0
        return ms or (BLOCKED_SECONDS * 1000 if self._piled else 0.0)
