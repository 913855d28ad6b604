"""The stage streams of one connection: started and cancelled by effects, heard as events."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import assert_never

from ..engines import pipeline as pl
from ..engines import tools
from ..engines.chunks import (
    CallDelta,
    End,
    EndReason,
    Fitted,
    PcmChunk,
    SpeechFrames,
    SpokenWords,
    TextDelta,
    Timings,
    Transcript,
    TranscriptDelta,
)
from ..engines.stage import StageFailure
from ..sessions import events as ev
from ..sessions import work_effects as wx
from ..sessions.tools import Tool
from .audio_format import CORE_RATE

logger = logging.getLogger(__name__)

FEED_HIGH = 64
"""Appends waiting for voice activity above which the reader of the socket waits."""

SEND_BYTES = 96_000
"""Audio handed to a recognizer in one chunk: two seconds."""

Tell = Callable[[ev.StageEvent], None]


class Listening:
    """One voice activity stream and the audio waiting for it."""

    def __init__(self, listen_id: int) -> None:
        self.listen_id = listen_id
        self.stopped = False
        self._waiting: deque[bytes] = deque()
        self._readable = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def feed(self, pcm: bytes) -> None:
        """Queue audio; bounded by the reader, which waits for room."""
        self._waiting.append(pcm)
        self._readable.set()
        if len(self._waiting) >= FEED_HIGH:
            self._room.clear()

    def stop(self) -> None:
        """Feed no more."""
        self.stopped = True
        self._waiting.clear()
        self._readable.set()
        self._room.set()

    async def wait_room(self) -> None:
        """Return once more audio may be fed."""
        await self._room.wait()

    async def next(self) -> bytes | None:
        """Return the next audio; ``None`` once stopped."""
        while not self._waiting:
            if self.stopped:
                return None
            self._readable.clear()
            await self._readable.wait()
        pcm = self._waiting.popleft()
        if len(self._waiting) < FEED_HIGH:
            self._room.set()
        return pcm


class Work:
    """Carries out the work effects of one session.

    Every stream runs in a task of its own; what it yields is told as events. A stream
    that was cancelled tells nothing more.
    """

    def __init__(
        self, name: str, pipeline: pl.Pipeline, tell: Tell, room: Callable[[], Awaitable[None]]
    ) -> None:
        self._name = name
        self._pipeline = pipeline
        self._tell = tell
        self._room = room
        self._listening: Listening | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._replies: dict[str, pl.Reply] = {}

    def carry_out(self, effect: wx.WorkEffect) -> None:
        """Start or stop a stream; never waits."""
        match effect:
            case wx.ExpectTurnEnd():
                self._pipeline.expect()
            case wx.StartListening() | wx.FeedListening() | wx.StopListening():
                self._carry_out_listening(effect)
            case wx.StartRecognition():
                self._spawn(f"hear-{effect.recognition_id}", self._recognize(effect))
            case wx.CancelRecognition(recognition_id=recognition_id):
                self._cancel(f"hear-{recognition_id}")
            case wx.StartReply():
                self._spawn(effect.response_id, self._reply(effect))
            case wx.ReplyPlayed(response_id=response_id):
                if (reply := self._replies.get(response_id)) is not None:
                    reply.played(effect.played_ms, effect.until_ms)
            case wx.AbortReply(response_id=response_id):
                self._cancel(response_id)
            case wx.CloseConnection():
                raise AssertionError("the connection carries this out itself")
            case _:
                assert_never(effect)

    def _carry_out_listening(
        self, effect: wx.StartListening | wx.FeedListening | wx.StopListening
    ) -> None:
        match effect:
            case wx.StartListening(listen_id=listen_id):
                self._listening = Listening(listen_id)
                self._spawn(f"listen-{listen_id}", self._listen(self._listening))
            case wx.FeedListening(listen_id=listen_id, pcm=pcm):
                if self._listening is not None and self._listening.listen_id == listen_id:
                    self._listening.feed(pcm)
            case wx.StopListening(listen_id=listen_id):
                if self._listening is not None and self._listening.listen_id == listen_id:
                    self._listening.stop()
                    self._listening = None
                self._cancel(f"listen-{listen_id}")
            case _:
                assert_never(effect)

    async def wait_room(self) -> None:
        """Return once more audio may be appended."""
        if self._listening is not None:
            await self._listening.wait_room()

    async def close(self) -> None:
        """Cancel whatever still runs and wait until it is gone."""
        if self._listening is not None:
            self._listening.stop()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def running(self) -> int:
        """How many streams are open."""
        return len(self._running)

    # Inside.

    def _spawn(self, key: str, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"{self._name}-{key}")
        self._running[key] = task
        task.add_done_callback(lambda done: self._done(key, done))

    def _done(self, key: str, task: asyncio.Task[None]) -> None:
        self._running.pop(key, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("stream %s failed", key, exc_info=error)

    def _cancel(self, key: str) -> None:
        task = self._running.get(key)
        if task is not None:
            task.cancel()

    async def _listen(self, listening: Listening) -> None:
        listen_id = listening.listen_id
        request = pl.ListenRequest(request_id=f"{self._name}-listen-{listen_id}")
        try:
            stream = self._pipeline.listen(request)
        except StageFailure as failure:
            self._tell(ev.ListeningFailed(listen_id, failure.error.message))
            listening.stop()
            return
        feeder = asyncio.get_running_loop().create_task(
            self._feed(listening, stream), name=f"{self._name}-feed"
        )
        try:
            async for chunk in stream:
                match chunk:
                    case SpeechFrames(probabilities=probabilities, frame_ms=frame_ms):
                        self._tell(ev.SpeechScored(listen_id, probabilities, frame_ms))
                    case End(error=error):
                        message = error.message if error else "voice activity ended"
                        self._tell(ev.ListeningFailed(listen_id, message))
                    case _:
                        assert_never(chunk)
        finally:
            # Whoever waits for room here would wait for ever: nobody reads it now.
            listening.stop()
            feeder.cancel()
            stream.cancel()

    async def _feed(self, listening: Listening, stream: pl.Hearing) -> None:
        while (pcm := await listening.next()) is not None:
            await stream.send(PcmChunk(pcm, CORE_RATE))
        await stream.end()

    async def _recognize(self, effect: wx.StartRecognition) -> None:
        recognition_id = effect.recognition_id
        request = pl.RecognizeRequest(
            request_id=f"{self._name}-hear-{recognition_id}",
            language=effect.language,
            prompt=effect.prompt or "",
            logprobs=effect.logprobs,
            partial=effect.partial,
        )
        said: Transcript | None = None
        try:
            stream = self._pipeline.recognize(request)
        except StageFailure as failure:
            self._tell(_not_recognized(recognition_id, End(EndReason.FAILED, failure.error)))
            return
        try:
            for start in range(0, len(effect.pcm), SEND_BYTES):
                await stream.send(PcmChunk(effect.pcm[start : start + SEND_BYTES], CORE_RATE))
            await stream.end()
            async for chunk in stream:
                match chunk:
                    case Transcript():
                        said = chunk
                    case TranscriptDelta():
                        pass
                    case End() if chunk.reason is EndReason.COMPLETED and said is not None:
                        self._tell(_recognized(recognition_id, said))
                    case End():
                        self._tell(_not_recognized(recognition_id, chunk))
                    case _:
                        assert_never(chunk)
        finally:
            stream.cancel()

    async def _reply(self, effect: wx.StartReply) -> None:
        request = pl.ReplyRequest(
            request_id=effect.response_id,
            messages=tuple(_message(each) for each in effect.messages),
            speak=effect.speak,
            voice=effect.voice if effect.voice in self._pipeline.voices else None,
            speed=effect.speed,
            max_tokens=effect.max_output_tokens,
            temperature=effect.temperature,
            tools=tuple(_tool(each) for each in effect.tools),
            tool_choice=tools.ToolChoice(
                mode=effect.tool_choice.mode.value, name=effect.tool_choice.name
            ),
            truncation=tools.Truncation(
                mode=effect.truncation.mode.value,
                retention_ratio=effect.truncation.retention_ratio,
                post_instructions=effect.truncation.post_instructions,
            ),
        )
        key = (effect.response_id, effect.epoch)
        try:
            stream = self._pipeline.reply(request)
        except StageFailure as failure:
            self._tell(_reply_ended(key, End(EndReason.FAILED, failure.error)))
            return
        self._replies[effect.response_id] = stream
        try:
            async for chunk in stream:
                self._tell(_reply_event(key, chunk))
                await self._room()
        finally:
            del self._replies[effect.response_id]
            stream.cancel()


def _message(message: wx.ContextMessage) -> pl.Message:
    return pl.Message(
        message.role,
        message.text,
        images=message.images,
        calls=tuple(tools.Call(c.call_id, c.name, c.arguments) for c in message.calls),
        call_id=message.call_id,
    )


def _tool(tool: Tool) -> tools.Tool:
    return tools.Tool(name=tool.name, description=tool.description, parameters=tool.parameters)


def _recognized(recognition_id: int, said: Transcript) -> ev.RecognitionEnded:
    tokens = tuple(ev.TokenLogprob(each.token, each.logprob) for each in said.logprobs)
    return ev.RecognitionEnded(recognition_id, said.text, logprobs=tokens)


def _not_recognized(recognition_id: int, end: End) -> ev.RecognitionEnded:
    code = end.error.code if end.error else "recognition_failed"
    message = end.error.message if end.error else "What was said could not be recognized."
    return ev.RecognitionEnded(recognition_id, None, code, message)


def _reply_event(key: tuple[str, int], chunk: pl.ReplyChunk | End) -> ev.StageEvent:
    match chunk:
        case TextDelta(text=text):
            return ev.ReplyText(*key, text)
        case SpokenWords(words=words):
            return ev.ReplyWords(
                *key, tuple(ev.WordTime(w.text, w.start_ms, w.end_ms) for w in words)
            )
        case PcmChunk(pcm=pcm):
            return ev.ReplyAudio(*key, pcm)
        case CallDelta():
            return ev.ReplyCall(*key, chunk.index, chunk.name, chunk.arguments, chunk.done)
        case Fitted(dropped=dropped):
            return ev.ReplyFitted(*key, dropped)
        case Timings():
            return ev.ReplyTimed(
                *key,
                first_token_at=chunk.first_token_at,
                first_clause_at=chunk.first_clause_at,
                talker_at=chunk.talker_at,
                code2wav_at=chunk.code2wav_at,
                admitted_at=chunk.admitted_at,
            )
        case End():
            return _reply_ended(key, chunk)
        case _:
            assert_never(chunk)


_OUTCOMES = {
    EndReason.COMPLETED: ev.ReplyOutcome.COMPLETED,
    EndReason.LENGTH: ev.ReplyOutcome.LENGTH,
}


def _reply_ended(key: tuple[str, int], end: End) -> ev.ReplyEnded:
    return ev.ReplyEnded(
        *key,
        _OUTCOMES.get(end.reason, ev.ReplyOutcome.FAILED),
        error_code=end.error.code if end.error else None,
        error_message=end.error.message if end.error else None,
        retry_after_ms=end.error.retry_after_ms if end.error else None,
        input_tokens=end.usage.input_tokens,
        cached_tokens=end.usage.cached_tokens,
        output_tokens=end.usage.output_tokens,
    )
