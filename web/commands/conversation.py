"""A conversation with a server, by microphone and loudspeaker."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from websockets.exceptions import ConnectionClosed

from ...engines.chunks import Word
from ...realtime.client import Event, RealtimeClient, ServerError, audio_of
from ...realtime.playback import Listener, Player
from .errors import CommandError
from .screen import Screen
from .sound import LOOK_SECONDS, Loudspeaker, Microphone

SESSION_SECONDS = 10.0
"""For the server to answer when a session is opened."""

REPLIES = 16
"""That are remembered; older ones are over."""

_SETTINGS = {
    "type": "realtime",
    # The least that can be sent of sound without a codec.
    "antiphon": {"binary_audio": True, "binary_format": "pcm16"},
    "audio": {
        "input": {
            "transcription": {"model": "whisper-1"},
            "turn_detection": {"type": "server_vad"},
        }
    },
}


@dataclass(slots=True)
class Reply:
    """What the server says."""

    response_id: str
    text: str = ""
    words: list[Word] = field(default_factory=list[Word])
    shown: int = 0
    """How many of the words were printed."""

    made: bool = False
    """Whether all of it has come."""

    over: bool = False
    """Whether it was heard to its end, or cut."""


async def configure(client: RealtimeClient) -> str:
    """Set the session up; return the model's name.

    Raises:
        CommandError: the server refused, or did not answer.
    """
    try:
        async with asyncio.timeout(SESSION_SECONDS):
            created = await client.wait_for("session.created")
            await client.send("session.update", session=_SETTINGS)
            await client.wait_for("session.updated")
    except TimeoutError:
        raise CommandError("the server opened no session in time; try again") from None
    except (ServerError, ConnectionClosed) as error:
        raise CommandError(f"the server refused the session: {error}") from None
    return str(created["session"].get("model", ""))


class Conversation:
    """Sends what the microphone hears, plays what comes, and prints both."""

    def __init__(
        self,
        client: RealtimeClient,
        microphone: Microphone,
        speaker: Loudspeaker,
        screen: Screen,
    ) -> None:
        self._client = client
        self._microphone = microphone
        self._speaker = speaker
        self._screen = screen
        self._clock = asyncio.get_running_loop().time
        self._player = Player(position_ms=speaker.position_ms)
        self._listener = Listener(client, self._player, clock=self._clock, on_cut=self._silence)
        self._replies: deque[Reply] = deque(maxlen=REPLIES)
        self._silenced = False

    async def hold(self) -> None:
        """Talk until cancelled.

        Raises:
            CommandError: the server or a device is gone.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._speak())
                tasks.create_task(self._hear())
                tasks.create_task(self._report())
                tasks.create_task(self._show())
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            self._screen.end()

    async def _speak(self) -> None:
        try:
            async for pcm in self._microphone:
                await self._client.append(pcm)
        except ConnectionClosed as closed:
            raise _ended(closed) from None

    async def _report(self) -> None:
        try:
            await self._listener.run()
        except ConnectionClosed as closed:
            raise _ended(closed) from None

    async def _hear(self) -> None:
        try:
            while True:
                self._take(await self._client.receive())
        except ConnectionClosed as closed:
            raise _ended(closed) from None

    async def _show(self) -> None:
        while True:
            for reply in self._replies:
                if not reply.over:
                    self._show_heard(reply)
            await asyncio.sleep(LOOK_SECONDS)

    def _take(self, event: Event) -> None:
        # First: what stops the sound is not to wait.
        self._silenced = False
        self._listener.take(event)
        match event["type"]:
            case "input_audio_buffer.speech_started" if self._silenced:
                for reply in self._replies:
                    self._cut(reply)
            case "conversation.item.input_audio_transcription.completed":
                self._screen.heard(event["transcript"])
            case "conversation.item.input_audio_transcription.failed" | "error":
                self._screen.note(f"the server: {event['error'].get('message')}")
            case "response.created":
                self._replies.append(Reply(event["response"]["id"]))
            case "response.done":
                self._done(event["response"])
            case _:
                self._take_of_reply(event)

    def _take_of_reply(self, event: Event) -> None:
        reply = self._find(event.get("response_id"))
        if reply is None or reply.over:
            return
        match event["type"]:
            case "response.output_audio_transcript.delta":
                reply.text += event["delta"]
            case "response.output_audio.delta":
                self._speaker.write(audio_of(event))
            case "response.output_audio.done":
                self._speaker.finish()
            case "antiphon.word":
                reply.words.append(Word(event["word"], event["start_ms"], event["end_ms"]))
            case _:
                pass

    def _done(self, response: Event) -> None:
        reply = self._find(response["id"])
        if reply is None:
            return
        reply.made = True
        if response["status"] == "cancelled":
            self._cut(reply)
        elif response["status"] == "failed":
            details: Event = response.get("status_details") or {}
            error: Event = details.get("error") or {}
            self._screen.note(f"the server could not answer: {error.get('message')}")

    def _silence(self) -> None:
        """Playback was cut: what the loudspeaker holds beyond that must not be heard."""
        self._silenced = True
        self._speaker.shorten(self._player.buffered_ms(self._clock()))

    def _cut(self, reply: Reply) -> None:
        if reply.over:
            return
        self._show_words(reply)
        reply.over = True
        if reply.shown or reply.text:
            self._screen.cut(" ".join(word.text for word in reply.words[reply.shown :]))

    def _show_heard(self, reply: Reply) -> None:
        self._show_words(reply)
        report = self._player.report(reply.response_id, self._clock())
        if not reply.made or (report is not None and report.buffered_ms >= 1):
            return
        reply.over = True
        rest = [word.text for word in reply.words[reply.shown :]]
        for word in rest if reply.words else reply.text.split():
            self._screen.word(word)
        self._screen.end()

    def _show_words(self, reply: Reply) -> None:
        """Print what has begun to sound."""
        played = self._player.played_ms(reply.response_id, self._clock())
        while reply.shown < len(reply.words) and reply.words[reply.shown].start_ms < played:
            self._screen.word(reply.words[reply.shown].text)
            reply.shown += 1

    def _find(self, response_id: str | None) -> Reply | None:
        return next((each for each in self._replies if each.response_id == response_id), None)


def _ended(closed: ConnectionClosed) -> CommandError:
    why = closed.rcvd.reason if closed.rcvd is not None else ""
    return CommandError(f"the server ended the conversation: {why or 'its log says why'}")
