"""A spoken conversation with a server: microphone, ear, and loudspeaker, in real time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import numpy as np
from websockets.exceptions import ConnectionClosed

from ..engines.chunks import Word
from ..engines.pipeline import OUTPUT_RATE
from ..engines.speech.speaker import Utterance
from ..realtime.client import Event, RealtimeClient, ServerError, audio_of
from .demo_playback import Playback
from .demo_server import DemoError
from .demo_timeline import Reply, Story, Turn

CHUNK_MS = 20
"""What a microphone hands over at once."""

REPORT_MS = 200
"""Between two reports of how far a reply was played."""

SILENCE_MS = 300
"""After which a turn is over."""

SETTLED_SECONDS = 0.4
"""Nothing must happen for so long before the next turn: a polite pause."""

CALL_SECONDS = 300
"""A conversation lasts no longer."""

HEAR_SECONDS = 10
"""For the server to notice that somebody speaks, from the last word on."""

ANSWER_SECONDS = 30
"""The server may not be silent for longer while an answer is due."""

TAIL_MS = 1.0
"""What is left of a reply below this can't be heard."""

REPLY_TOKENS = 150
"""Bound of an answer: about 45 s of speech. Some small models don't know when to stop."""

SESSION_SECONDS = 10
"""For the server to answer when a session is opened."""

_CHUNK_BYTES = 2 * OUTPUT_RATE * CHUNK_MS // 1000

_SETTINGS = {
    "type": "realtime",
    "max_output_tokens": REPLY_TOKENS,
    "audio": {
        "input": {
            "transcription": {"model": "whisper-1"},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": SILENCE_MS},
        }
    },
}


class Watcher(Protocol):
    """Is told what happens as it happens."""

    def began(self, turn: Turn) -> None:
        """The server has noticed that the person speaks."""
        ...

    def heard(self, turn: Turn, text: str) -> None:
        """The server has understood what was said."""
        ...

    def sounded(self, reply: Reply, word: Word) -> None:
        """A word of the reply begins to sound."""
        ...

    def cut(self, turn: Turn) -> None:
        """The reply to the turn was interrupted."""
        ...


class Call:
    """One conversation over an open session."""

    def __init__(self, client: RealtimeClient, watcher: Watcher) -> None:
        self._client = client
        self._watcher = watcher
        self._clock = asyncio.get_running_loop().time
        self._opened_at = self._clock()
        self._playback = Playback()
        self._turns: list[Turn] = []
        self._replies: dict[str, Reply] = {}
        self._said = bytearray()
        self._to_say: deque[bytes] = deque()
        self._speaking = False
        """Whether the server hears speech just now."""

        self._committed = 0
        self._shown: dict[str, int] = {}
        self._reported_at = 0.0
        self._changed = asyncio.Event()
        self._changed_at = 0.0

    async def hold(self, script: Callable[[Call], Awaitable[None]]) -> None:
        """Open the microphone, run ``script``, close the microphone.

        Raises:
            DemoError: the server refused something, fell silent, or is gone.
        """
        self._opened_at = self._clock()
        try:
            async with asyncio.timeout(CALL_SECONDS), asyncio.TaskGroup() as tasks:
                ends = [tasks.create_task(self._speak()), tasks.create_task(self._listen())]
                await script(self)
                for task in ends:
                    task.cancel()
        except ExceptionGroup as group:
            raise _as_demo_error(group) from None
        except TimeoutError:
            raise DemoError(
                f"the conversation was not over after {CALL_SECONDS} s; the server may be too "
                "busy: `antiphon doctor` says what it needs"
            ) from None

    async def configure(self) -> str:
        """Ask for turns and transcripts; return the model's name.

        Raises:
            DemoError: the server refused, or did not answer.
        """
        try:
            async with asyncio.timeout(SESSION_SECONDS):
                created = await self._client.wait_for("session.created")
                await self._client.send("session.update", session=_SETTINGS)
                await self._client.wait_for("session.updated")
        except TimeoutError:
            raise DemoError("the server opened no session in time; try again") from None
        except (ServerError, ConnectionClosed) as error:
            raise DemoError(f"the server refused the session: {error}") from None
        return str(created["session"].get("model", ""))

    async def say(self, text: str, utterance: Utterance) -> Turn:
        """Say something; return when the server has noticed that somebody speaks."""
        turn = Turn(text, self._position, utterance.words)
        self._turns.append(turn)
        pcm = utterance.pcm
        self._to_say.extend(pcm[at : at + _CHUNK_BYTES] for at in range(0, len(pcm), _CHUNK_BYTES))
        await self._until(
            lambda: bool(turn.speech_started_at),
            HEAR_SECONDS,
            "the server did not notice that somebody speaks",
        )
        self._watcher.began(turn)
        return turn

    async def played(self, ms: float) -> bool:
        """Return when so much of the newest reply was heard; false: it was over before."""

        def enough() -> bool:
            reply = self._turns[-1].reply
            played = reply and self._playback.played_ms(reply.response_id, self._now)
            return self._settled or (played or 0) >= ms

        await self._until(enough, ANSWER_SECONDS, "the server did not answer")
        return not self._settled

    async def finished(self) -> None:
        """Return when the newest turn was answered and the answer heard to its end."""
        await self._until(lambda: self._settled, ANSWER_SECONDS, "the server did not finish")

    def story(self, model: str) -> Story:
        """All that happened."""
        person = np.frombuffer(bytes(self._said), "<i2")
        return Story(tuple(self._turns), person, self._playback, model)

    @property
    def _now(self) -> float:
        return self._clock() - self._opened_at

    @property
    def _position(self) -> float:
        """Where the microphone's audio ends, in seconds."""
        return len(self._said) / 2 / OUTPUT_RATE

    @property
    def _settled(self) -> bool:
        done = all(reply.status != "in_progress" for reply in self._replies.values())
        quiet = not self._to_say and not self._speaking and self._buffered_ms == 0
        answered = len(self._replies) >= self._committed > 0
        return quiet and done and answered and self._now >= self._changed_at + SETTLED_SECONDS

    @property
    def _buffered_ms(self) -> float:
        return self._playback.buffered_ms(self._now)

    async def _until(self, is_so: Callable[[], bool], seconds: float, complaint: str) -> None:
        """Wait, but not for longer than ``seconds`` in which nothing happens."""
        self._note()
        while not is_so():
            if self._now > self._changed_at + seconds:
                raise DemoError(
                    f"{complaint} within {seconds:.0f} s; its log or `antiphon doctor` may say why"
                )
            self._changed.clear()
            await self._changed.wait()

    # The microphone, and what goes with its beat.

    async def _speak(self) -> None:
        while True:
            due = self._position + CHUNK_MS / 1000
            await asyncio.sleep(max(0.0, due - self._now))
            chunk = self._to_say.popleft() if self._to_say else b""
            chunk = chunk.ljust(_CHUNK_BYTES, b"\0")
            self._said += chunk
            if self._to_say:
                self._note()
            await self._client.append(chunk)
            await self._beat()

    async def _beat(self) -> None:
        if self._buffered_ms > 0:
            self._note()
        self._show_words()
        if self._now >= self._reported_at + REPORT_MS / 1000:
            self._reported_at = self._now
            await self._report()
        self._changed.set()

    def _show_words(self) -> None:
        for reply in self._replies.values():
            shown = self._shown.get(reply.response_id, 0)
            played = self._playback.played_ms(reply.response_id, self._now)
            for word in reply.words[shown:]:
                if played <= word.start_ms or reply.cut_at is not None:
                    break
                shown += 1
                self._watcher.sounded(reply, word)
            self._shown[reply.response_id] = shown

    async def _report(self) -> None:
        replies = [reply for turn in self._turns[-2:] for reply in turn.replies if reply.pcm]
        if not replies or replies[-1].cut_at is not None:
            return
        name = replies[-1].response_id
        gaps = self._playback.gaps(name)
        await self._client.send(
            "antiphon.playback.report",
            response_id=name,
            played_ms=self._playback.played_ms(name, self._now),
            buffered_ms=self._buffered_ms,
            underruns=len(gaps),
            gap_ms=1000 * sum(gaps),
        )

    # The ear.

    async def _listen(self) -> None:
        async for event in self._client:
            await self._take(event)
            self._note()
            self._changed.set()
        raise DemoError("the server closed the connection; its log says why")

    def _note(self) -> None:
        self._changed_at = self._now

    async def _take(self, event: Event) -> None:
        match event["type"]:
            case "error":
                raise DemoError(f"the server refused: {event['error'].get('message')}")
            case "input_audio_buffer.speech_started":
                await self._person_began()
            case "input_audio_buffer.speech_stopped":
                self._speaking = False
                self._turns[-1].speech_stopped_at.append(self._now)
            case "input_audio_buffer.committed":
                self._committed += 1
            case "conversation.item.input_audio_transcription.completed":
                self._turns[-1].heard.append(event["transcript"])
                self._watcher.heard(self._turns[-1], event["transcript"])
            case "conversation.item.input_audio_transcription.failed":
                what = event["error"].get("message")
                raise DemoError(f"the server did not understand what was said: {what}")
            case _:
                self._take_of_reply(event)

    def _take_of_reply(self, event: Event) -> None:
        if event["type"] == "response.created":
            self._begin_reply(event["response"]["id"])
            return
        reply = self._replies.get(_response_id(event))
        if reply is None:
            return
        match event["type"]:
            case "response.output_item.added":
                reply.item_id = event["item"]["id"]
            case "response.output_audio_transcript.delta":
                reply.text += event["delta"]
            case "response.output_audio.delta":
                self._take_audio(reply, audio_of(event))
            case "antiphon.word":
                reply.words.append(Word(event["word"], event["start_ms"], event["end_ms"]))
            case "antiphon.metrics":
                reply.metrics = event
            case "response.done":
                _finish(reply, event["response"])
            case _:
                pass

    def _begin_reply(self, response_id: str) -> None:
        if not self._turns:
            raise DemoError("the server answered before anything was said; try again")
        reply = Reply(response_id, self._now)
        self._turns[-1].replies.append(reply)
        self._replies[response_id] = reply

    def _take_audio(self, reply: Reply, pcm: bytes) -> None:
        now = self._now
        reply.pcm += pcm
        reply.last_audio_at = now
        if reply.first_audio_at is None:
            reply.first_audio_at = now
        if reply.cut_at is not None:
            reply.late_bytes += len(pcm)
        else:
            self._playback.add(reply.response_id, pcm, now)

    async def _person_began(self) -> None:
        if not self._turns:
            raise DemoError("the server heard speech where there was none; try again")
        self._speaking = True
        turn = self._turns[-1]
        turn.speech_started_at.append(self._now)
        for reply in self._replies.values():
            if reply.cut_at is None and self._unheard(reply):
                await self._stop(reply, turn)

    def _unheard(self, reply: Reply) -> bool:
        played = self._playback.played_ms(reply.response_id, self._now)
        going_on = reply.status == "in_progress" and bool(reply.pcm)
        return going_on or reply.received_ms - played > TAIL_MS

    async def _stop(self, reply: Reply, turn: Turn) -> None:
        now = self._now
        reply.heard_ms = self._playback.played_ms(reply.response_id, now)
        self._playback.drop(now)
        reply.cut_at = self._now
        answers = next(each for each in self._turns if reply in each.replies)
        # An answer to the first half of what somebody is saying was never wanted.
        if answers is not turn:
            turn.interrupted = reply
            self._watcher.cut(answers)
        await self._client.send(
            "conversation.item.truncate",
            item_id=reply.item_id,
            content_index=0,
            audio_end_ms=int(reply.heard_ms),
        )


def _response_id(event: Event) -> str:
    named: Any = event.get("response_id") or event.get("response", {}).get("id", "")
    return str(named)


def _finish(reply: Reply, response: Event) -> None:
    reply.status = response["status"]
    if reply.status == "failed":
        details: Event = response.get("status_details") or {}
        error: Event = details.get("error") or {}
        raise DemoError(f"the server could not answer: {error.get('message')}")


def _as_demo_error(group: ExceptionGroup[Exception]) -> Exception:
    errors = group.exceptions
    own = [error for error in errors if isinstance(error, DemoError)]
    if not own and isinstance(errors[0], (ConnectionClosed, OSError)):
        return DemoError("the connection to the server broke; its log says why")
    return (own or errors)[0]
