"""Runs streams through a decoder made of streaming layers.

A push does two things: the codes go through, all streams of the push as one batch; then those
streams that end are pushed on for as long as the decoder looks ahead, with nothing, which is
what a whole decode has after its end. Both have fixed shapes, so that graphs can be captured:
the first of what the ramp asks for, the second always of the same few steps.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ...chunks import Samples
from ...scheduling.ladder import ladder_for
from ..decoders.decoder import Codes, DecoderCard, DecoderOptions, DecoderState
from .graphs import graphed
from .layer import UNKNOWN, Extent, Rate, State, StreamLayer

Front = Callable[[Tensor], Tensor]
"""Codes ``(batch, codebooks, count)`` int64 to what the body takes, ``(batch, any, count)``;
each step by itself."""


class Step(Protocol):
    """What computes a push; graphs replace it."""

    def new_state(self) -> State:
        """Of one stream that begins: tensors of batch 1."""
        ...

    def run(self, codes: Tensor, states: Sequence[State], extent: Extent) -> Tensor:
        """Go on by a stretch.

        ``codes``: ``(batch, codebooks, count)`` int64, on the device. ``states``: of each stream,
        changed in place. ``extent``: tensors on the device. Returns
        ``(batch, channels, count * hop)``.
        """
        ...


class EagerStep:
    """One operation after the other."""

    def __init__(self, front: Front, body: StreamLayer, like: Tensor) -> None:
        """``body``: joined. ``like``: of the dtype and on the device of the states."""
        self.front = front
        self.body = body
        self.like = like

    def new_state(self) -> State:
        """Of one stream that begins: tensors of batch 1."""
        return self.body.new_state(1, self.like)

    def feed(self, codes: Tensor, state: State, extent: Extent) -> Tensor:
        """As :meth:`run`, of states that are one batch."""
        return self.body.feed(self.front(codes), state, extent)

    def run(self, codes: Tensor, states: Sequence[State], extent: Extent) -> Tensor:
        """Join the states, go on, and put each back where it was."""
        if len(states) == 1:
            return self.feed(codes, states[0], extent)
        joined = [torch.cat(tensors) for tensors in zip(*states, strict=True)]
        values = self.feed(codes, joined, extent)
        for number, state in enumerate(states):
            for kept, tensor in zip(state, joined, strict=True):
                kept.copy_(tensor[number : number + 1])
        return values


@dataclass(slots=True, eq=False)
class StreamState:
    """One stream."""

    tensors: State
    """Let go of at the end."""

    seed: int
    steps: int = 0
    """That were pushed."""

    length: int = UNKNOWN
    """Steps of the whole, once its end is known."""

    @property
    def ended(self) -> bool:
        """Whether nothing more may be pushed."""
        return self.length != UNKNOWN


def exact_card(
    name: str, *, sample_rate: int, sizes: tuple[int, ...], body: StreamLayer
) -> DecoderCard:
    """The card of an exact decoder. Joins ``body``, which takes a value a step."""
    rate = body.join(Rate())
    return DecoderCard(
        name=name,
        sample_rate=sample_rate,
        hop=rate.per_step,
        sizes=sizes,
        lookahead=rate.delay,
        short=rate.short,
    )


def as_samples(values: Tensor) -> Samples:
    """Values as they are given out: float32, but of a float64 decoder, which is for tests, as
    they are."""
    if values.dtype not in (torch.float32, torch.float64):
        values = values.float()
    samples: Samples = values.cpu().numpy()
    return samples


class StreamRunner:
    """A decoder out of streaming layers."""

    def __init__(
        self,
        card: DecoderCard,
        *,
        front: Front,
        body: StreamLayer,
        whole: Callable[[Codes], Samples],
        options: DecoderOptions | None = None,
    ) -> None:
        """``card``: of :func:`exact_card`, with the same ``body``. ``whole``: a whole decode by
        the codec's own class."""
        self._card = card
        self._whole = whole
        like = next((p for p in body.parameters() if p.is_floating_point()), torch.empty(0))
        like = like.detach()
        self._device = like.device
        if self._device.type == "cuda":
            # TF32, cuDNN's default, is off by a thousandth of a float32 convolution, more than
            # a decoder that is told to be exact may be.
            torch.backends.cudnn.allow_tf32 = False
        self._silence = as_samples(like.new_zeros(0))
        rates = [part.before for part in body.modules() if isinstance(part, StreamLayer)]
        rates.append(body.after)
        # From here on no value of any layer lies ahead of the start.
        self._settled = max(-(-rate.delay // rate.per_step) for rate in rates)
        # Whether what lies after the end reaches a layer before the flush does.
        self._ends_early = any(rate.short > rate.delay for rate in rates)
        self._flush = max(0, -(-(card.lookahead - card.short) // card.hop))
        self._sizes = np.array(card.sizes)[:, None]
        eager = EagerStep(front, body, like)
        self._step: Step = eager
        if options:
            ladder = options.ladder or ladder_for(card.step_ms)
            sizes = sorted({*ladder, self._flush} - {0})
            self._step = graphed(eager, books=len(card.sizes), sizes=sizes, batch=options.batch)

    @property
    def card(self) -> DecoderCard:
        """What it is."""
        return self._card

    def open(self, seed: int = 0) -> StreamState:
        """Begin a stream."""
        with torch.inference_mode():
            return StreamState(self._step.new_state(), seed & (1 << 63) - 1)

    def decode(self, codes: Codes) -> Samples:
        """A whole decode by the codec's own class."""
        self._check(codes)
        with torch.inference_mode():
            return self._whole(codes)

    def push(
        self, states: Sequence[DecoderState], codes: Sequence[Codes], last: Sequence[bool]
    ) -> list[Samples]:
        """Go on with some streams; their samples so far certain.

        Where it fails for another reason than what was pushed, the streams are at their end.

        Raises:
            ValueError: see :meth:`..decoders.decoder.Decoder.push`.
        """
        streams = self._checked(states, codes, last)
        with torch.inference_mode():
            try:
                return self._pushed(streams, codes, last)
            except BaseException:
                for stream in streams:
                    stream.length = stream.steps
                    stream.tensors = []
                raise

    def _pushed(
        self, streams: list[StreamState], codes: Sequence[Codes], last: Sequence[bool]
    ) -> list[Samples]:
        """All of a push, which was checked."""
        given: list[list[Samples]] = [[] for _ in streams]
        count = codes[0].shape[1] if codes else 0
        for stream, end in zip(streams, last, strict=True):
            if end:
                stream.length = stream.steps + count
        if count:
            new = torch.from_numpy(np.stack(codes).astype(np.int64))
            for parts, samples in zip(given, self._go_on(streams, new), strict=True):
                parts.append(samples)
            for stream in streams:
                stream.steps += count
        ending = [at for at, stream in enumerate(streams) if stream.ended and stream.steps]
        if ending and self._flush:
            nothing = torch.zeros(len(ending), len(self._sizes), self._flush, dtype=torch.int64)
            rest = self._go_on([streams[at] for at in ending], nothing)
            for at, samples in zip(ending, rest, strict=True):
                given[at].append(samples)
        for stream in streams:
            if stream.ended:
                stream.tensors = []
        return [np.concatenate(parts) if parts else self._silence for parts in given]

    def _go_on(self, streams: Sequence[StreamState], codes: Tensor) -> list[Samples]:
        """Push ``codes``, ``(batch, codebooks, count)``; what of it lies in the streams."""
        rows = ([s.steps for s in streams], [s.length for s in streams], [s.seed for s in streams])
        first, length, seed = torch.tensor(rows, device=self._device)
        edges = any(
            stream.steps < self._settled
            or stream.steps >= stream.length
            or (self._ends_early and stream.ended)
            for stream in streams
        )
        extent = Extent(first, length, seed, edges)
        states = [stream.tensors for stream in streams]
        samples = as_samples(self._step.run(codes.to(self._device), states, extent)[:, 0])
        return [
            row[self._inside(stream, row.shape[0])]
            for stream, row in zip(streams, samples, strict=True)
        ]

    def _inside(self, stream: StreamState, count: int) -> slice:
        """Which of the ``count`` samples of a stretch belong to a stream."""
        card = self._card
        begin = stream.steps * card.hop - card.lookahead
        end = stream.length * card.hop - card.short
        return slice(max(0, -begin), max(0, min(count, end - begin)))

    def _checked(
        self, states: Sequence[DecoderState], codes: Sequence[Codes], last: Sequence[bool]
    ) -> list[StreamState]:
        """The streams, if they and what is to be pushed are in order."""
        if not len(states) == len(codes) == len(last):
            counts = f"{len(states)}, {len(codes)} and {len(last)}"
            raise ValueError(f"expected as many states as codes and ends, got {counts}")
        streams: list[StreamState] = []
        for state in states:
            if not isinstance(state, StreamState):
                raise ValueError(f"expected a state of this decoder, got {type(state).__name__}")
            if state.ended:
                raise ValueError("expected a stream that goes on, got one that has ended")
            streams.append(state)
        if len({id(stream) for stream in streams}) < len(streams):
            raise ValueError("expected each stream once")
        if len({each.shape for each in codes}) > 1:
            raise ValueError("expected as many steps of each stream")
        for each in codes:
            self._check(each)
        if codes and not codes[0].shape[1] and not all(last):
            raise ValueError("expected steps, got none of a stream that goes on")
        return streams

    def _check(self, codes: Codes) -> None:
        """Refuse codes that are none."""
        books = len(self._sizes)
        if codes.ndim != 2 or codes.shape[0] != books:
            raise ValueError(f"expected codes of shape ({books}, steps), got {codes.shape}")
        wrong = (codes < 0) | (codes >= self._sizes)
        if wrong.any():
            book, at = (int(place[0]) for place in np.nonzero(wrong))
            size = int(self._sizes[book, 0])
            raise ValueError(
                f"expected codes of 0 to {size - 1} in codebook {book}, got {codes[book, at]}"
            )
