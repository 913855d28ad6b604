"""Whatever a client sends, its session answers and goes on: many wrong events, one server.

Each batch is a connection of its own, with a pipeline that plays scripts, on simulated time.
After every message comes a probe, so that it is known what the message was answered with.
``python -m tests.conformance.fuzz 100000`` tries so many.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from random import Random
from typing import Any

import msgspec
from tests.conformance.mutations import messages
from tests.support.fakes import FakePipeline, Step, spoken
from tests.support.loop import run_simulated

from antiphon.engines.chunks import CallDelta, End, EndReason, Transcript
from antiphon.realtime.binary import VERSION, unpack
from antiphon.realtime.connection import Connection, ConnectionLimits, Disconnected
from antiphon.realtime.dialect import Dialect
from antiphon.realtime.wire_audio import FRAME_BYTES
from antiphon.realtime.wire_out import WireEncoder
from antiphon.sessions.session import Session
from antiphon.sessions.settings import (
    BinaryFormat,
    Capabilities,
    SessionKind,
    Settings,
    Transcription,
)

BATCH = 200
"""Messages of one connection."""

SILENT = {
    "input_audio_buffer.append",
    "output_audio_buffer.clear",
    "antiphon.playback.report",
}
"""Events that are not answered when there is nothing wrong with them."""

CODES = {
    "cannot_update_voice",
    "conversation_already_has_active_response",
    "conversation_full",
    "input_audio_buffer_commit_empty",
    "input_audio_buffer_full",
    "invalid_json",
    "invalid_value",
    "item_create_duplicate_item_id",
    "item_create_invalid_previous_item_id",
    "item_delete_in_progress",
    "item_reference_invalid_item_id",
    "unsupported_in_transcription_session",
    "item_delete_invalid_item_id",
    "item_retrieve_invalid_item_id",
    "item_truncate_invalid_item_id",
    "missing_required_parameter",
    "rate_limit_exceeded",
    "response_cancel_not_active",
    "string_above_max_length",
    "too_many_recognitions",
    "too_many_responses",
    "turn_detection_failed",
    "unsupported_content_type",
    "unsupported_value",
}
"""Of errors that a client may be told here."""

CAN = Capabilities(
    voices=("ada", "bob"),
    sees=True,
    max_text_chars=100_000,
    max_items=200,
    max_input_ms=60_000,
    max_retained_ms=60_000,
    responses_per_minute=1_000_000,
    tokens_per_minute=1_000_000_000,
)

CALL: tuple[Step, ...] = (
    CallDelta(0, "add", '{"a":', False),
    CallDelta(0, "add", "1}", True),
    End(EndReason.COMPLETED),
)


@dataclass
class Report:
    """What came of a run."""

    sent: int = 0
    events: Counter[str] = field(default_factory=Counter[str])
    codes: Counter[str] = field(default_factory=Counter[str])

    def add(self, other: Report) -> None:
        """Add another's counts."""
        self.sent += other.sent
        self.events.update(other.events)
        self.codes.update(other.codes)


class FuzzSocket:
    """Sends what it is given, each message followed by a probe; keeps what comes back."""

    def __init__(self, given: list[str | bytes], random: Random) -> None:
        self.told: list[str | bytes] = []
        self.closed: tuple[int, str] | None = None
        self.sent = 0
        self.finished = asyncio.Event()
        self._given = given
        self._random = random
        self._probe = False
        self._gone = asyncio.Event()

    async def receive(self) -> str | bytes:
        if self._probe:
            self._probe = False
            return probe(self.sent - 1)
        if self.sent == len(self._given):
            self.finished.set()
            await self._gone.wait()
            raise Disconnected
        if self._random.random() < 0.1:
            await asyncio.sleep(self._random.choice((0.0, 0.02, 0.3, 2.0)))
        self.sent += 1
        self._probe = True
        return self._given[self.sent - 1]

    async def send(self, data: str | bytes) -> None:
        self.told.append(data)

    async def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)

    def vanish(self) -> None:
        """Be gone."""
        self._gone.set()


def probe(number: int) -> str:
    """Return a message that is answered with an error of its id."""
    return f'{{"type":"conversation.item.retrieve","item_id":"nobody","event_id":"probe-{number}"}}'


class _Complaints(logging.Handler):
    """Keeps errors that were logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def run_batch(seed: int, number: int, count: int = BATCH) -> Report:
    """Run one connection.

    Raises:
        AssertionError: something that must not happen did; says at which message.
    """
    complaints = _Complaints()
    logger = logging.getLogger("antiphon")
    logger.addHandler(complaints)
    try:
        return run_simulated(_batch(f"{seed}/{number}", count, complaints))
    finally:
        logger.removeHandler(complaints)


async def _batch(seed: str, count: int, complaints: _Complaints) -> Report:
    random = Random(seed)
    made = messages(random)
    given = [next(made) for _ in range(count)]
    kind = SessionKind.TRANSCRIPTION if random.random() < 0.25 else SessionKind.REALTIME
    pipeline = FakePipeline(
        replies=[spoken("one two"), CALL, (0.5, *spoken("three four five six")), CALL] * 20,
        heard=[(Transcript("hi", 300),), (1.0, Transcript("", 300))] * 20,
    )
    wanted = Transcription(model="w") if kind is SessionKind.TRANSCRIPTION else None
    settings = Settings(
        kind=kind,
        voice="ada",
        transcription=wanted,
        extensions=random.random() < 0.5,
        binary_audio=random.random() < 0.5,
        binary_format=random.choice(list(BinaryFormat)),
    )
    session = Session(seed, settings, CAN)
    encoder = WireEncoder(
        seed, session_id=session.id, conversation_id="conv_1", model="m", voices=("ada",)
    )
    socket = FuzzSocket(given, random)
    dialect = random.choice([None, *Dialect])
    connection = Connection(socket, session, pipeline, encoder, ConnectionLimits(), dialect=dialect)
    task = asyncio.create_task(connection.run(), name="connection")
    done = asyncio.create_task(socket.finished.wait(), name="finished")
    await asyncio.wait([task, done], return_when=asyncio.FIRST_COMPLETED)
    where = f"seed {seed}, message {socket.sent - 1}: {given[socket.sent - 1][:500]!r}"
    assert not task.done(), f"the connection ended: {socket.closed}; {where}"
    await asyncio.sleep(120)
    assert not task.done(), f"the connection ended later: {socket.closed}; seed {seed}"
    socket.vanish()
    await asyncio.wait([task])
    task.result()
    await pipeline.all_streams_gone()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks are left: {left}; seed {seed}"
    assert not complaints.records, f"{[r.getMessage() for r in complaints.records]}; seed {seed}"
    return _checked(given, socket.told, seed)


def _checked(given: list[str | bytes], told: list[str | bytes], seed: str) -> Report:
    """Check that each message was answered, by an event or an error that is documented."""
    report = Report(sent=len(given))
    answers = 0
    asked = 0
    for frame in told:
        if isinstance(frame, bytes):
            assert len(unpack(frame).payload) <= FRAME_BYTES
            report.events["binary"] += 1
            answers += 1
            continue
        event = msgspec.json.decode(frame, type=dict[str, Any])
        report.events[event["type"]] += 1
        if event["type"] != "error":
            answers += 1
            continue
        error = event["error"]
        if error["event_id"] == f"probe-{asked}":
            said = f"seed {seed}, message {asked}: {given[asked][:500]!r}"
            assert answers or _may_be_silent(given[asked]), f"no answer; {said}"
            asked, answers = asked + 1, 0
            continue
        answers += 1
        report.codes[error["code"]] += 1
        assert error["code"] in CODES, f"seed {seed}, message {asked}: {error}"
    assert asked == len(given), f"seed {seed}: no answer to the probe after message {asked}"
    return report


def _may_be_silent(message: str | bytes) -> bool:
    if isinstance(message, bytes) and message[:1] == bytes((VERSION,)):
        # A frame with audio: appended, where there is nothing wrong with it.
        return True
    try:
        kind = msgspec.json.decode(message)["type"]
    except (msgspec.DecodeError, TypeError, KeyError, RecursionError):
        return False
    return kind in SILENT


def run(count: int, seed: int = 0, workers: int = 1) -> Report:
    """Try ``count`` messages, rounded up to whole batches, in ``workers`` processes.

    Raises:
        AssertionError: one was not taken as it has to be.
    """
    numbers = range(-(-count // BATCH))
    report = Report()
    if workers == 1:
        for number in numbers:
            report.add(run_batch(seed, number))
        return report
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for part in pool.map(run_batch, [seed] * len(numbers), numbers, chunksize=10):
            report.add(part)
    return report


def main() -> None:
    """Run as many as the first argument says, from the seed that the second says."""
    began = time.monotonic()
    arguments = [int(each) for each in sys.argv[1:]] or [10_000]
    report = run(*arguments)
    print(f"{report.sent} messages in {time.monotonic() - began:.1f} s")
    for name, count in (report.events + report.codes).most_common():
        print(f"{count:8} {name}")


if __name__ == "__main__":
    main()
