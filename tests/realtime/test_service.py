"""Sessions of a deployment: how they are set up, counted, bounded and recorded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.fakes import FakePipeline, FakeSocket, tone
from tests.support.loop import run_simulated

from antiphon.engines.chunks import PcmChunk
from antiphon.engines.deployment import parse_deployment
from antiphon.engines.pipeline import ReplyRequest
from antiphon.realtime.connection import Measured
from antiphon.realtime.recording import replay
from antiphon.realtime.service import STOCK_VOICES, RealtimeService
from antiphon.sessions import events as ev
from antiphon.sessions.effects import ResponseDone, ResponseMeasured
from antiphon.sessions.errors import Refusal
from antiphon.sessions.settings import SessionKind, SettingsPatch, TranscriptionPatch

DEPLOYMENT: dict[str, Any] = {"model": "m", "instructions": "Be brief."}


def service(
    pipeline: FakePipeline, recordings: Path | None = None, **limits: int
) -> RealtimeService:
    deployment = parse_deployment({**DEPLOYMENT, "limits": limits})
    return RealtimeService(deployment, pipeline, recordings)


@asynccontextmanager
async def client(
    served: RealtimeService,
    *,
    extensions: bool = False,
    kind: SessionKind = SessionKind.REALTIME,
    defaults: SettingsPatch | None = None,
) -> AsyncGenerator[FakeSocket]:
    """Be a client until left."""
    socket = FakeSocket()
    task = asyncio.create_task(
        served.serve(socket, extensions=extensions, kind=kind, defaults=defaults)
    )
    try:
        await socket.wait_for("session.created")
        yield socket
    finally:
        socket.vanish()
        await asyncio.gather(task, return_exceptions=True)


def test_a_session_begins_as_the_deployment_says() -> None:
    async def main() -> None:
        async with client(service(FakePipeline())) as socket:
            session = socket.events[0]["session"]
            assert (session["model"], session["instructions"]) == ("m", "Be brief.")
            assert session["audio"]["output"]["voice"] == "ada"
            assert "antiphon" not in session

    run_simulated(main())


def test_extensions_may_be_asked_for_from_the_start() -> None:
    async def main() -> None:
        async with client(service(FakePipeline()), extensions=True) as socket:
            assert socket.events[0]["session"]["antiphon"]["voices"] == ["ada", "bob"]

    run_simulated(main())


def test_voices_of_stock_clients_are_taken_and_spoken_by_ours() -> None:
    async def main() -> None:
        pipeline = FakePipeline()
        async with client(service(pipeline)) as socket:
            voices = {*STOCK_VOICES, "ada", "bob"}
            for number, voice in enumerate(sorted(voices), 1):
                socket.put("session.update", session={"audio": {"output": {"voice": voice}}})
                await socket.wait_for("session.updated", number)
            socket.put("session.update", session={"audio": {"output": {"voice": "nobody"}}})
            error = (await socket.wait_for("error"))["error"]
            assert error["param"] == "session.audio.output.voice"
            socket.put("session.update", session={"audio": {"output": {"voice": "alloy"}}})
            socket.put("response.create")
            done = await socket.wait_for("response.done")
            assert done["response"]["audio"]["output"]["voice"] == "alloy"
            assert pipeline.of(ReplyRequest)[0].voice is None

    run_simulated(main())


def test_a_voice_of_ours_with_a_stock_name_is_ours() -> None:
    async def main() -> None:
        pipeline = FakePipeline(voices=("coral",))
        async with client(service(pipeline)) as socket:
            socket.put("response.create")
            await socket.wait_for("response.done")
            assert pipeline.of(ReplyRequest)[0].voice == "coral"

    run_simulated(main())


def test_a_session_begins_with_what_was_agreed_before() -> None:
    async def main() -> None:
        defaults = SettingsPatch(instructions="Be long.", voice="bob", turn_detection=None)
        async with client(service(FakePipeline()), defaults=defaults) as socket:
            session = socket.events[0]["session"]
            assert session["instructions"] == "Be long."
            assert session["audio"]["output"]["voice"] == "bob"
            assert session["audio"]["input"]["turn_detection"] is None
            socket.put("session.update", session={"type": "realtime", "instructions": ""})
            session = (await socket.wait_for("session.updated"))["session"]
            assert (session["instructions"], session["audio"]["output"]["voice"]) == ("", "bob")

    run_simulated(main())


def test_what_is_agreed_is_checked_before_a_session_begins() -> None:
    async def main() -> None:
        served = service(FakePipeline(), text_chars=20)
        for patch, param in [
            (SettingsPatch(voice="nobody"), "session.audio.output.voice"),
            (SettingsPatch(instructions="longer" * 5), "session.instructions"),
        ]:
            with pytest.raises(Refusal) as refused:
                served.settings(defaults=patch)
            assert refused.value.param == param

    run_simulated(main())


def test_a_session_that_transcribes_begins_with_transcription_on() -> None:
    async def main() -> None:
        served = service(FakePipeline())
        settings = served.settings(SessionKind.TRANSCRIPTION)
        assert settings.kind is SessionKind.TRANSCRIPTION
        assert settings.transcription is not None
        assert settings.turn_detection is not None
        assert settings.instructions == ""
        spoken = SettingsPatch(transcription=TranscriptionPatch(language="de"))
        settings = served.settings(SessionKind.TRANSCRIPTION, spoken)
        assert settings.transcription is not None
        assert settings.transcription.language == "de"
        async with client(served, kind=SessionKind.TRANSCRIPTION, defaults=spoken) as socket:
            assert socket.events[0]["session"]["type"] == "transcription"

    run_simulated(main())


def test_sessions_are_counted() -> None:
    async def main() -> None:
        served = service(FakePipeline())
        async with client(served) as first:
            assert (served.open_sessions, served.opened) == (1, 1)
            async with client(served) as second:
                assert served.open_sessions == 2
                ids = [socket.events[0]["session"]["id"] for socket in (first, second)]
                assert ids[0] != ids[1]
        assert (served.open_sessions, served.opened) == (0, 2)

    run_simulated(main())


def test_room_is_bounded_and_given_back() -> None:
    async def main() -> None:
        served = service(FakePipeline(), sessions=2)
        first, second = served.reserve(), served.reserve()
        assert first is not None
        assert second is not None
        assert served.reserve() is None
        with second:
            assert served.reserve() is None
        assert served.reserve() is not None
        assert served.reserve() is None
        with pytest.raises(ValueError, match="whatever"), first:
            raise ValueError("whatever")
        assert served.reserve() is not None

    run_simulated(main())


def test_a_service_that_stops_says_goodbye_to_everyone() -> None:
    async def main() -> None:
        served = service(FakePipeline())
        assert not served.stopping
        async with client(served) as one, client(served) as gone, client(served) as other:
            gone.vanish()
            await served.stop()
            assert served.stopping
            for socket in (one, other):
                assert socket.closed == (1001, "the server is stopping")

    run_simulated(main())


def test_what_open_sessions_did_is_told() -> None:
    async def main() -> None:
        served = service(FakePipeline())
        async with client(served) as socket:
            socket.put("response.create")
            await socket.wait_for("response.done")
            statistics = served.statistics()
            assert list(statistics) == [socket.events[0]["session"]["id"]]
            (counters,) = statistics.values()
            assert (counters["responses"], counters["epoch"]) == (1, 0)
        assert served.statistics() == {}

    run_simulated(main())


def test_what_all_sessions_did_is_told_also_of_those_that_are_gone() -> None:
    async def main() -> None:
        served = service(FakePipeline())
        assert served.totals()["responses"] == 0
        for number in (1, 2):
            async with client(served) as socket:
                socket.put("response.create")
                await socket.wait_for("response.done")
                assert served.totals()["responses"] == number
        assert served.totals()["responses"] == 2
        assert served.totals()["interruptions"] == 0

    run_simulated(main())


def test_what_is_measured_is_told_of_every_session() -> None:
    async def main() -> None:
        told: list[Measured] = []
        asked: list[str] = []
        deployment = parse_deployment(DEPLOYMENT)
        served = RealtimeService(deployment, FakePipeline(), on_measured=told.append)
        for _ in range(2):
            async with client(served) as socket:
                socket.put("response.create")
                asked.append((await socket.wait_for("response.done"))["response"]["id"])
                assert not socket.of("antiphon.response.metrics"), "a stock client is told nothing"
        # What was heard of a response is known at the latest when its session ends.
        assert [type(each) for each in told] == [ResponseDone, ResponseMeasured] * 2
        measured = [each.response_id for each in told if isinstance(each, ResponseMeasured)]
        assert measured == asked

    run_simulated(main())


def test_the_failure_of_a_session_is_its_own(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        served = service(FakePipeline())
        async with client(served) as healthy, client(served) as broken:
            broken.send_error = ValueError("a bug")
            broken.put("input_audio_buffer.clear")
            async with asyncio.timeout(30):
                while broken.closed is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            assert broken.closed == (1011, "internal error")
            assert served.open_sessions == 1
            healthy.put("input_audio_buffer.clear")
            await healthy.wait_for("input_audio_buffer.cleared")

    with caplog.at_level(logging.ERROR):
        run_simulated(main())
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"append_bytes": 1000}, "in one append."),
        ({"input_buffer_seconds": 1}, "The input audio buffer holds at most 1 s of audio"),
    ],
)
def test_bounds_of_audio_are_those_of_the_deployment(limits: dict[str, int], message: str) -> None:
    async def main() -> None:
        async with client(service(FakePipeline(), None, **limits)) as socket:
            socket.put("session.update", session={"audio": {"input": {"turn_detection": None}}})
            socket.append(tone(2000))
            assert message in (await socket.wait_for("error"))["error"]["message"]

    run_simulated(main())


@pytest.mark.parametrize(
    ("limits", "code"),
    [({"text_chars": 5}, "string_above_max_length"), ({"items": 1}, "conversation_full")],
)
def test_bounds_of_items_are_those_of_the_deployment(limits: dict[str, int], code: str) -> None:
    async def main() -> None:
        async with client(service(FakePipeline(), None, **limits)) as socket:
            for text in ("short", "longer"):
                part = {"type": "input_text", "text": text}
                item = {"type": "message", "role": "user", "content": [part]}
                socket.put("conversation.item.create", item=item)
            assert (await socket.wait_for("error"))["error"]["code"] == code
            assert len(socket.of("conversation.item.added")) == 1

    run_simulated(main())


def test_audio_above_the_bound_is_let_go() -> None:
    async def main() -> None:
        async with client(service(FakePipeline(), retained_audio_seconds=1)) as socket:
            socket.put("session.update", session={"audio": {"input": {"turn_detection": None}}})
            for number in (1, 2):
                socket.append(tone(800))
                socket.put("input_audio_buffer.commit")
                await socket.wait_for("input_audio_buffer.committed", number)
            kept: list[str] = []
            for number, item in enumerate(socket.of("input_audio_buffer.committed"), 1):
                socket.put("conversation.item.retrieve", item_id=item["item_id"])
                told = await socket.wait_for("conversation.item.retrieved", number)
                kept.append(told["item"]["content"][0]["audio"])
            assert kept[0] == ""
            assert len(kept[1]) == 51_200

    run_simulated(main())


def test_bounds_of_time_are_those_of_the_deployment() -> None:
    async def main() -> None:
        pipeline = FakePipeline(replies=[(1000.0,)])
        limits = {"session_minutes": 2, "stage_timeout_seconds": 10, "stalled_seconds": 7}
        async with client(service(pipeline, None, **limits)) as socket:
            socket.put("response.create")
            done = await socket.wait_for("response.done")
            assert done["response"]["status_details"]["error"]["code"] == "response_timeout"
            assert asyncio.get_running_loop().time() == pytest.approx(10)
            assert socket.events[0]["session"]["expires_at"] > 0
            socket.stall()
            socket.put("input_audio_buffer.clear")
            await asyncio.sleep(6)
            assert socket.closed is None
            await asyncio.sleep(2)
            assert socket.closed == (1008, "the client does not read")

    run_simulated(main())


def test_a_listener_who_pauses_is_waited_for_as_the_deployment_says() -> None:
    async def main() -> None:
        pipeline = FakePipeline(replies=[(PcmChunk(tone(4000), 24_000), 1000.0)])
        limits = {"stage_timeout_seconds": 10, "paused_seconds": 20}
        async with client(service(pipeline, None, **limits), extensions=True) as socket:
            socket.put("response.create")
            created = await socket.wait_for("response.created")
            response_id = created["response"]["id"]
            await socket.wait_for("response.output_audio.delta")
            said = {"response_id": response_id, "played_ms": 500, "buffered_ms": 3500}
            for _ in range(2):
                socket.put("antiphon.playback.report", **said)
            began = asyncio.get_running_loop().time()
            done = await socket.wait_for("response.done")
            assert done["response"]["status_details"]["error"]["code"] == "playback_stalled"
            assert asyncio.get_running_loop().time() - began == pytest.approx(20, abs=0.1)
            measured = await socket.wait_for("antiphon.response.metrics")
            assert measured["response_id"] == response_id
            assert (measured["played_ms"], measured["unheard_ms"]) == (500, 3500)
            assert (measured["reported"], measured["interrupted"]) == (True, True)

    run_simulated(main())


def test_sessions_are_recorded_where_they_shall_be(tmp_path: Path) -> None:
    async def main() -> str:
        async with client(service(FakePipeline(), tmp_path)) as socket:
            socket.put("response.create")
            await socket.wait_for("response.done")
            session_id: str = socket.events[0]["session"]["id"]
            return session_id

    session_id = run_simulated(main())
    (path,) = tmp_path.iterdir()
    assert path.name == f"{session_id}.jsonl"
    happened = [step.event for step in replay(path)]
    assert isinstance(happened[0], ev.Attached)
    assert isinstance(happened[-1], ev.Detached)
    assert ev.CreateResponse() in happened
