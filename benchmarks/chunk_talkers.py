"""Replies of a language model that says the codes of a codec, a token at a time.

The codec is SNAC, as Orpheus speaks it: seven tokens are a frame of four steps, and a step of
sound is whole when the codes of ten more are there, or those of the last. So the sound runs
behind the tokens by a fixed time at the start, and all that is left comes at once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from benchmarks.chunk_sim import Trace
from benchmarks.chunk_traces import WAY_MS, Case

STEP_MS = 1000 * 512 / 24_000
LADDER = (2, 3, 4, 6, 8, 12, 16, 24, 32)

LOOKAHEAD = 10
"""Steps."""

TOKENS_OF_STEPS = (3, 4, 6, 7)
"""Tokens of a frame after which each of its steps is known."""

REAL_TIME = 7 / (4 * STEP_MS) * 1000
"""Tokens a second: 82."""

RATES = (78.0, 82.0, 88.0, 95.0, 110.0, 140.0, 200.0, 400.0)
SHORT_RATES = (78.0, 88.0, 110.0, 200.0)


@dataclass(frozen=True, slots=True)
class Talk:
    """What a reply is made for."""

    rate: float
    """Tokens a second."""

    random: Random
    frames: int
    """Of the codec."""

    @property
    def gap_ms(self) -> float:
        """Between two tokens."""
        return 1000 / self.rate

    @property
    def prefill_ms(self) -> float:
        """To the first token."""
        return self.random.uniform(40.0, 250.0)


def even(talk: Talk) -> list[float]:
    """Tokens at an even pace."""
    return [talk.gap_ms * talk.random.uniform(0.95, 1.05) for _ in range(7 * talk.frames)]


def jitter(talk: Talk) -> list[float]:
    """A step of the engine for each token, now and then a long one for others' prefill."""
    random = talk.random
    # Three in a hundred take four times as long, and the others so much less.
    return [
        random.gammavariate(4.0, talk.gap_ms / 4.0) * (4.0 if random.random() < 0.03 else 0.917)
        for _ in range(7 * talk.frames)
    ]


def load(talk: Talk) -> list[float]:
    """More others in the engine's batch in the second third, and fewer around it."""
    tokens = 7 * talk.frames
    slow = range(tokens // 3, 2 * tokens // 3)
    return [
        talk.gap_ms * (1.2 if at in slow else 0.9) * talk.random.uniform(0.9, 1.1)
        for at in range(tokens)
    ]


FAMILIES: dict[str, Callable[[Talk], list[float]]] = {
    f"tokens, {make.__name__}": make for make in (even, jitter, load)
}


def steps_of(tokens_ms: list[float]) -> list[float]:
    """When each step's sound is whole, by when its tokens come: seven a frame."""
    known = [
        tokens_ms[frame + tokens - 1]
        for frame in range(0, len(tokens_ms), 7)
        for tokens in TOKENS_OF_STEPS
    ]
    last = len(known) - 1
    return [known[min(step + LOOKAHEAD, last)] for step in range(len(known))]


def reply(gaps_ms: Callable[[Talk], list[float]], talk: Talk) -> Trace:
    """One reply; its decoder is a GPU's, for which a push costs much the same whatever it holds."""
    now, tokens = talk.prefill_ms, list[float]()
    for gap in gaps_ms(talk):
        now += gap
        tokens.append(now)
    ready = steps_of(tokens)
    random = talk.random
    return Trace(
        frame_ms=STEP_MS,
        ladder=LADDER,
        ready_ms=tuple(ready),
        fixed_ms=4.0,
        per_frame_ms=0.3,
        factors=tuple(random.uniform(0.95, 1.2) for _ in ready),
        delays_ms=tuple(WAY_MS + random.uniform(0, 3) for _ in ready),
    )


def talkers(seed: int, *, rates: tuple[float, ...], replies: int) -> Iterator[Case]:
    """Yield a case for each family and rate."""
    for family, gaps_ms in FAMILIES.items():
        for rate in rates:
            name = f"{family}, {rate:g} a second"
            random = Random(f"{seed} {name}")
            traces = tuple(
                reply(gaps_ms, Talk(rate, random, random.randrange(35, 105)))
                for _ in range(replies)
            )
            yield Case(family, name, traces)
