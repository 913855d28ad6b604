"""One stream of codes on its way to sound: what is held, and what of it is pushed next.

An utterance is a stream of its decoder, and is followed by the next without a pause. All are
resampled as one, so that nothing is heard where they meet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import cast

import numpy as np

from ....codecs.pcm import from_float
from ....codecs.resample import FloatStreamResampler
from ...chunks import Latents, Samples, Word
from ...pipeline import OUTPUT_RATE
from ..decoders.decoder import (
    Codes,
    Decoder,
    DecoderCard,
    DecoderState,
    GivesInWindows,
    LeadsIn,
)
from .edges import FADE_MS, Edges

SEED = 0
"""Of the noise that some codecs have: the same codes are the same sound."""


@dataclass(slots=True, eq=False)
class _Utterance:
    """Codes between two ends, and how far they are."""

    lead: Codes | None
    edges: Edges
    codes: list[Codes] = field(default_factory=list[Codes])
    """Not pushed yet."""

    received: int = 0
    pushed: int = 0
    given: int = 0
    """Steps, all three; the last of sound."""

    ended: bool = False
    state: DecoderState | None = None
    samples: int = 0
    """That the decoder gave."""

    @property
    def held(self) -> int:
        """Steps whose sound was not asked for; of an utterance that ends at least one."""
        return max(self.received - self.given, int(self.ended))


@dataclass(frozen=True, slots=True, eq=False)
class Push:
    """Codes of a stream for its decoder."""

    stream: CodeStream
    utterance: _Utterance
    codes: Codes
    last: bool
    """Whether the utterance ends with them."""

    @property
    def steps(self) -> int:
        """Streams that push as many can share it."""
        return int(self.codes.shape[1])


@dataclass(frozen=True, slots=True)
class Sounded:
    """What came of a push."""

    steps: int
    """Of sound, about."""

    pcm: bytes
    """s16le at the output rate."""


class CodeStream:
    """The state of one stream; itself what :class:`..chunking.Held` asks for."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._card = decoder.card
        self._given = given_by(decoder)
        self._utterances: deque[_Utterance] = deque()
        self._received = 0
        self._resampler = FloatStreamResampler(self._card.sample_rate, OUTPUT_RATE)

    @property
    def windows(self) -> CodeStream:
        """How much is held."""
        return self

    @property
    def have(self) -> int:
        """Steps whose sound is certain with what is here."""
        if not self._utterances:
            return 0
        first = self._utterances[0]
        return first.held if first.ended else max(0, self._given(first.received) - first.given)

    @property
    def complete(self) -> bool:
        """Whether the first utterance held is here to its end."""
        return bool(self._utterances) and self._utterances[0].ended

    @property
    def held(self) -> int:
        """Steps whose sound was not asked for yet."""
        return sum(each.held for each in self._utterances)

    @property
    def received_ms(self) -> float:
        """Sound of all that was taken in."""
        return self._received * self._card.step_ms

    def add(self, latents: Latents) -> tuple[Word, ...]:
        """Take codes in; return their words with times from the start of the stream."""
        ahead_ms, count = self.received_ms, latents.frames.shape[1]
        if not self._utterances or self._utterances[-1].ended:
            self._utterances.append(_Utterance(latents.lead, Edges(*_edge_samples(self._card))))
        utterance = self._utterances[-1]
        if count:
            utterance.codes.append(latents.frames)
            utterance.received += count
            self._received += count
        if latents.last:
            self.end()
        return tuple(
            Word(word.text, word.start_ms + ahead_ms, word.end_ms + ahead_ms)
            for word in latents.words
        )

    def end(self) -> None:
        """No more codes come: the last utterance ends. Idempotent."""
        if self._utterances and not self._utterances[-1].ended:
            if self._utterances[-1].received:
                self._utterances[-1].ended = True
            else:
                self._utterances.pop()

    def take(self, size: int) -> Push:
        """What to push for the sound of ``size`` more steps, of which there must be enough.

        Raises:
            ValueError: ``size`` is not from 1 to :attr:`have`.
        """
        if not 1 <= size <= self.have:
            raise ValueError(f"expected 1 to {self.have} steps, got {size}")
        first = self._utterances[0]
        wanted = first.given + size
        until = next(
            (n for n in range(first.pushed, first.received + 1) if self._given(n) >= wanted),
            None,
        )
        # At an end the decoder gives more than it is asked for, rather than in one more push.
        last = first.ended and (until is None or wanted >= first.received)
        stop = first.received if until is None or last else until
        codes = _joined(first.codes, self._card)
        count = stop - first.pushed
        first.codes = [codes[:, count:]] if count < codes.shape[1] else []
        first.pushed = stop
        first.given = first.received if last else self._given(stop)
        if last:
            self._utterances.popleft()
        return Push(self, first, codes[:, :count], last)

    def finish(self, push: Push, samples: Samples) -> Sounded:
        """The audio of a push, as far as it is certain; push by push, in order."""
        utterance = push.utterance
        steps = round(len(samples) / self._card.hop)
        utterance.samples += len(samples)
        made = utterance.edges.feed(samples.astype(np.float32, copy=False), last=push.last)
        if push.last:
            # So that words and what follows stay where they were said to be.
            missing = utterance.received * self._card.hop - utterance.samples
            made = np.pad(made, (0, min(max(0, missing), self._card.hop)))
        return Sounded(steps, from_float(self._resampler.feed(made)))

    def flush(self) -> bytes:
        """The end of the audio, which the resampler holds back."""
        return from_float(self._resampler.flush())


def push_all(decoder: Decoder, pushes: Sequence[Push]) -> list[Sounded]:
    """Push for several streams at once, all by as many steps; what comes of each."""
    states = [_state(decoder, push.utterance) for push in pushes]
    codes, last = [push.codes for push in pushes], [push.last for push in pushes]
    made = decoder.push(states, codes, last)
    return [push.stream.finish(push, each) for push, each in zip(pushes, made, strict=True)]


def given_by(decoder: Decoder) -> Callable[[int], int]:
    """How many steps of sound are certain, at least, once so many were pushed."""
    if isinstance(decoder, GivesInWindows):
        return decoder.given
    card = decoder.card
    # Of the last of them a part: what is missing is less than a step, and soon there.
    behind = card.lookahead // card.hop

    def given(steps: int) -> int:
        return max(0, steps - behind) if steps >= card.first_steps else 0

    return given


def _state(decoder: Decoder, utterance: _Utterance) -> DecoderState:
    if utterance.state is None:
        # Any decoder has an `open`: what tells them apart is its argument.
        if utterance.lead is not None and "lead" in signature(decoder.open).parameters:
            utterance.state = cast("LeadsIn", decoder).open(SEED, lead=utterance.lead)
        else:
            utterance.state = decoder.open(SEED)
    return utterance.state


def _joined(codes: list[Codes], card: DecoderCard) -> Codes:
    if not codes:
        return np.empty((len(card.sizes), 0), np.int32)
    return codes[0] if len(codes) == 1 else np.concatenate(codes, axis=1)


def _edge_samples(card: DecoderCard) -> tuple[int, int]:
    """Samples of a fade, and how many of an end are to be held back for it."""
    fade = round(FADE_MS * card.sample_rate / 1000)
    # What the decoder itself holds back until the end is enough.
    return fade, 0 if card.mode == "exact" and card.lookahead >= fade else fade
