"""A recording of somebody, made into what a family takes a voice from. All calls may take long."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from ....codecs.media import MediaError, MediaMissing, open_audio
from ....codecs.pcm import to_float
from ...chunks import Samples, StageError, Word
from ...pipeline import VoiceRecording
from ...stage import StageFailure
from ..decoders.decoder import Encoder
from ..decoders.threads import use_threads
from ..families.family import Family, Reference

BEYOND_SECONDS = 0.5
"""By so much a recording may be longer than its family wants: it is cut, not refused."""

FRAME_SECONDS = 0.02
"""Stretches that count as sound or silence."""

QUIET_DB = -40.0
"""A stretch so far below the loudest is silence."""

SILENT = 0.003
"""Mean square root of a stretch, full scale 1, below which the loudest is no speech: -50 dB."""


def unusable(code: str, what: str) -> StageFailure:
    """That a voice can't be made, and of what."""
    return StageFailure(StageError(code, what))


def make_reference(
    recording: VoiceRecording, family: Family, load: Callable[[], Encoder]
) -> tuple[Reference, float]:
    """Encode a recording, and have its family find the rest; also its length, seconds.

    ``load``: of the codec's encoder, which is let go of at the end: it is large, and voices are
    added seldom.

    Raises:
        StageFailure: it is no recording that a voice can be taken from
            (``recording_unusable``), or what is said in it is not (``text_unusable``); or what
            ``load`` raises.
    """
    encoder = load()
    # Speech that somebody hears meanwhile keeps the other cores.
    use_threads(1)
    samples = read_samples(recording.audio, encoder.sample_rate, family.reference_seconds)
    words = recording.words or spread(recording.text, samples, encoder.sample_rate)
    codes = np.ascontiguousarray(encoder.encode(samples), np.int32)
    if codes.ndim != 2 or not codes.size:
        raise unusable("recording_unusable", "the recording gives no codes")
    found = Reference(text=recording.text, codes=codes, words=words)
    if family.describe is not None:
        try:
            found = family.describe(found, samples, encoder.sample_rate)
        except ValueError as error:
            raise unusable("text_unusable", f"the voice can't be described: {error}") from None
    return found, samples.size / encoder.sample_rate


def read_samples(audio: Path, rate: int, seconds: tuple[float, float]) -> Samples:
    """The sound of a file at a rate; ``(n,)``.

    ``seconds``: how short and how long it may be. What is up to :data:`BEYOND_SECONDS` longer
    is cut at its end.

    Raises:
        StageFailure: it has another length, is silent, or can't be read
            (``recording_unusable``), or PyAV is not there (``package_missing``).
    """
    shortest, longest = seconds
    pieces: list[bytes] = []
    try:
        with audio.open("rb") as file:
            source = open_audio(file, rate=rate, max_seconds=longest + BEYOND_SECONDS)
            try:
                while piece := source.read():
                    pieces.append(piece)
            finally:
                source.close()
    except MediaMissing:
        what = "recordings need PyAV: run `pip install 'antiphon[opus]'`"
        raise StageFailure(StageError("package_missing", what)) from None
    except MediaError as error:
        what = error.message
        if error.code == "too_long":
            what = f"expected a recording of at most {longest:g} s, got a longer one"
        raise unusable("recording_unusable", what) from None
    samples = to_float(b"".join(pieces))[: int(longest * rate)]
    if samples.size < shortest * rate:
        got = samples.size / rate
        what = f"expected a recording of at least {shortest:g} s, got {got:.1f} s"
        raise unusable("recording_unusable", what)
    if _levels(samples, rate).max(initial=0.0) < SILENT:
        raise unusable("recording_unusable", "expected speech, got a silent recording")
    return samples


def spread(text: str, samples: Samples, rate: int) -> tuple[Word, ...]:
    """Times of the words where nobody told them: by their letters, from the first sound to the
    last. An estimate."""
    words = text.split()
    levels = _levels(samples, rate)
    loud = np.flatnonzero(levels > levels.max(initial=0.0) * 10 ** (QUIET_DB / 20))
    if not words or not loud.size:
        return ()
    frame_ms = 1000 * FRAME_SECONDS
    start = int(loud[0]) * frame_ms
    end = min((int(loud[-1]) + 1) * frame_ms, 1000 * samples.size / rate)
    sizes = [1 + sum(map(str.isalnum, word)) for word in words]
    marks = [start + (end - start) * done / sum(sizes) for done in (0, *accumulate(sizes))]
    times = pairwise(marks)
    return tuple(Word(word, *at) for word, at in zip(words, times, strict=True))


def _levels(samples: Samples, rate: int) -> Samples:
    """Mean square root of each whole stretch, ``(n,)``."""
    size = max(1, int(rate * FRAME_SECONDS))
    whole = samples[: samples.size - samples.size % size].reshape(-1, size)
    levels: Samples = np.sqrt(np.square(whole).mean(axis=1, dtype=np.float32))
    return levels
