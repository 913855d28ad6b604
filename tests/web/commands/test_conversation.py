"""A conversation on simulated time: what is sent, played and printed when."""

from __future__ import annotations

import asyncio
import io
import json
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from tests.support.devices import BYTES_PER_MS, FakeLoudspeaker, FakeMicrophone
from tests.support.fakes import tone
from tests.support.loop import run_simulated
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosedOK
from websockets.frames import Close

from antiphon.realtime.client import RealtimeClient
from antiphon.web.commands.conversation import Conversation, configure
from antiphon.web.commands.errors import CommandError
from antiphon.web.commands.screen import CUT, Screen
from antiphon.web.commands.sound import LOOK_SECONDS

Json = dict[str, Any]

WORDS = ("one", "two", "three", "four", "five")
WORD_MS = 200


class Socket:
    """The server's end."""

    def __init__(self) -> None:
        self.sent: list[Json] = []
        self._coming: asyncio.Queue[Json | None] = asyncio.Queue()

    def tell(self, kind: str, **fields: object) -> None:
        self._coming.put_nowait({"type": kind, **fields})

    def close(self) -> None:
        self._coming.put_nowait(None)

    async def send(self, data: str | bytes) -> None:
        self.sent.append(json.loads(data))

    async def recv(self) -> str:
        event = await self._coming.get()
        if event is None:
            raise ConnectionClosedOK(Close(1001, "session_expired"), None)
        return json.dumps(event)

    def of(self, kind: str) -> list[Json]:
        return [each for each in self.sent if each["type"] == kind]

    def say(self, name: str = "r1", *, until: int = len(WORDS), done: bool = True) -> None:
        """Tell of a reply with its words and audio, up to a word."""
        self.tell("response.created", response={"id": name})
        self.tell("response.output_audio_transcript.delta", response_id=name, delta="1 2 3 4 5")
        for number, word in enumerate(WORDS[:until]):
            start = number * WORD_MS
            self.tell(
                "antiphon.word",
                response_id=name,
                word=word,
                start_ms=start,
                end_ms=start + WORD_MS,
            )
            audio = b64encode(tone(WORD_MS, number + 1)).decode()
            self.tell("response.output_audio.delta", response_id=name, delta=audio)
        if done:
            self.tell("response.output_audio.done", response_id=name)
            self.done(name)

    def done(self, name: str = "r1", status: str = "completed", **details: object) -> None:
        self.tell("response.done", response={"id": name, "status": status, **details})


class Room:
    """Everything around one conversation."""

    def __init__(self) -> None:
        self.socket = Socket()
        self.microphone = FakeMicrophone()
        self.speaker = FakeLoudspeaker()
        self.out = io.StringIO()
        self.client = RealtimeClient(cast(ClientConnection, self.socket))
        self.conversation = Conversation(
            self.client, self.microphone, self.speaker, Screen(self.out)
        )

    @property
    def printed(self) -> str:
        return self.out.getvalue()

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        holding = asyncio.create_task(self.conversation.hold())
        try:
            yield
        finally:
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)


def hold(script: Callable[[Room], Awaitable[None]]) -> None:
    async def main() -> None:
        room = Room()
        async with room.held():
            await script(room)

    run_simulated(main())


def test_the_microphone_is_sent_as_it_hears() -> None:
    async def script(room: Room) -> None:
        room.microphone.hear(tone(100))
        await asyncio.sleep(1)
        sent = room.socket.of("input_audio_buffer.append")
        assert len(sent) in range(48, 52)
        loud = [each for each in sent if each["audio"] == b64encode(tone(20)).decode()]
        assert len(loud) == 5

    hold(script)


def test_words_are_printed_as_they_sound() -> None:
    async def script(room: Room) -> None:
        room.socket.tell(
            "conversation.item.input_audio_transcription.completed", transcript="Count."
        )
        room.socket.say()
        await asyncio.sleep(2.5 * WORD_MS / 1000)
        assert room.printed == "you       Count. \nantiphon  one two three "
        await asyncio.sleep(1)
        assert room.printed == "you       Count. \nantiphon  one two three four five \n"
        assert len(room.speaker.pcm) == len(WORDS) * WORD_MS * BYTES_PER_MS
        last = room.socket.of("antiphon.playback.report")[-1]
        assert last["response_id"] == "r1"
        assert (last["played_ms"], last["buffered_ms"]) == pytest.approx((1000, 0), abs=0.1)

    hold(script)


def test_who_speaks_cuts_the_reply_off() -> None:
    async def script(room: Room) -> None:
        room.socket.say(until=4, done=False)
        await asyncio.sleep(0.5)
        room.socket.tell("input_audio_buffer.speech_started")
        # What still comes of it was on its way, and is not heard.
        room.socket.tell("response.output_audio.delta", response_id="r1", delta="AAAA")
        room.socket.done(status="cancelled")
        await asyncio.sleep(LOOK_SECONDS)
        heard = len(room.speaker.pcm) / BYTES_PER_MS
        assert heard == pytest.approx(500, abs=1)
        assert room.speaker.dropped / BYTES_PER_MS == pytest.approx(300, abs=1)
        assert room.printed == f"antiphon  one two three {CUT} four \n"
        report = room.socket.of("antiphon.playback.report")[-1]
        assert (report["played_ms"], report["buffered_ms"]) == pytest.approx((500, 0), abs=1)
        room.socket.say("r2")
        await asyncio.sleep(2)
        assert room.printed.splitlines()[1:] == ["antiphon  one two three four five "]
        assert len(room.speaker.pcm) / BYTES_PER_MS == pytest.approx(heard + 1000, abs=1)

    hold(script)


def test_a_reply_that_is_cancelled_in_silence_is_marked_too() -> None:
    async def script(room: Room) -> None:
        room.socket.say(until=1, done=False)
        await asyncio.sleep(1)
        room.socket.tell("input_audio_buffer.speech_started")
        room.socket.done(status="cancelled")
        await asyncio.sleep(LOOK_SECONDS)
        assert room.printed == f"antiphon  one {CUT} \n"

    hold(script)


def test_who_speaks_while_nothing_is_said_cuts_nothing() -> None:
    async def script(room: Room) -> None:
        room.socket.say()
        await asyncio.sleep(2)
        room.socket.tell("input_audio_buffer.speech_started")
        room.socket.tell("response.created", response={"id": "r2"})
        room.socket.done("r2", "cancelled")
        await asyncio.sleep(1)
        assert room.printed == "antiphon  one two three four five \n"

    hold(script)


def test_a_reply_without_sound_is_printed_when_it_is_whole() -> None:
    async def script(room: Room) -> None:
        room.socket.say(until=0)
        await asyncio.sleep(1)
        assert room.printed == "antiphon  1 2 3 4 5 \n"

    hold(script)


def test_what_the_server_complains_of_is_printed_and_it_goes_on() -> None:
    async def script(room: Room) -> None:
        room.socket.tell("error", error={"message": "No."})
        room.socket.tell("response.created", response={"id": "r1"})
        room.socket.done(status="failed", status_details={"error": {"message": "It broke."}})
        room.socket.tell(
            "conversation.item.input_audio_transcription.failed", error={"message": "Too loud."}
        )
        room.socket.say("r2")
        await asyncio.sleep(2)
        assert room.printed.splitlines() == [
            "the server: No.",
            "the server could not answer: It broke.",
            "the server: Too loud.",
            "antiphon  one two three four five ",
        ]

    hold(script)


def test_the_end_of_the_connection_ends_it() -> None:
    async def main() -> None:
        room = Room()
        room.socket.say(until=1, done=False)
        room.socket.close()
        with pytest.raises(CommandError, match="ended the conversation: session_expired"):
            await room.conversation.hold()
        assert room.printed in ("", "antiphon  one \n")

    run_simulated(main())


def test_the_session_is_set_up() -> None:
    async def main() -> None:
        room = Room()
        room.socket.tell("session.created", session={"model": "small"})
        room.socket.tell("session.updated", session={})
        assert await configure(room.client) == "small"
        (update,) = room.socket.sent
        detection = update["session"]["audio"]["input"]["turn_detection"]
        assert (update["type"], detection["type"]) == ("session.update", "server_vad")

    run_simulated(main())


def test_a_session_that_is_not_opened() -> None:
    async def silent() -> None:
        with pytest.raises(CommandError, match="opened no session in time"):
            await configure(Room().client)

    async def refused() -> None:
        room = Room()
        room.socket.tell("error", error={"message": "No room."})
        with pytest.raises(CommandError, match="refused the session: No room"):
            await configure(room.client)

    run_simulated(silent())
    run_simulated(refused())
