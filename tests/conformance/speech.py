"""What clients say: WAV files made by the talker."""

from __future__ import annotations

import wave
from pathlib import Path

from tests.support.speech import RATE, Speaker, silence

QUESTION = "What is the capital of France?"
"""Asked in the spoken turn."""

INTERJECTION = "Wait a moment, please. I have another question. Where is Rome?"
"""Said over the reply."""


def write_wav(path: Path, pcm: bytes) -> Path:
    """Write s16le mono 24 kHz audio; return the path."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(pcm)
    return path


def write_speech(speaker: Speaker, folder: Path) -> dict[str, str]:
    """Write ``question`` and ``interjection``; return their paths by these names.

    Each begins with a little silence and ends with none: a client keeps its microphone open.
    """
    said = {"question": QUESTION, "interjection": INTERJECTION}
    return {
        name: str(write_wav(folder / f"{name}.wav", silence(200) + speaker.say(text).pcm))
        for name, text in said.items()
    }
