"""``antiphon demo``: a scripted conversation by voice with a running server.

The questions are synthesised and played to the server in real time; its replies are
played at real-time speed to nobody, and written down: as text, as WAV, as a picture.
"""

from __future__ import annotations

import asyncio
import importlib.util
import wave
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from websockets.exceptions import InvalidHandshake

from ..codecs.wav import write_wav
from ..engines.catalog import card, is_present
from ..engines.chunks import End, EndReason, PcmChunk, Transcript
from ..engines.deployment import WhisperConfig
from ..engines.fetch import FetchError, fetch
from ..engines.pipeline import OUTPUT_RATE, RecognizeRequest
from ..engines.speech.recognizer import WhisperStage
from ..engines.speech.speaker import Speaker, Utterance
from ..engines.stage import StageFailure
from ..realtime.client import open_session
from .demo_call import Call
from .demo_report import Report
from .demo_server import WAIT_SECONDS, Address, DemoError, own_server, parse_url, wait_ready
from .demo_timeline import Story
from .demo_words import WordErrors, word_errors
from .progress import Steps

__all__ = ["DemoError", "run_demo"]

VOICE = "piper-joe"
LISTENER = "whisper-tiny-en"
"""Models that the demo itself needs, to ask and to listen."""

LISTEN_SECONDS = 60
"""For the listener to understand one reply."""


@dataclass(frozen=True, slots=True)
class Line:
    """Something the person says."""

    text: str
    cuts_in_after_ms: float | None = None
    """So much of the reply before is listened to; ``None`` for all of it."""


SCRIPT = (
    Line("What is the capital of France?"),
    Line("Tell me a long story about a little fox."),
    Line("Stop, please, what is two plus two?", cuts_in_after_ms=1500),
    Line("And what color is the sky?"),
)


def run_demo(url: str | None, config: Path, cache_root: Path, out: Path) -> None:
    """Hold the conversation, print it, and write what is left of it into ``out``.

    ``url``: a running server; ``None`` starts one with ``config`` for as long as it takes.

    Raises:
        DemoError: it could not be held; the message says what to do.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DemoError(f"cannot write to {out}: {error.strerror}; pass another --out") from None
    _fetch_models(cache_root)
    asyncio.run(_demo(url, config, cache_root, out))


def _fetch_models(cache_root: Path) -> None:
    for model in map(card, (VOICE, LISTENER)):
        if not is_present(model, cache_root):
            try:
                fetch(model, cache_root, Steps())
            except FetchError as error:
                raise DemoError(str(error)) from None


async def _demo(url: str | None, config: Path, cache_root: Path, out: Path) -> None:
    report = Report()
    async with AsyncExitStack() as stack:
        try:
            address = await stack.enter_async_context(_server(url, config, cache_root, report))
            listener = WhisperStage(WhisperConfig(model=LISTENER), cache_root)
            stack.push_async_callback(listener.close)
            lines = await _prepared(listener, cache_root, report)
            await _wait_until_ready(address, report)
            story = await _converse(_address_of(address), lines, report)
            errors = await _listen_again(story, listener, report)
        except StageFailure as failure:
            raise DemoError(failure.error.message) from None
        report.summary(story, errors)
        report.files(write_results(story, out))
