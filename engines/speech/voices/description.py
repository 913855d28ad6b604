"""What Piper writes beside a graph, ``.onnx.json``, as far as it matters here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from .cutting import unusable
from .family import NAME, Count

DESCRIPTION_BYTES = 1 << 20
"""A larger description is refused; Piper's have 5 to 100 KB."""

SPEAKERS = 256
"""Speakers of a model that become voices, the first ones."""

PROBED = 200
"""Phonemes in the clause with which parts and whole are compared: all, in most voices."""


class _Audio(msgspec.Struct, frozen=True):
    sample_rate: Annotated[int, Meta(ge=4000, le=192_000)]
    quality: str = ""


class _Espeak(msgspec.Struct, frozen=True):
    voice: str


class _Inference(msgspec.Struct, frozen=True):
    noise_scale: Annotated[float, Meta(ge=0, le=10)] = 0.667
    length_scale: Annotated[float, Meta(ge=0.1, le=10)] = 1.0
    noise_w: Annotated[float, Meta(ge=0, le=10)] = 0.8


class _Language(msgspec.Struct, frozen=True):
    family: str = ""
    code: str = ""


class Description(msgspec.Struct, frozen=True):
    """What is read of ``.onnx.json``; the rest does not matter here."""

    audio: _Audio
    espeak: _Espeak
    phoneme_id_map: dict[str, tuple[int, ...]]
    inference: _Inference = _Inference()
    language: _Language = _Language()
    phoneme_type: str = "espeak"
    num_speakers: Count = 1
    speaker_id_map: dict[str, int] = {}


def read_description(path: Path) -> Description:
    """Read a description that nobody vouches for.

    Raises:
        StageFailure: it is not one, or of a voice that can't be spoken with (``voice_unusable``).
    """
    try:
        if path.stat().st_size > DESCRIPTION_BYTES:
            raise unusable(f"expected a description of at most {DESCRIPTION_BYTES >> 20} MiB")
        described = msgspec.json.decode(path.read_bytes(), type=Description)
    except OSError as error:
        raise unusable(f"the description can't be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise unusable(f"the description is not one of Piper: {error}") from None
    if described.phoneme_type != "espeak":
        kind = described.phoneme_type[:40]
        raise unusable(f"expected a voice with phoneme_type espeak, got {kind}")
    if missing := [mark for mark in "^_$" if not described.phoneme_id_map.get(mark)]:
        raise unusable(f"expected phoneme_id_map with {' '.join(missing)}")
    if len(described.phoneme_id_map) <= len("^_$ "):
        raise unusable("expected phoneme_id_map with phonemes")
    return described


def language_of(described: Description) -> str:
    """ISO 639-1, as far as it can be told."""
    said = described.language.family or described.language.code or described.espeak.voice
    plain = re.split(r"[-_]", said.lower())[0]
    known = {"cmn": "zh", "nb": "no"}.get(plain, plain)
    return known if re.fullmatch("[a-z]{2,3}", known) else "und"


def summary_of(described: Description) -> str:
    """For people, in a few words."""
    quality = described.audio.quality[:40]
    return f"Piper voice, {quality}" if quality else "Piper voice"


def speakers_of(described: Description, name: str) -> dict[str, int]:
    """Names of voices, and which speaker of the graph each is."""
    numbers = range(min(described.num_speakers, SPEAKERS))
    called = {number: speaker for speaker, number in described.speaker_id_map.items()}
    speakers: dict[str, int] = {}
    for number in numbers:
        speaker = f"{name}:{called.get(number, number)}"
        if not re.fullmatch(NAME, speaker) or speaker in speakers:
            speaker = f"{name}:{number}"
        speakers[speaker] = number
    return speakers


def probe_of(described: Description) -> tuple[int, ...]:
    """Phoneme ids of a clause that nobody could understand."""
    id_map = described.phoneme_id_map
    pad = id_map["_"]
    inner = [number for ids in [*id_map.values()][:PROBED] for number in (*ids, *pad)]
    return (*id_map["^"], *pad, *inner, *id_map["$"])
