"""Audio from a client in binary frames, on simulated time."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.fakes import LOUD, QUIET, FakePipeline, tone
from tests.support.loop import run_simulated
from tests.support.rig import PUSH_TO_TALK, Rig, served

from antiphon.codecs import opus
from antiphon.codecs.opus import OpusDecoder, OpusEncoder
from antiphon.realtime.binary import HEADER, BinaryFrame, Kind
from antiphon.realtime.connection import ConnectionLimits
from antiphon.sessions.settings import AudioFormat, SessionKind, Settings, Transcription

Json = dict[str, Any]


@asynccontextmanager
async def asked(
    pipeline: FakePipeline | None = None,
    *,
    start: Settings = PUSH_TO_TALK,
    limits: ConnectionLimits | None = None,
    **ours: object,
) -> AsyncGenerator[Rig]:
    """Serve a client that asked for binary audio."""
    async with served(pipeline, settings=start, limits=limits) as rig:
        wish = {"binary_audio": True, **ours}
        rig.socket.put("session.update", session={"antiphon": wish})
        updated = await rig.socket.wait_for("session.updated")
        assert updated["session"]["antiphon"]["binary_audio"] is True
        yield rig


def pcm_frame(pcm: bytes) -> bytes:
    return BinaryFrame(Kind.PCM16, pcm).pack()


def headed(kind: int, payload: bytes) -> bytes:
    return HEADER.pack(1, kind, 0, 0, 0, 0) + payload


async def heard(rig: Rig) -> bytes:
    """Commit, and return what the recognizer was given."""
    rig.socket.put("input_audio_buffer.commit")
    await rig.socket.wait_for("input_audio_buffer.committed")
    rig.socket.put("response.create")
    await rig.socket.wait_for("response.done")
    return rig.pipeline.audio_heard[0]


async def refused(rig: Rig, frame: bytes, count: int = 1) -> Json:
    rig.socket.put_raw(frame)
    error: Json = (await rig.socket.wait_for("error", count))["error"]
    return error


@pytest.mark.parametrize("form", list(AudioFormat))
def test_pcm_is_appended_whatever_the_format_of_json_is(form: AudioFormat) -> None:
    said = tone(300, 3000) + tone(40, -500)

    async def main() -> None:
        start = Settings(voice="ada", turn_detection=None, input_format=form)
        async with asked(start=start) as rig:
            for at in range(0, len(said), 1000):
                rig.socket.put_raw(pcm_frame(said[at : at + 1000]))
            assert await heard(rig) == said

    run_simulated(main())


def test_opus_is_appended() -> None:
    encoder = OpusEncoder()
    packets = encoder.feed(tone(500, 3000)) + encoder.flush()
    decoder = OpusDecoder()
    expected = b"".join([*(decoder.feed(packet) for packet in packets), decoder.flush()])

    async def main() -> None:
        async with asked() as rig:
            for packet in packets:
                rig.socket.put_raw(BinaryFrame(Kind.OPUS, packet).pack())
            assert await heard(rig) == expected

    run_simulated(main())


def test_a_spoken_turn_in_binary() -> None:
    async def main() -> None:
        async with asked(start=Settings(voice="ada")) as rig:
            for chunk in [LOUD] * 30 + [QUIET] * 30:
                rig.socket.put_raw(pcm_frame(chunk))
            done = await rig.socket.wait_for("response.done")
            assert done["response"]["status"] == "completed"
            assert LOUD * 30 in rig.pipeline.audio_heard[0]

    run_simulated(main())


def test_a_session_that_transcribes_takes_it_too() -> None:
    start = Settings(
        kind=SessionKind.TRANSCRIPTION,
        voice="ada",
        turn_detection=None,
        transcription=Transcription(model="w"),
    )

    async def main() -> None:
        async with asked(start=start) as rig:
            rig.socket.put_raw(pcm_frame(tone(200)))
            rig.socket.put("input_audio_buffer.commit")
            name = "conversation.item.input_audio_transcription.completed"
            assert (await rig.socket.wait_for(name))["transcript"] == "hi"

    run_simulated(main())


@pytest.mark.parametrize("extensions", [True, False])
def test_who_did_not_ask_is_told_how(extensions: bool) -> None:
    async def main() -> None:
        # What was asked for before our own events were switched off does not count.
        start = Settings(
            voice="ada", turn_detection=None, extensions=extensions, binary_audio=not extensions
        )
        async with served(settings=start) as rig:
            error = await refused(rig, pcm_frame(tone(20)))
            assert error["code"] == "invalid_value"
            assert "session.antiphon.binary_audio" in error["message"]

    run_simulated(main())


@pytest.mark.parametrize(
    ("frame", "code", "param"),
    [
        (b"", "invalid_value", "binary.header"),
        (b"\1\1\0\0", "invalid_value", "binary.header"),
        (HEADER.pack(9, 1, 0, 0, 0, 0), "invalid_value", "binary.version"),
        (HEADER.pack(1, 9, 0, 0, 0, 0), "invalid_value", "binary.kind"),
        (pcm_frame(b"\0\0\0"), "invalid_value", "binary.payload"),
        (pcm_frame(bytes(2002)), "invalid_value", "binary.payload"),
        (BinaryFrame(Kind.OPUS, b"").pack(), "invalid_value", "binary.payload"),
        (BinaryFrame(Kind.OPUS, b"\x03").pack(), "invalid_value", "binary.payload"),
        (BinaryFrame(Kind.OPUS, bytes(2001)).pack(), "invalid_value", "binary.payload"),
    ],
)
def test_what_is_wrong_is_named_and_the_session_goes_on(
    frame: bytes, code: str, param: str
) -> None:
    async def main() -> None:
        async with asked(limits=ConnectionLimits(append_bytes=2000)) as rig:
            error = await refused(rig, frame)
            assert (error["code"], error["param"]) == (code, param)
            assert param in error["message"]
            for value in (1, 2, 3):
                rig.socket.put_raw(pcm_frame(tone(100, value)[:2000]))
            assert len(await heard(rig)) == 6000

    run_simulated(main())


def test_opus_is_refused_where_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opus, "_loaded", False)
    monkeypatch.setitem(sys.modules, "av.codec.codec", None)

    async def main() -> None:
        async with asked() as rig:
            error = await refused(rig, BinaryFrame(Kind.OPUS, b"\x08").pack())
            assert (error["code"], error["param"]) == ("unsupported_value", "binary.kind")
            rig.socket.put_raw(pcm_frame(tone(120)))
            assert await heard(rig) == tone(120)

    run_simulated(main())


def test_a_long_frame_is_taken_in_pieces() -> None:
    """So that the loop runs in between, and the bounds of the core hold."""
    said = tone(3500)

    async def main() -> None:
        async with asked() as rig:
            rig.socket.put_raw(pcm_frame(said))
            assert await heard(rig) == said

    run_simulated(main())


def test_json_and_binary_may_be_mixed() -> None:
    async def main() -> None:
        async with asked() as rig:
            rig.socket.append(tone(100, 1))
            rig.socket.put_raw(pcm_frame(tone(100, 2)))
            rig.socket.append(tone(100, 3))
            assert await heard(rig) == tone(100, 1) + tone(100, 2) + tone(100, 3)

    run_simulated(main())


@given(
    st.lists(
        st.binary(max_size=60) | st.builds(headed, st.integers(0, 3), st.binary(max_size=300)),
        max_size=20,
    ),
    st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_no_bytes_end_a_session(frames: list[bytes], seed: int) -> None:
    random = Random(seed)

    async def main() -> None:
        async with asked(start=Settings(voice="ada"), binary_format="opus") as rig:
            for frame in frames:
                rig.socket.put_raw(frame)
                if random.random() < 0.2:
                    rig.socket.put("input_audio_buffer.commit")
            rig.socket.put("response.cancel", event_id="last")
            while True:
                await rig.socket.wait_for("error", len(rig.socket.of("error")) + 1)
                if rig.socket.of("error")[-1]["error"]["event_id"] == "last":
                    break
            assert not rig.task.done()

    run_simulated(main())
