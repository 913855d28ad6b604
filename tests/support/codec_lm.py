"""A codec language model that is played: a family, an engine and a decoder without any model."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from antiphon.engines.chunks import Samples, Word
from antiphon.engines.pipeline import VoiceCard, VoiceRecording
from antiphon.engines.speech.decoders.decoder import Codes, DecoderCard, DecoderState
from antiphon.engines.speech.families.family import (
    Family,
    Licences,
    Prompt,
    PromptRequest,
    Reader,
    Reference,
    TokenSampling,
    Vocabulary,
)
from antiphon.engines.speech.tokens.engine import TokenEngineDied, TokenPiece, TokenRequest
from antiphon.engines.speech.tokens.layout import Layout, Slot, TokenBlock

SIZE = 64
"""Codes of each of the two codebooks."""

BASE = 1000
"""The first token of a code; those below are text."""

STOP = 999
MARK = 998
"""A token that is neither."""

LAYOUT = Layout(
    slots=(Slot(0), Slot(1)),
    blocks=(TokenBlock(BASE, SIZE), TokenBlock(BASE + SIZE, SIZE)),
    steps=1,
    codebooks=2,
)
STEP_MS = 20
FRAME_TOKENS = 2
CHARS_PER_SECOND = 10.0


@dataclass
class PlayedReader:
    """Text is its characters; with a reference its codes are the lead."""

    marked: bool = False
    needs_voice: bool = False
    layout: Layout = LAYOUT
    stop: tuple[int, ...] = (STOP,)
    asked: list[PromptRequest] = field(default_factory=list[PromptRequest])

    def prompt(self, asked: PromptRequest) -> Prompt:
        self.asked.append(asked)
        if self.needs_voice and asked.voice is None and asked.reference is None:
            raise ValueError("expected a voice")
        lead = None if asked.reference is None else asked.reference.codes
        return Prompt(tokens=[min(ord(each), 900) for each in asked.text], lead=lead)

    def markup(self) -> PlayedMarkup | None:
        return PlayedMarkup() if self.marked else None


class PlayedMarkup:
    """Each mark is a word that begins where it stands."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def feed(self, tokens: Sequence[int], step: int) -> list[Word]:
        at = step * STEP_MS
        return [
            Word(f"w{next(self._numbers)}", at, at + STEP_MS) for each in tokens if each == MARK
        ]


def played_family(reader: PlayedReader | None = None, **changed: object) -> Family:
    def _read(vocabulary: Vocabulary, marks: Mapping[str, int]) -> Reader:
        return reader or PlayedReader()

    fields: dict[str, object] = {
        "name": "played",
        "summary": "Played.",
        "architectures": ("Played",),
        "codec": "snac",
        "licences": Licences(code="none", model="none", codec="none"),
        "marks": {},
        "read": _read,
        "languages": ("en",),
        "voices": ("ada", "bob"),
        "tokens_per_second": 1000 * FRAME_TOKENS / STEP_MS,
        "first_audio_tokens": 2,
        "chars_per_second": CHARS_PER_SECOND,
        "max_chars": 60,
        "sampling": TokenSampling(temperature=0.5),
    }
    return Family(**{**fields, **changed})  # type: ignore[arg-type]


def tokens_of(text: str, *, stretch: float = 1.0) -> list[int]:
    """What the played model says of a text: always the same, at the usual pace."""
    frames = round(len(text) / CHARS_PER_SECOND * 1000 / STEP_MS * stretch)
    made = np.random.default_rng(len(text)).integers(0, SIZE, (frames, 2)) + [BASE, BASE + SIZE]
    return [int(each) for each in made.reshape(-1)]


class PlayedEngine:
    """Says :func:`tokens_of` the prompt, ``per_piece`` tokens every ``seconds``."""

    def __init__(
        self,
        *,
        seconds: float = 0.0,
        per_piece: int = 1,
        answer: Callable[[str], list[int]] = tokens_of,
    ) -> None:
        self.seconds = seconds
        self.per_piece = per_piece
        self.answer = answer
        self.requests: list[TokenRequest] = []
        self.live: set[str] = set()
        self.aborted: list[str] = []
        self.taken = 0
        """Tokens that were handed over."""

        self.finish = "stop"
        self.hold: asyncio.Event | None = None
        self.dead = False
        self.closed = False
        self.sentinel, self._ends = os.pipe()

    @property
    def unfinished(self) -> int:
        return len(self.live)

    def die(self) -> None:
        """As a process that was killed."""
        self.dead = True
        if self._ends >= 0:
            os.close(self._ends)
            self._ends = -1

    async def generate(self, request: TokenRequest) -> AsyncGenerator[TokenPiece, None]:
        if self.dead:
            raise TokenEngineDied
        self.requests.append(request)
        self.live.add(request.request_id)
        text = "".join(map(chr, request.tokens))
        tokens, finish = self.answer(text), self.finish
        if len(tokens) >= request.max_tokens:
            tokens, finish = tokens[: request.max_tokens], "length"
        loop, done = asyncio.get_running_loop(), False
        due = loop.time()
        try:
            for at in range(0, max(len(tokens), 1), self.per_piece):
                if self.hold is not None:
                    await self.hold.wait()
                due += self.seconds
                # An engine goes on while nobody reads: what was due comes at once.
                await asyncio.sleep(max(0.0, due - loop.time()))
                if self.dead:
                    raise TokenEngineDied
                piece = tokens[at : at + self.per_piece]
                self.taken += len(piece)
                done = at + self.per_piece >= len(tokens)
                yield TokenPiece(piece, finish if done else None)
        finally:
            self.live.discard(request.request_id)
            if not done:
                self.aborted.append(request.request_id)

    async def close(self) -> None:
        self.closed = True
        self.die()
        if self.sentinel >= 0:
            os.close(self.sentinel)
            self.sentinel = -1


@dataclass
class PlayedStates:
    codes: Codes
    given: int = 0
    ended: bool = False
    lead: Codes | None = None

    @property
    def steps(self) -> int:
        return int(self.codes.shape[1])


class PlayedCodec:
    """A decoder whose samples are those of neighbouring steps, smoothed over ``lookahead``."""

    def __init__(
        self,
        *,
        lookahead: int = 1000,
        sample_rate: int = 24_000,
        short: int = 0,
        sizes: tuple[int, ...] = (SIZE, SIZE),
        level: float = 0.2,
    ) -> None:
        self.card = DecoderCard(
            name="played",
            sample_rate=sample_rate,
            hop=sample_rate * STEP_MS // 1000,
            sizes=sizes,
            lookahead=lookahead,
            short=short,
        )
        self.level = level
        self.pushes: list[tuple[int, int]] = []
        """Of each push: streams and steps."""

        self.open_states = 0
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def open(self, seed: int = 0) -> PlayedStates:
        return PlayedStates(np.empty((len(self.card.sizes), 0), np.int32))

    def push(
        self, states: Sequence[DecoderState], codes: Sequence[Codes], last: Sequence[bool]
    ) -> list[Samples]:
        self.entered.set()
        assert self.go_on.wait(30)
        if len({each.shape for each in codes}) != 1:
            raise ValueError("expected one size")
        self.pushes.append((len(states), codes[0].shape[1]))
        return [self._push(*each) for each in zip(states, codes, last, strict=True)]

    def _push(self, state: DecoderState, codes: Codes, last: bool) -> Samples:
        assert isinstance(state, PlayedStates)
        assert not state.ended
        sizes = np.array(self.card.sizes)[:, None]
        if (codes < 0).any() or (codes >= sizes).any():
            raise ValueError("expected codes")
        state.codes = np.concatenate([state.codes, codes], axis=1)
        state.ended = last
        whole = self.decode(state.codes)
        stop = len(whole) if last else max(0, state.steps * self.card.hop - self.card.lookahead)
        made = whole[state.given : stop]
        state.given += len(made)
        return made

    def decode(self, codes: Codes) -> Samples:
        scaled = np.mean(codes / np.array(self.card.sizes)[:, None] - 0.5, axis=0)
        waves = np.repeat(scaled, self.card.hop)
        reach = self.card.lookahead
        sums = np.concatenate([[0.0], np.cumsum(np.pad(waves, reach))])
        smooth = (sums[2 * reach + 1 :] - sums[: -2 * reach - 1]) / (2 * reach + 1)
        made: Samples = (self.level * smooth[: len(waves) - self.card.short]).astype(np.float32)
        return made


class PlayedReferences:
    """Voices of recordings, in memory."""

    def __init__(self) -> None:
        self._kept: dict[str, Reference] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._kept)

    @property
    def cards(self) -> tuple[VoiceCard, ...]:
        return tuple(VoiceCard(name=name, language="en", created_at=1) for name in self._kept)

    def find(self, name: str) -> Reference | None:
        return self._kept.get(name)

    async def start(self) -> None:
        pass

    async def add(self, recording: VoiceRecording) -> VoiceCard:
        codes = np.zeros((2, 4), np.int32)
        self._kept[recording.name] = Reference(text=recording.text, codes=codes)
        return self.cards[-1]

    async def remove(self, name: str) -> None:
        del self._kept[name]


async def soon(is_so: Callable[[], bool]) -> None:
    """Return once a condition holds, of what takes a while on the loop's clock."""
    for _ in range(600):
        if is_so():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it did not come about in a minute")
