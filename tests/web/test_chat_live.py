"""Chats message by message: what is sent when, and what is left when a client goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.support.fakes import BROKEN, RATE, FakePipeline, Step, tone

from antiphon.engines.chunks import CallDelta, End, EndReason, PcmChunk, Segment, TextDelta
from antiphon.engines.pipeline import ReplyRequest
from antiphon.web.bodies import BODY_SECONDS

from .chatting import ALOUD, Client, deltas, said, user, wav, with_client

Json = dict[str, Any]

DONE = End(EndReason.COMPLETED)
FAILS = End(EndReason.FAILED, BROKEN)
FIRST = TextDelta("Hello", 1)
SOUND = PcmChunk(tone(100), RATE)


def replying(*steps: Step) -> Callable[[], FakePipeline]:
    return lambda: FakePipeline(replies=(steps,))


def hearing(*steps: Step) -> Callable[[], FakePipeline]:
    return lambda: FakePipeline(recordings=(steps,))


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize(
    ("rest", "asked", "seen"),
    [
        ((30.0, TextDelta(" there", 1)), {}, [{"content": "Hello"}]),
        ((SOUND, 30.0, TextDelta(" there", 1), SOUND), ALOUD, ["transcript", "data"]),
        ((30.0, SOUND), ALOUD, ["transcript"]),
    ],
)
def test_what_is_made_is_sent_while_the_rest_is_made(
    rest: Sequence[Step], asked: Json, seen: list[Any]
) -> None:
    async def scenario(client: Client) -> None:
        asking = asyncio.create_task(client.ask(stream=True, **asked))
        # The head, the role, and these.
        await client.got(lambda: len(client.sent) == 2 + len(seen))
        assert now() < 1
        assert client.status == 200
        _, *told = deltas(client.told)
        for each, expected in zip(told, seen, strict=True):
            assert each == expected or expected in each["audio"]
        await asking
        assert client.complete
        assert client.text.endswith("data: [DONE]\n\n")

    with_client(replying(FIRST, *rest, DONE), scenario)


@pytest.mark.parametrize(
    "steps",
    [
        (60.0, DONE),
        (FIRST, 60.0, DONE),
        (FIRST, SOUND, 60.0, DONE),
        (CallDelta(0, "f", "{", False), 60.0, DONE),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
def test_a_client_who_leaves_ends_the_work_at_once(steps: Sequence[Step], streamed: bool) -> None:
    async def scenario(client: Client) -> None:
        asking = asyncio.create_task(client.ask(stream=streamed, **ALOUD))
        await asyncio.sleep(1)
        client.leaves.set()
        await asking
        assert now() < 2
        assert not client.complete

    with_client(replying(*steps), scenario)


def test_a_client_who_leaves_while_a_recording_is_heard() -> None:
    async def scenario(client: Client) -> None:
        asking = asyncio.create_task(client.ask(**user(said(wav()))))
        await asyncio.sleep(1)
        client.leaves.set()
        await asking
        assert now() < 2
        assert client.sent == []

    with_client(hearing(60.0, Segment(text="Hi.", start_ms=0, end_ms=1)), scenario)


def test_a_client_who_leaves_while_it_is_written_to() -> None:
    async def scenario(client: Client) -> None:
        client.reads.clear()
        asking = asyncio.create_task(client.ask(stream=True))
        await asyncio.sleep(1)
        client.leaves.set()
        client.reads.set()
        await asking
        assert client.sent == []

    with_client(replying(FIRST, DONE), scenario)


@pytest.mark.parametrize("leaves", [True, False])
def test_a_body_that_does_not_come(leaves: bool) -> None:
    async def scenario(client: Client) -> None:
        client.body_stops = True
        if leaves:
            client.leaves.set()
        await client.ask()
        assert client.status == (None if leaves else 408)
        assert now() == pytest.approx(0 if leaves else BODY_SECONDS, abs=1)

    with_client(replying(FIRST, DONE), scenario)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_client_who_reads_nothing_is_given_up(streamed: bool) -> None:
    async def scenario(client: Client) -> None:
        client.reads.clear()
        await client.ask(stream=streamed)
        assert client.sent == []
        assert 5 <= now() < 7

    with_client(replying(FIRST, DONE), scenario, stalled_seconds=5)


def test_a_request_that_is_given_up_by_the_server() -> None:
    async def scenario(client: Client) -> None:
        asking = asyncio.create_task(client.ask(stream=True))
        await client.got(lambda: len(client.sent) == 3)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    with_client(replying(FIRST, 60.0, DONE), scenario)


@pytest.mark.parametrize("end", [FAILS, End(EndReason.CANCELLED)])
def test_a_failure_behind_the_first_piece_is_the_last_event(end: End) -> None:
    async def scenario(client: Client) -> None:
        await client.ask(stream=True)
        *chunks, last = client.told
        assert deltas(chunks)[-1] == {"content": "Hello"}
        assert set(last) == {"error"}
        assert last["error"]["type"] == "server_error"
        assert last["error"]["code"] == (BROKEN.code if end is FAILS else "server_stopping")
        assert client.complete
        assert "[DONE]" not in client.text

    with_client(replying(FIRST, end), scenario)


def test_of_an_answer_that_failed_nothing_is_sent_whole() -> None:
    async def scenario(client: Client) -> None:
        await client.ask()
        assert client.status == 500
        assert "Hello" not in client.text

    with_client(replying(FIRST, FAILS), scenario)


@pytest.mark.parametrize("begun", [True, False])
def test_a_model_that_says_nothing_has_failed(begun: bool) -> None:
    async def scenario(client: Client) -> None:
        await client.ask(stream=True)
        assert client.status == (200 if begun else 500)
        error = client.told[-1]["error"] if begun else None
        assert "response_timeout" in (error["code"] if error else client.text)
        assert 9 <= now() < 11

    steps: tuple[Step, ...] = (FIRST, 3600.0, DONE) if begun else (3600.0, DONE)
    with_client(replying(*steps), scenario, stage_timeout_seconds=9)


def test_so_has_a_recognizer() -> None:
    async def scenario(client: Client) -> None:
        await client.ask(**user(said(wav())))
        assert client.status == 503
        assert "recognition_timeout" in client.text
        assert 9 <= now() < 11

    with_client(hearing(3600.0), scenario, stage_timeout_seconds=9)


def test_recordings_are_heard_before_the_answer_is_begun() -> None:
    fake = FakePipeline(recordings=((5.0, Segment(text="Hi.", start_ms=0, end_ms=1)),))

    async def scenario(client: Client) -> None:
        asking = asyncio.create_task(client.ask(**user(said(wav()))))
        await asyncio.sleep(2)
        assert fake.of(ReplyRequest) == []
        await asking
        assert fake.of(ReplyRequest)[0].messages[0].text == "Hi."

    with_client(lambda: fake, scenario)


def test_no_more_are_answered_at_once_than_sessions_are_served() -> None:
    async def scenario(client: Client) -> None:
        other, again = Client(FakePipeline()), Client(FakePipeline())
        other.route = again.route = client.route
        asking = asyncio.create_task(client.ask(stream=True))
        await client.got(lambda: len(client.sent) == 3)
        await other.ask()
        assert other.status == 503
        assert (b"retry-after", b"1") in other.sent[0]["headers"]
        await asking
        assert client.complete
        await again.ask()
        assert again.status == 200

    with_client(replying(FIRST, 5.0, DONE), scenario, sessions=1)
