"""Decoders whose sound depends on the whole utterance, a window at a time.

Attention over all steps and norms over time have no streaming form: whatever is decoded before
the end is known differs from a whole decode. What can be had is that the sound is always the
same, and has no seams. So the windows are a pure function of the step number
(:class:`Schedule`), whatever the pushes, and where one meets the next the two cross-fade.

A window gives the steps from its ``begin`` to its ``end``. It is decoded with what comes before
it and some of what comes after, as soon as that is there; the last window gives all there is.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ...chunks import Samples
from .decoder import Codes, DecoderCard, DecoderState

DecodeBatch = Callable[[Tensor], Tensor]
"""Codes ``(batch, codebooks, n)`` int64 to samples ``(batch, n * hop)`` float32."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of steps that are decoded together."""

    begin: int
    end: int
    """The steps from one to the other are given."""

    need: int
    """Steps that have to be pushed before it is decoded, unless the stream is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Which steps are decoded together; nothing of it depends on how they are pushed.

    The sizes, in steps of 20 ms. *Look-ahead*: past the convolutions' reach of 12.5 steps a
    window's end is as good as its middle, but five steps already leave 56 dB of what they say,
    far below what attention and the norms change; one more is the room of the cross-fade.
    *Look-back*: a second, the shortest over which speech has all its levels, so that the norms
    over time agree from one window to the next. *Hops*: the first is small for an early first
    sound, after 16 steps; then they grow, as a large window costs less a step (50 steps: 2.1
    times a whole decode, 10 steps in the middle of a stream: 6.6). They grow so slowly that each
    window is there before the one before it has been played, where steps come at 1.3 times the
    speed of playback, or faster.

    *Fade*: measured with random weights of both codecs, 256 wide and 8 layers deep, whose sound
    falls with frequency as speech does: the energy of the second difference in 8 samples round a
    seam, against that of a whole decode there. Without a fade 33 to 38 dB above it, with 15
    samples 3 to 8, from 60 on what it is with any longer one (0 to 2). The sound's energy over
    a fade stays within 0.3 dB up to 960 samples. 240 are four times what suffices.
    """

    hops: tuple[int, ...] = (10, 10, 15, 20, 25, 25, 40, 50)
    """Steps that each window gives; all further ones as many as the last."""

    behind: int = 50
    """Look-back."""

    ahead: int = 6
    """Look-ahead."""

    fade: int = 240
    """Samples of a cross-fade, within the look-ahead."""

    def window(self, number: int) -> Window:
        """The window of a number, from 0, of a stream without an end."""
        known = len(self.hops) - 1
        begin = sum(self.hops[:number]) + max(0, number - known - 1) * self.hops[-1]
        end = begin + self.hops[min(number, known)]
        return Window(begin, end, end + self.ahead)

    def given(self, steps: int) -> int:
        """Steps that the windows give for which so many suffice."""
        number = 0
        while self.window(number).need <= steps:
            number += 1
        return self.window(number).begin

    @property
    def lookahead(self) -> int:
        """Steps by which what is given lies behind what was pushed, at most."""
        return max(self.hops) + self.ahead - 1

    @property
    def first(self) -> int:
        """Steps after which the first sound is given."""
        return self.window(0).need


@dataclass(slots=True, eq=False)
class WindowedState:
    """One stream."""

    codes: Codes
    """What may still be needed: from step ``begin - behind`` on, the lead's included."""

    offset: int
    """The step of the first of them; negative in the lead."""

    steps: int = 0
    number: int = 0
    """Of the next window."""

    given: int = 0
    """Steps whose sound was given."""

    tail: Samples = field(default_factory=lambda: np.zeros(0, np.float32))
    """How the last window would have gone on: it fades out."""

    ended: bool = False


@dataclass(frozen=True, slots=True)
class _Job:
    """A window that can be decoded now."""

    place: int
    """Of its stream in the push."""

    state: WindowedState
    codes: Codes
    skip: int
    """Steps ahead of those that are given."""

    steps: int
    """That are given."""


class WindowedDecoder:
    """A :class:`~.decoder.Decoder` that :class:`~.decoder.GivesInWindows` and
    :class:`~.decoder.LeadsIn`."""

    def __init__(
        self,
        card: DecoderCard,
        schedule: Schedule,
        decode: DecodeBatch,
        device: torch.device,
        batch: int = 1,
    ) -> None:
        """``decode``: a whole decode by the codec's own class, from several threads at once.

        ``batch``: the most windows that are decoded at once.

        Raises:
            ValueError: the schedule's fade is longer than its look-ahead.
        """
        if schedule.fade > schedule.ahead * card.hop:
            raise ValueError(f"expected a fade of at most {schedule.ahead * card.hop} samples")
        self._card = card
        self._schedule = schedule
        self._decode = decode
        self._device = device
        self._batch = max(1, batch)
        # In the middle of each sample; both sum to one, as what they join is nearly the same.
        at = (np.arange(schedule.fade, dtype=np.float32) + 0.5) / max(1, schedule.fade)
        self._rise: Samples = (0.5 - 0.5 * np.cos(np.pi * at)).astype(np.float32)

    @property
    def card(self) -> DecoderCard:
        """What it is."""
        return self._card

    @property
    def schedule(self) -> Schedule:
        """Its windows."""
        return self._schedule

    def given(self, steps: int) -> int:
        """As :meth:`.decoder.GivesInWindows.given`."""
        return self._schedule.given(steps)

    def open(self, seed: int = 0, *, lead: Codes | None = None) -> WindowedState:
        """Begin a stream. There is no noise, so ``seed`` has no effect.

        ``lead``: as :meth:`.decoder.LeadsIn.open`; of a long one the last steps are used. What
        still sounds of it is faded out at the start.

        Raises:
            ValueError: the lead has another shape, or a code is out of its codebook.
        """
        if lead is None:
            lead = np.zeros((len(self._card.sizes), 0), np.int32)
        self._check(lead)
        kept = lead[:, max(0, lead.shape[1] - self._schedule.behind) :].copy()
        state = WindowedState(kept, -kept.shape[1])
        if kept.size:
            state.tail = np.zeros(self._schedule.fade, np.float32)
        return state

    def push(
        self, states: Sequence[DecoderState], codes: Sequence[Codes], last: Sequence[bool]
    ) -> list[Samples]:
        """As :meth:`.decoder.Decoder.push`: nothing, one window's samples or several windows'."""
        streams = self._streams(states, codes, last)
        for state, new, ends in zip(streams, codes, last, strict=True):
            state.codes = np.concatenate([state.codes, new], axis=1)
            state.steps += new.shape[1]
            state.ended = ends
        made: list[list[Samples]] = [[] for _ in streams]
        while jobs := [
            job for place, state in enumerate(streams) if (job := self._next(place, state))
        ]:
            for job, sound in self._run(jobs):
                made[job.place].append(self._join(job, sound))
        return [np.concatenate([np.zeros(0, np.float32), *each]) for each in made]

    def decode(self, codes: Codes) -> Samples:
        """A whole decode by the codec's own class."""
        self._check(codes)
        if not codes.shape[1]:
            return np.zeros(0, np.float32)
        return self._sound([codes])[0]

    def _streams(
        self, states: Sequence[DecoderState], codes: Sequence[Codes], last: Sequence[bool]
    ) -> list[WindowedState]:
        """The states of a push that may be done."""
        if not len(states) == len(codes) == len(last):
            raise ValueError(f"expected codes and ends of {len(states)} streams")
        streams: list[WindowedState] = []
        for state in states:
            if not isinstance(state, WindowedState):
                raise ValueError("expected states that this decoder has opened")
            if state.ended:
                raise ValueError("expected no stream that was ended before")
            streams.append(state)
        if len(set(map(id, streams))) < len(streams):
            raise ValueError("expected every stream once")
        for each in codes:
            self._check(each)
        sizes = {each.shape[1] for each in codes}
        if len(sizes) > 1:
            raise ValueError(f"expected as many steps of each stream, got {sorted(sizes)}")
        if sizes == {0} and not all(last):
            raise ValueError("expected steps, as not all streams end")
        return streams

    def _check(self, codes: Codes) -> None:
        sizes = self._card.sizes
        if codes.ndim != 2 or codes.shape[0] != len(sizes):
            raise ValueError(f"expected codes of shape ({len(sizes)}, n), got {codes.shape}")
        for row, size in zip(codes, sizes, strict=True):
            if row.size and not 0 <= row.min() <= row.max() < size:
                raise ValueError(f"expected codes from 0 to {size - 1}")

    def _next(self, place: int, state: WindowedState) -> _Job | None:
        """The next window of a stream, if all it takes is there; moves the stream beyond it."""
        window = self._schedule.window(state.number)
        end, until = window.end, window.need
        if state.steps < window.need:
            # The last, which may give more than its own steps; unless it was had already.
            if not state.ended or state.given == state.steps:
                return None
            end = until = state.steps
        begin = max(state.offset, window.begin - self._schedule.behind)
        codes = state.codes[:, begin - state.offset : until - state.offset]
        job = _Job(place, state, codes, window.begin - begin, end - window.begin)
        state.number, state.given = state.number + 1, end
        keep = max(state.offset, end - self._schedule.behind)
        state.codes, state.offset = state.codes[:, keep - state.offset :], keep
        return job

    def _run(self, jobs: list[_Job]) -> list[tuple[_Job, Samples]]:
        """The sound of some windows, each as long as its codes; equal ones together."""
        alike: dict[int, list[_Job]] = {}
        for job in jobs:
            alike.setdefault(job.codes.shape[1], []).append(job)
        done: list[tuple[_Job, Samples]] = []
        for group in alike.values():
            for at in range(0, len(group), self._batch):
                some = group[at : at + self._batch]
                done += zip(some, self._sound([job.codes for job in some]), strict=True)
        return done

    def _sound(self, codes: Sequence[Codes]) -> list[Samples]:
        with torch.inference_mode():
            given = torch.from_numpy(np.stack(codes).astype(np.int64)).to(self._device)
            sound: Samples = self._decode(given).float().cpu().numpy()
        return list(sound)

    def _join(self, job: _Job, sound: Samples) -> Samples:
        """What a window gives; its beginning fades in over the end of the one before."""
        hop, fade = self._card.hop, self._schedule.fade
        begin, end = job.skip * hop, (job.skip + job.steps) * hop
        given = sound[begin:end].copy()
        over = min(job.state.tail.size, given.size)
        given[:over] *= self._rise[:over]
        given[:over] += job.state.tail[:over] * self._rise[::-1][:over]
        job.state.tail = sound[end : end + fade].copy()
        return given
