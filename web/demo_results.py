"""The files that a conversation leaves behind."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

from ..codecs.wav import write_wav
from ..engines.pipeline import OUTPUT_RATE
from .demo_picture import draw
from .demo_timeline import Story


def write_results(story: Story, out: Path) -> list[str]:
    """Write everything into ``out``; return a line a file, for a person.

    Raises:
        OSError: the folder can't be written.
    """
    shown = [
        f"{_write_reply(out, number, bytes(reply.pcm))}  reply {number} as received"
        for number, turn in enumerate(story.turns, 1)
        if (reply := turn.reply) is not None
    ]
    whole = out / "conversation.wav"
    write_stereo(story, whole)
    shown.append(f"{whole}  what a listener heard (left the person, right the reply)")
    picture = out / "timeline.png"
    try:
        draw(story, picture)
    except ImportError:
        shown.append("no picture: matplotlib is missing; run `pip install matplotlib`")
    else:
        shown.append(f"{picture}  the same, to look at")
    return shown


def _write_reply(out: Path, number: int, pcm: bytes) -> Path:
    path = out / f"reply-{number}.wav"
    path.write_bytes(write_wav(pcm, OUTPUT_RATE))
    return path


def write_stereo(story: Story, path: Path) -> None:
    """Write the conversation as heard: the person on the left, the reply on the right."""
    both = np.stack([story.person, story.reply_track], axis=1).astype("<i2")
    with wave.open(str(path), "wb") as writer:
        writer.setnchannels(2)
        writer.setsampwidth(2)
        writer.setframerate(OUTPUT_RATE)
        writer.writeframes(both.tobytes())
