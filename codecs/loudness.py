"""Loudness after ITU-R BS.1770-4 and EBU R128: measured, and kept at a level while sound is made.

A voice says one sentence louder than the next, and a single word may be 5 LU above or below the
voice as a whole. A :class:`Leveller` begins with the gain that the voice needs on the whole
(:class:`VoiceLevel`), and then three things change it:

- slowly, what the text has been so far, as the integrated loudness has it;
- quickly, a sound that sticks out: it alone decides how loud a single word is;
- ahead of a peak, the limiter.

Nothing is known of what comes later, so a word that is loud from its beginning stays a little
louder, and one that ends softly a little softer.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .limiter import HELD_SAMPLES, Limiter, Samples
from .pcm import SAMPLE_BYTES, from_float, to_float
from .weighting import HOP, RATE, Weighting

QUIETEST, LOUDEST = -36.0, -12.0
"""LUFS that can be asked for."""

SILENCE_LUFS = -70.0
"""What is softer counts as silence, in the standards too."""

PEAK_DBTP = -1.0
"""No true peak is above it."""

DELAY_SAMPLES = HELD_SAMPLES
"""By which a :class:`Leveller` lags behind, at most: 7.7 ms."""

_WINDOW = 40
"""Hops of a block of the standard, 400 ms."""

_STEP = 10
"""Hops from one block to the next, where all is measured at once."""

_CEILING_DBTP = PEAK_DBTP - 0.3
"""Of the limiter, which looks at four places a sample and misses what peaks between them."""

_RELATIVE_GATE = 0.1
"""Blocks 10 LU below the others are pauses."""

_OFFSET = 0.691
"""Of loudness to mean square: at 1 kHz the weighting has that much gain."""


def lufs(power: float) -> float:
    """Return the loudness of a mean square of weighted samples; not below silence."""
    return max(SILENCE_LUFS, 10 * math.log10(power) - _OFFSET) if power > 0 else SILENCE_LUFS


def _power(loudness: float) -> float:
    return float(10 ** ((loudness + _OFFSET) / 10))


_SILENCE = _power(SILENCE_LUFS)


def integrated(pcm: bytes) -> float:
    """Return the integrated loudness of s16le mono at :data:`RATE` in LUFS.

    Less than 400 ms, or nothing above :data:`SILENCE_LUFS`, is :data:`SILENCE_LUFS`.
    """
    return _integrated(Weighting().feed(to_float(pcm)))


def _integrated(hops: Sequence[float]) -> float:
    starts = range(0, len(hops) - _WINDOW + 1, _STEP)
    blocks = np.asarray([sum(hops[start : start + _WINDOW]) / _WINDOW for start in starts])
    blocks = blocks[blocks > _SILENCE]
    if not blocks.size:
        return SILENCE_LUFS
    blocks = blocks[blocks > blocks.mean() * _RELATIVE_GATE]
    return lufs(float(blocks.mean()))


@dataclass(frozen=True, slots=True)
class VoiceLevel:
    """How loud a voice is by itself, and how loud it can be made."""

    loudness: float
    """LUFS of its speech as it is."""

    aims: tuple[float, ...] = (0.0,)
    """LUFS that were aimed at, rising."""

    reached: tuple[float, ...] = (0.0,)
    """What came of each: less, the more peaks are limited."""

    def aim(self, target: float) -> float:
        """Return what to aim at so that ``target`` is reached."""
        beyond = np.asarray(self.aims) - np.asarray(self.reached)
        return target + float(np.interp(target, self.reached, beyond))


UNKNOWN_LEVEL = VoiceLevel(-24.0)
"""Of a voice that could not be measured: about that of speech recordings."""


def measure_voice(pcm: bytes) -> VoiceLevel:
    """Return the level of a voice from a few sentences of it.

    Of silence it is :data:`UNKNOWN_LEVEL`. Takes about 20 ms for each second of ``pcm``.
    """
    loudness = integrated(pcm)
    if loudness <= SILENCE_LUFS:
        return UNKNOWN_LEVEL
    plain = VoiceLevel(loudness)
    lost = np.asarray([aim - integrated(_levelled(pcm, aim, plain)) for aim in _AIMS])
    # What the softest one lacks is chance: its peaks are far from the limit.
    reached = np.asarray(_AIMS) - np.maximum.accumulate(lost - lost[0])
    return VoiceLevel(loudness, _AIMS, tuple(reached.tolist()))


_AIMS = (-36.0, -24.0, -20.0, -16.0, -12.0, -8.0, -4.0, 0.0)


def _levelled(pcm: bytes, aim: float, level: VoiceLevel) -> bytes:
    leveller = Leveller(aim, level)
    return leveller.feed(pcm) + leveller.flush()


class Leveller:
    """Brings one stream of s16le mono at :data:`RATE` to a loudness while it is made.

    However the bytes are split, also within a sample, the outputs concatenate to the same
    bytes, as many as went in. At most :data:`DELAY_SAMPLES` are held back. A second costs
    about two milliseconds.
    """

    def __init__(self, target: float, level: VoiceLevel = UNKNOWN_LEVEL) -> None:
        """``target``: LUFS. ``level``: of the voice that is heard."""
        aim = level.aim(target)
        self._gains = _Gains(level.loudness)
        self._base = 10 ** ((aim - level.loudness) / 20)
        self._weighting = Weighting()
        self._limiter = Limiter(_CEILING_DBTP)
        self._edges = (self._base, self._base)
        """Gains at the begin and the end of the hop that is under way."""

        self._at = 0
        """Samples of that hop that are through."""

        self._half_sample = b""

    def feed(self, pcm: bytes) -> bytes:
        """Return the whole samples that are ready after ``pcm``, which may end within one."""
        pcm = self._half_sample + pcm
        whole = len(pcm) - len(pcm) % SAMPLE_BYTES
        self._half_sample = pcm[whole:]
        samples = to_float(pcm[:whole])
        return from_float(self._limiter.feed(samples * self._gains_of(samples)))

    def flush(self) -> bytes:
        """Return the samples still held back. Nothing can be fed after that.

        Half a sample at the end is dropped: its other half never came.
        """
        self._half_sample = b""
        return from_float(self._limiter.flush())

    def _gains_of(self, samples: Samples) -> Samples:
        """Return the gain of each sample, in straight lines from hop to hop."""
        begins, ends = [self._edges[0]], [self._edges[1]]
        for measure in self._weighting.feed(samples):
            begins.append(ends[-1])
            ends.append(self._base * self._gains.after(measure))
        self._edges = begins[-1], ends[-1]
        first = np.asarray(begins, np.float32)[:, None]
        last = np.asarray(ends, np.float32)[:, None]
        lines = np.asarray(first + (last - first) * _RAMP, np.float32).ravel()
        of_samples = lines[self._at : self._at + samples.size]
        self._at = (self._at + samples.size) % HOP
        return of_samples


_RAMP: Samples = np.asarray(np.arange(HOP) / HOP, np.float32)

# Found with 70 texts of a voice, from one word to three minutes.

_SURE_HOPS = 40
"""As much as this many hops, the level of the voice counts beside what was heard."""

_HEARD_HOPS = 500
"""Hops of speech that count at most, 5 s: what was before fades."""

_STRENGTH = 3.0
"""A text that is too loud so far is made so much softer that it evens out."""

_LASTING = 0.006
"""Of what is wrong, what each hop adds to the gain for good: that takes some seconds."""

_MOST_DB = 20.0
"""By which the gain may differ from what the voice needs by itself."""

_SLOW_RISE, _SLOW_FALL = 10.0, 20.0
"""dB a second."""

_STICKS_OUT = 4.5
"""dB above the level at which a sound is held down."""

_QUICK_RISE, _QUICK_FALL = 20.0, 60.0
_QUICK_HOPS = 2.0
"""Over which a sound's power is averaged."""

_LEAN = 0.15
"""dB that are aimed higher, as holding down takes so much from the whole."""

_HOPS_A_SECOND = RATE // HOP


class _Mean:
    """A mean of powers that begins with what is expected, and forgets."""

    def __init__(self, expected: float) -> None:
        self._sum, self._count = _SURE_HOPS * expected, float(_SURE_HOPS)

    @property
    def value(self) -> float:
        return self._sum / self._count

    def add(self, power: float) -> None:
        self._sum += power
        self._count += 1
        if self._count > _HEARD_HOPS:
            self._sum *= _HEARD_HOPS / self._count
            self._count = _HEARD_HOPS


class _Gains:
    """The gain of each hop beside the voice's own, from those before it."""

    def __init__(self, loudness: float) -> None:
        self._level = _power(loudness + _LEAN)
        self._blocks: deque[float] = deque([0.0] * _WINDOW, _WINDOW)
        self._block = 0.0
        self._hops = 0
        self._all, self._speech = _Mean(self._level), _Mean(self._level)
        self._sound = 0.0
        self._lasting = self._slow = _LEAN
        self._quick = 0.0

    def after(self, measure: float) -> float:
        """Return the next hop's gain; ``measure`` is of the one before, as it came."""
        spoken = self._note(measure * 10 ** ((self._slow + self._quick) / 10))
        self._sound += (measure - self._sound) / _QUICK_HOPS
        wrong = 10 * math.log10(self._speech.value / self._level)
        if spoken:
            self._lasting = _bounded(self._lasting - wrong * _LASTING)
        wanted = _bounded(self._lasting - _STRENGTH * wrong)
        self._slow = _towards(self._slow, wanted, _SLOW_RISE, _SLOW_FALL)
        over = 10 * math.log10(self._sound / self._level + 1e-9) + self._slow - _STICKS_OUT
        self._quick = _towards(self._quick, min(0.0, -over), _QUICK_RISE, _QUICK_FALL)
        return float(10 ** ((self._slow + self._quick) / 20))

    def _note(self, power: float) -> bool:
        """Take a hop, as it went out, into what was heard; return whether it is speech."""
        self._block = max(0.0, self._block + power - self._blocks[0])
        self._blocks.append(power)
        self._hops += 1
        block = self._block / _WINDOW
        # What is not yet a whole block can only become louder.
        if block <= _SILENCE or (self._hops < _WINDOW and block <= self._speech.value):
            return False
        self._all.add(block)
        if block <= self._all.value * _RELATIVE_GATE:
            return False
        self._speech.add(block)
        return True


def _bounded(gain: float) -> float:
    return min(max(gain, -_MOST_DB), _MOST_DB)


def _towards(gain: float, wanted: float, rise: float, fall: float) -> float:
    return min(max(wanted, gain - fall / _HOPS_A_SECOND), gain + rise / _HOPS_A_SECOND)
