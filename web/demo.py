"""``antiphon demo``: a scripted conversation by voice with a running server.

The questions are synthesised and played to the server in real time; its replies are
played at real-time speed to nobody, and written down: as text, as WAV, as a picture.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from websockets.exceptions import WebSocketException

from ..engines.catalog import card, is_present
from ..engines.chunks import PcmChunk, Transcript
from ..engines.deployment import WhisperConfig
from ..engines.fetch import FetchError, fetch
from ..engines.pipeline import OUTPUT_RATE, RecognizeRequest
from ..engines.speech.recognizer import WhisperStage
from ..engines.speech.speaker import Speaker, Utterance
from ..engines.stage import StageFailure
from ..realtime.client import open_session
from .demo_call import Call
from .demo_report import Report
from .demo_results import write_results
from .demo_server import (
    DemoError,
    OwnServer,
    RunningServer,
    own_server,
    parse_url,
)
from .demo_timeline import Story, Turn
from .demo_words import WordErrors, word_errors
from .progress import Steps

__all__ = ["DemoError", "run_demo"]

VOICE = "piper-joe"
LISTENER = "whisper-tiny-en"
"""Models that the demo itself needs, to ask and to listen."""

LISTEN_SECONDS = 60
"""For the listener to understand one reply."""

PIECE_BYTES = 1 << 16
"""Of a reply, handed to the listener at once."""


@dataclass(frozen=True, slots=True)
class Line:
    """Something the person says."""

    text: str
    cuts_in_after_ms: float | None = None
    """So much of the reply before is listened to; ``None`` for all of it."""


SCRIPT = (
    Line("What is the capital of France?"),
    Line("Tell me a long story about a little fox."),
    Line("Stop please and tell me what two plus two is.", cuts_in_after_ms=1500),
    Line("And what color is the sky?"),
)

Spoken: TypeAlias = tuple[Line, Utterance]


def run_demo(url: str | None, config: Path, cache_root: Path, out: Path) -> None:
    """Hold the conversation, print it, and write what is left of it into ``out``.

    ``url``: a running server; ``None`` starts one with ``config`` for as long as it takes.

    Raises:
        DemoError: it could not be held; the message says what to do.
    """
    report = Report()
    with _naming(out):
        out.mkdir(parents=True, exist_ok=True)
    _fetch_models(cache_root)
    try:
        story = asyncio.run(_demo(url, config, cache_root, report))
    except StageFailure as failure:
        raise DemoError(failure.error.message) from None
    with _naming(out):
        report.files(write_results(story, out))


@contextmanager
def _naming(out: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise DemoError(f"cannot write to {out}: {error.strerror}; pass another --out") from None


def _fetch_models(cache_root: Path) -> None:
    for model in map(card, (VOICE, LISTENER)):
        if not is_present(model, cache_root):
            try:
                fetch(model, cache_root, Steps())
            except FetchError as error:
                raise DemoError(str(error)) from None


async def _demo(url: str | None, config: Path, cache_root: Path, report: Report) -> Story:
    listener = WhisperStage(WhisperConfig(model=LISTENER), cache_root)
    try:
        async with _server(url, config, cache_root, report) as server:
            preparing = asyncio.create_task(_prepare(listener, cache_root, report))
            waiting = asyncio.create_task(server.wait_ready())
            try:
                lines, _ = await asyncio.gather(preparing, waiting)
            finally:
                preparing.cancel()
                waiting.cancel()
                await asyncio.gather(preparing, waiting, return_exceptions=True)
            story = await _converse(server.address.socket_url, lines, report)
        report.summary(story, await _listen_again(story, listener, report))
        return story
    finally:
        await listener.close()


@asynccontextmanager
async def _server(
    url: str | None, config: Path, cache_root: Path, report: Report
) -> AsyncGenerator[OwnServer | RunningServer]:
    if url is not None:
        yield RunningServer(parse_url(url))
        return
    report.step(f"starting a server with {config.name}")
    async with own_server(config, cache_root, report.server_said) as server:
        yield server


async def _prepare(listener: WhisperStage, cache_root: Path, report: Report) -> list[Spoken]:
    """Everything said by the person, as speech; and the listener, ready."""
    async with Speaker(cache_root, VOICE) as speaker:
        lines = [(line, await speaker.say(line.text)) for line in SCRIPT]
    await listener.start()
    report.step("questions and listener are ready")
    return lines


async def _converse(socket_url: str, lines: Sequence[Spoken], report: Report) -> Story:
    async def script(call: Call) -> None:
        turns: list[Turn] = []
        for line, utterance in lines:
            cuts_in = line.cuts_in_after_ms
            if turns and not (cuts_in is not None and await call.played(cuts_in)):
                await call.finished()
                report.answered(turns[-1])
            turns.append(await call.say(line.text, utterance))
        await call.finished()
        report.answered(turns[-1])

    try:
        async with open_session(socket_url, extensions=True) as client:
            call = Call(client, report)
            model = await call.configure()
            report.step(f"connected to {model}: listen in, it takes half a minute")
            await call.hold(script)
    except (OSError, WebSocketException) as error:
        raise DemoError(f"the server does not open a session: {error}") from None
    return call.story(model)


async def _listen_again(story: Story, listener: WhisperStage, report: Report) -> WordErrors:
    """Have the replies transcribed, as far as they were heard."""
    report.heading("What a listener understands of the replies")
    errors = words = 0
    for number, turn in enumerate(story.turns, 1):
        if turn.reply is not None:
            heard = await _transcribe(turn.reply.heard_pcm, listener)
            found = word_errors(turn.reply.heard_text, heard)
            report.listened(number, turn.reply.heard_text, heard, found)
            errors, words = errors + found.errors, words + found.words
    return WordErrors(errors, words)


async def _transcribe(pcm: bytes, listener: WhisperStage) -> str:
    stream = listener.open(RecognizeRequest(request_id="demo", language="en"))
    try:
        async with asyncio.timeout(LISTEN_SECONDS):
            for at in range(0, len(pcm), PIECE_BYTES):
                await stream.send(PcmChunk(pcm[at : at + PIECE_BYTES], OUTPUT_RATE))
            await stream.end()
            async for item in stream:
                if isinstance(item, Transcript):
                    return item.text
    except TimeoutError:
        raise DemoError("the listener did not finish; close what keeps this machine busy") from None
    finally:
        stream.cancel()
    raise DemoError("the listener failed; `antiphon doctor` says what is missing")
