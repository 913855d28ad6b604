"""The self-check of a decoder when it is loaded: it does what its card promises, or is refused.

Two decodes of a short random sequence that differ in one place show how far a code reaches, and
so how long a stream has to wait for what comes after; pushes of other sizes show whether a stream
is what a whole decode is. A decoder that gives a sample before everything it depends on was
pushed is wrong at every seam, which nobody finds by listening to whole files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...chunks import Samples, StageError
from ...stage import StageFailure
from .decoder import Codes, Decoder

HOLD = 4
"""Steps for which the codes of the sequence stay the same: as long as the slowest codebook."""

MARGIN = 2
"""Steps ahead of the changed ones, beyond the promised look-ahead: what is seen of a lie."""

AFTER = 4
"""Steps behind them."""

WINDOWED = 28
"""Steps of the sequence of a windowed decoder: some seams."""

TOLERANCES = {"float32": 1e-5, "bfloat16": 5e-2, "float16": 5e-3}
"""Of the loudest sample, by the type that is computed with. What is below is rounding, which
another shape of the same work changes; the other way round, a look-ahead that is too short by
so little is not heard."""

CHUNKINGS = ((1, 6, 2), (9, 4))
"""Sizes of pushes, repeated up to the end."""

RATE_SLACK = 0.02
"""By which the steps of a second may be off."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a code changes the sound, samples."""

    ahead: int
    """Ahead of its own: so far a decoder has to look ahead."""

    behind: int
    """Beyond its own, or up to the end of the sequence."""


def check_decoder(
    decoder: Decoder,
    dtype: Literal["float32", "bfloat16", "float16"] = "float32",
    *,
    steps_per_second: float | None = None,
) -> Reach:
    """Compare a decoder with its card; takes four decodes of some 20 steps.

    ``steps_per_second``: as the language model says them, where it is known.

    Raises:
        StageFailure: the card promises too little, or something else (``model_unusable``).
    """
    card = decoder.card
    rate = card.sample_rate / card.hop
    if steps_per_second and abs(rate / steps_per_second - 1) > RATE_SLACK:
        raise _refused(
            card.name, f"expected {steps_per_second:g} steps a second, its card says {rate:.4g}"
        )
    windowed = card.mode == "windowed"
    # The first steps of some codecs depend on each other: the code that is changed lies beyond.
    ahead = max(card.lookahead // card.hop + MARGIN, card.first_steps)
    place = _aligned(WINDOWED // 2 if windowed else ahead)
    steps = WINDOWED if windowed else place + HOLD + AFTER
    codes, changed = _sequences(card.sizes, steps, place)
    try:
        whole = decoder.decode(codes)
        other = whole if windowed else decoder.decode(changed)
        streams = [_streamed(decoder, codes, sizes) for sizes in CHUNKINGS]
    except StageFailure:
        raise
    except Exception as error:
        # Of a card with other codebooks than the tables have, for one.
        raise _refused(card.name, f"it can't decode: {type(error).__name__}") from None
    wanted = steps * card.hop - card.short
    for name, sound in (("a decode", whole), ("a stream", streams[0]), ("a stream", streams[1])):
        if sound.shape != (wanted,):
            raise _refused(
                card.name,
                f"{name} of {steps} steps gives {sound.size} samples, its card says {wanted}",
            )
    loudest = float(np.abs(whole).max(initial=0.0))
    if not (np.isfinite(whole).all() and loudest > 0):
        raise _refused(card.name, "random codes give no sound: its weights are no codec's")
    slack = TOLERANCES[dtype] * loudest
    if windowed:
        _require_equal(card.name, streams[1], streams[0], slack, "another stream's")
        return Reach(card.lookahead, steps * card.hop)
    reach = _reach(whole, other, slack, np.flatnonzero((codes != changed).any(axis=0)), card.hop)
    if reach.ahead > card.lookahead:
        raise _refused(
            card.name,
            f"a code changes the sound {reach.ahead} samples ahead of its own,"
            f" its card says {card.lookahead}",
        )
    for each in streams:
        _require_equal(card.name, each, whole, slack, "a whole decode's")
    return reach


def _aligned(steps: int) -> int:
    return -(-steps // HOLD) * HOLD


def _sequences(sizes: tuple[int, ...], steps: int, place: int) -> tuple[Codes, Codes]:
    """Codes that use both ends of every codebook, and the same with others at one place."""
    rng = np.random.default_rng(0)
    blocks = -(-steps // HOLD)
    codes = np.stack([rng.integers(0, size, blocks) for size in sizes]).astype(np.int32)
    codes[:, 0], codes[:, -1] = 0, np.array(sizes) - 1
    changed = codes.copy()
    at = place // HOLD
    # Half of a codebook away, so that it is another code also where there are two.
    changed[:, at] = [
        (code + max(1, size // 2)) % size for code, size in zip(codes[:, at], sizes, strict=True)
    ]
    return tuple(np.repeat(each, HOLD, axis=1)[:, :steps].copy() for each in (codes, changed))  # type: ignore[return-value]


def _streamed(decoder: Decoder, codes: Codes, sizes: tuple[int, ...]) -> Samples:
    """A stream's samples, and whether they come when the card says."""
    card, steps = decoder.card, codes.shape[1]
    state = decoder.open()
    made: list[Samples] = []
    pushed = number = given = 0
    while pushed < steps:
        size = min(sizes[number % len(sizes)], steps - pushed)
        if not pushed:
            size = min(max(size, card.first_steps), steps)
        number += 1
        last = pushed + size == steps
        (sound,) = decoder.push([state], [codes[:, pushed : pushed + size]], [last])
        pushed += size
        given += sound.size
        made.append(sound)
        late = pushed * card.hop - card.lookahead - given
        if late > 0 and not last:
            raise _refused(
                card.name,
                f"after {pushed} steps a stream is {late + card.lookahead} samples behind,"
                f" its card says {card.lookahead}",
            )
    return np.concatenate(made)


def _reach(
    whole: Samples,
    other: Samples,
    slack: float,
    steps: np.ndarray[tuple[int], np.dtype[np.intp]],
    hop: int,
) -> Reach:
    different = np.flatnonzero(np.abs(whole - other) > slack)
    if not different.size:
        return Reach(0, 0)
    begin, end = int(steps[0]) * hop, (int(steps[-1]) + 1) * hop
    return Reach(max(0, begin - int(different[0])), max(0, int(different[-1]) + 1 - end))


def _require_equal(name: str, got: Samples, wanted: Samples, slack: float, whose: str) -> None:
    off = np.abs(got - wanted)
    if not (worst := float(off.max(initial=0.0))) <= slack:
        first = int(np.flatnonzero(~(off <= slack))[0])
        raise _refused(
            name,
            f"a stream's samples are not {whose}: from sample {first} on, by {worst:.1e} at most",
        )


def _refused(name: str, what: str) -> StageFailure:
    return StageFailure(StageError("model_unusable", f"the decoder of {name} is refused: {what}"))
