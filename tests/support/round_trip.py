"""Files of speech as players decode them, and what was written against what was heard."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from antiphon.engines.speech.reading.reader import normalize

from .speech import RATE, word_errors

Wave = NDArray[np.float64]

_SCALES = {"int16": 1.0, "int32": 1 / 65_536, "float32": 32_768.0}
"""From a decoder's samples to those of s16le."""

_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
_SUFFIXES: dict[int, str] = {1: "st", 2: "nd", 3: "rd"}
_SAME: dict[str, str] = {
    **{word: f"{n}{_SUFFIXES.get(n, 'th')}" for n, word in enumerate(_ORDINALS, start=1)},
    "ok": "okay",
    "minus": "-",
}


@dataclass(frozen=True, slots=True, eq=False)
class Sound:
    """A file as a player decodes it."""

    container: str
    codec: str
    rate: int
    """Of the decoder: that of Opus is always 48,000."""

    channels: int
    samples: Wave
    """At :data:`RATE`, on the scale of s16le."""

    @property
    def pcm(self) -> bytes:
        """The samples as s16le."""
        return np.clip(np.round(self.samples), -32_768, 32_767).astype("<i2").tobytes()


def decoded(file: bytes) -> Sound:
    """Decode a file, of which nothing is told but its bytes."""
    library: Any = av
    with library.open(io.BytesIO(file)) as container:
        stream = container.streams.audio[0]
        frames = list(container.decode(stream))
        context = stream.codec_context
        about = container.format.name, context.codec.canonical_name, context.rate, context.channels
    pieces = [frame.to_ndarray().reshape(-1) for frame in frames]
    samples = np.concatenate([piece * _SCALES[str(piece.dtype)] for piece in pieces])
    # Every other sample shows speech well enough.
    return Sound(*about, samples[:: about[2] // RATE])


def plain_sound(pcm: bytes) -> Sound:
    """Samples without a file around them."""
    return Sound("none", "pcm", RATE, 1, as_wave(pcm))


def as_wave(pcm: bytes) -> Wave:
    """Samples of s16le."""
    return np.frombuffer(pcm, "<i2").astype(np.float64)


def level(samples: Wave) -> float:
    """Loudness in dB: the root of the mean square."""
    return float(20 * np.log10(np.sqrt(np.mean(samples**2)) + 1e-9))


def likeness(one: Wave, other: Wave) -> float:
    """How alike two stretches are in shape: 1 if the same, about 0 for other sounds."""
    return float(np.corrcoef(one, other)[0, 1])


def as_spoken(text: str) -> str:
    """A text in one spelling, whoever wrote it: the author, or a recognizer of its speech.

    Figures, dates and abbreviations are read aloud, and ordinals become figures again.
    """
    text = re.sub(r"(?<=\d)\.(?=\d\d [ap]\.?m)", ":", text, flags=re.IGNORECASE)
    text = re.sub(r"\b([ap])[.-]?(m)\b\.?", r"\1\2", normalize(text), flags=re.IGNORECASE)
    text = re.sub(r"-(?=\d)", " - ", text)
    words: list[str] = re.findall(r"[\w']+|-", text.lower().replace("’", "'"))
    return " ".join(_SAME.get(word, word) for word in words)


def heard_errors(written: str, heard: str) -> tuple[int, int]:
    """Return how many words were not heard as written, and how many there are."""
    return word_errors(as_spoken(written), as_spoken(heard))
