"""The protocol of a speech stream: text in while audio goes out, without any I/O.

An utterance is what lies between two flushes. It begins with its first text, and is spoken
from its first clause on, once the one before it has gone out. Two may be there at once: the
one that sounds, and the next one, whose text may come meanwhile. Each ends with exactly one
:class:`~.speech_events.UtteranceDone`, in the order of their indexes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import assert_never

from ..sessions.errors import ErrorInfo
from . import speech_events as sp

UTTERANCES = 2
"""The one that sounds and the next; there is no room for the text of a third."""

IDLE, DONE = 1000, 1000
"""Close codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechBounds:
    """Bounds of one connection."""

    chars: int = 100_000
    """Of one utterance."""

    whole_bytes: int = 4 * 1024 * 1024
    """Audio of an utterance that is sent at once."""

    idle_s: float = 300.0
    """Without a message while nothing is being spoken."""

    stage_timeout_s: float = 60.0
    """Without any progress while something is."""


@dataclass(slots=True, eq=False)
class _Utterance:
    index: int
    settings: sp.SpeechSettings
    chars: int = 0
    flushed: bool = False
    waiting: list[str] = field(default_factory=list[str])
    """Text that is not handed on yet."""

    pronounced: bool = False
    """Whether the text is more than white space."""

    opened: bool = False
    """Whether it has, or had, a stream."""

    ended: bool = False
    """Whether all of its audio is made, or none will be any more."""

    failed: bool = False
    truncated: bool = False
    abandoned: bool = False
    """Whether it is never begun, as the client left its text incomplete."""

    started: bool = False
    """Whether the client was told of audio."""

    words: deque[sp.WordTime] = field(default_factory=deque[sp.WordTime])
    kept: list[bytes] = field(default_factory=list[bytes])
    kept_bytes: int = 0
    sent_bytes: int = 0
    sent_ms: float = 0.0
    made_ms: float = 0.0
    frames: int = 0
    written: int = 0

    @property
    def speaking(self) -> bool:
        """Whether its stream is at work."""
        return self.opened and not self.ended

    @property
    def over(self) -> bool:
        """Whether nothing of it is still to come or on its way."""
        if not self.flushed:
            return False
        return self.abandoned or not self.pronounced or (self.ended and self.written >= self.frames)


class SpeechStream:
    """The state of one connection.

    Tell it what happens by :meth:`handle` and :meth:`handle_deadline`, then carry out
    :meth:`next_effect` until there is none. ``now`` is in seconds and never goes back.
    """

    def __init__(self, settings: sp.SpeechSettings, bounds: SpeechBounds, now: float) -> None:
        """Begin; ``settings`` apply until the client says others."""
        self.settings = settings
        self._bounds = bounds
        self._utterances: deque[_Utterance] = deque()
        self._next_index = 0
        self._closing = False
        self._closed = False
        self._heard_at = now
        self._moved_at = now
        self._effects: deque[sp.Effect] = deque()
        self._emit(sp.Ready(settings))

    def next_effect(self) -> sp.Effect | None:
        """Return what to do next, if anything."""
        return self._effects.popleft() if self._effects else None

    def has_room(self, event: sp.FromClient) -> bool:
        """Whether it may be handled now; else nothing more is to be read before it is."""
        if self._closed or self._closing or not isinstance(event, (sp.AddText, sp.Flush)):
            return True
        return self._open is not None or len(self._utterances) < UTTERANCES

    @property
    def deadline(self) -> float | None:
        """When to call :meth:`handle_deadline`."""
        if self._closed:
            return None
        first = self._utterances[0] if self._utterances else None
        if first is None or not first.flushed:
            return self._heard_at + self._bounds.idle_s
        return self._moved_at + self._bounds.stage_timeout_s if first.speaking else None

    def handle_deadline(self, now: float) -> None:
        """Note that time has passed."""
        due = self.deadline
        if due is None or now < due:
            return
        first = self._utterances[0] if self._utterances else None
        if first is None or not first.flushed:
            self._stop_all()
            self._close(IDLE, "idle")
        else:
            message = "The utterance was not spoken in time."
            self._fail(first, ErrorInfo("response_timeout", message, type="server_error"))
            self._advance(now)

    def handle(self, event: sp.Event, now: float) -> None:
        """Note what the client said, or what became of the work.

        A client's text and flush only where there is :meth:`has_room` for it. What comes of
        work that was stopped is ignored.
        """
        if self._closed:
            return
        match event:
            case sp.WordsKnown() | sp.AudioMade() | sp.WorkEnded() | sp.AudioWritten():
                self._work(event, now)
            case _:
                self._heard_at = now
                self._client(event, now)
        self._advance(now)

    # What the client says.

    def _client(self, event: sp.FromClient, now: float) -> None:
        match event:
            case sp.Cancel():
                self._cancel()
            case _ if self._closing:
                pass
            case sp.Configure():
                self._configure(event)
            case sp.AddText():
                self._add(event)
            case sp.Flush():
                # From here on it is for the stages to go on.
                self._moved_at = now
                self._flush()
            case sp.Close():
                self._closing = True
                self._abandon()
            case sp.Reject(error=error):
                self._emit(sp.Complained(error))
            case _:
                assert_never(event)

    def _configure(self, event: sp.Configure) -> None:
        if self._open is not None:
            message = "Send input.done or input.cancel first: this utterance has begun."
            self._emit(sp.Complained(ErrorInfo("utterance_begun", message, None, event.event_id)))
            return
        self.settings = event.settings
        self._emit(sp.Ready(event.settings))

    def _add(self, event: sp.AddText) -> None:
        chars = len(event.text)
        if not chars:
            return
        begun = 0 if self._open is None else self._open.chars
        if begun + chars > self._bounds.chars:
            message = (
                f"An utterance has at most {self._bounds.chars} characters, and this would be "
                f"{begun + chars}. Nothing of this message was taken; send input.done first."
            )
            error = ErrorInfo("string_above_max_length", message, "text", event.event_id)
            self._emit(sp.Complained(error))
            return
        into = self._open or self._begin()
        into.chars += chars
        if into.failed:
            return
        into.pronounced = into.pronounced or not event.text.isspace()
        if into.speaking:
            self._emit(sp.HandText(into.index, event.text))
        else:
            into.waiting.append(event.text)

    def _flush(self) -> None:
        flushed = self._open or self._begin()
        flushed.flushed = True
        if flushed.speaking:
            self._emit(sp.EndText(flushed.index))

    def _cancel(self) -> None:
        if self._utterances:
            self._drop(list(self._utterances))
        else:
            self._emit(sp.Cancelled(None))

    def _abandon(self) -> None:
        """Drop text that was not flushed, in its turn."""
        if (left := self._open) is None:
            return
        if left is self._utterances[0]:
            self._drop([left])
        else:
            left.flushed = left.abandoned = True

    # What becomes of the work.

    def _work(self, event: sp.FromWork, now: float) -> None:
        first = self._utterances[0] if self._utterances else None
        if first is None or first.index != event.index:
            return
        self._moved_at = now
        if isinstance(event, sp.AudioWritten):
            first.written += 1
        elif first.speaking:
            match event:
                case sp.WordsKnown(words=words):
                    if first.settings.word_timestamps:
                        first.words.extend(words)
                case sp.AudioMade():
                    self._made(first, event)
                case sp.WorkEnded(error=None) if first.flushed:
                    first.truncated = event.truncated
                    self._complete(first)
                case sp.WorkEnded(error=error):
                    first.ended = True
                    self._fail(first, error or _stopped())
                case _:
                    assert_never(event)

    def _made(self, of: _Utterance, event: sp.AudioMade) -> None:
        of.made_ms = event.until_ms
        if not event.data:
            return
        if of.settings.stream_audio:
            self._send(of, event.data)
            return
        of.kept.append(event.data)
        of.kept_bytes += len(event.data)
        if of.kept_bytes > self._bounds.whole_bytes:
            message = (
                f"This audio is longer than {self._bounds.whole_bytes} bytes, which is all that "
                "can be sent at once. Use stream_audio."
            )
            self._fail(of, ErrorInfo("audio_too_long", message, "stream_audio"))

    def _send(self, of: _Utterance, data: bytes) -> None:
        if not of.started:
            of.started = True
            self._emit(sp.AudioStarted(of.index, of.settings))
        if of.settings.word_timestamps:
            words: list[sp.WordTime] = []
            while of.words and (of.ended or of.words[0].start_ms < of.made_ms):
                words.append(of.words.popleft())
            self._emit(
                sp.SendChunk(of.index, of.frames, data, of.sent_ms, of.made_ms, tuple(words))
            )
        else:
            self._emit(sp.SendAudio(of.index, data))
        of.frames += 1
        of.sent_bytes += len(data)
        of.sent_ms = of.made_ms

    def _complete(self, of: _Utterance) -> None:
        of.ended = True
        if of.kept or (of.started and of.words):
            self._send(of, b"".join(of.kept))
            of.kept = []

    def _fail(self, of: _Utterance, error: ErrorInfo) -> None:
        """Say so at once; its end is told when it is flushed: it may have more text to come."""
        if of.speaking:
            self._emit(sp.StopSpeaking(of.index))
            # What was queued of it is dropped with its work.
            of.written = of.frames
        of.ended = of.failed = True
        of.kept, of.waiting = [], []
        self._emit(sp.Complained(error, of.index))

    # Utterances.

    @property
    def _open(self) -> _Utterance | None:
        """The one that text is for, if it has begun."""
        last = self._utterances[-1] if self._utterances else None
        return None if last is None or last.flushed else last

    def _begin(self) -> _Utterance:
        assert len(self._utterances) < UTTERANCES, "there is no room"
        begun = _Utterance(self._next_index, self.settings)
        self._next_index += 1
        self._utterances.append(begun)
        return begun

    def _advance(self, now: float) -> None:
        """Finish what is over, and begin to speak what is next."""
        while self._utterances and self._utterances[0].over:
            self._finish(self._utterances.popleft())
            self._heard_at = now
        if self._utterances:
            first = self._utterances[0]
            if first.pronounced and not (first.opened or first.abandoned):
                self._moved_at = now
                self._start(first)
        elif self._closing:
            self._close(DONE, "")

    def _start(self, first: _Utterance) -> None:
        first.opened = True
        self._emit(sp.StartSpeaking(first.index, first.settings))
        self._emit(sp.HandText(first.index, "".join(first.waiting)))
        first.waiting = []
        if first.flushed:
            self._emit(sp.EndText(first.index))

    def _finish(self, over: _Utterance) -> None:
        if over.abandoned:
            self._tell_cancelled(over)
            return
        if over.started:
            self._emit(
                sp.AudioDone(over.index, over.sent_bytes, over.sent_ms, over.failed, over.truncated)
            )
        status = sp.Status.FAILED if over.failed else sp.Status.COMPLETED
        self._emit(sp.UtteranceDone(over.index, int(over.started), status))

    def _drop(self, dropped: list[_Utterance]) -> None:
        """End utterances as cancelled; nothing of any follows the first word of it."""
        for each in dropped:
            if each.opened:
                self._emit(sp.StopSpeaking(each.index))
            self._utterances.remove(each)
        for each in dropped:
            self._tell_cancelled(each)

    def _tell_cancelled(self, of: _Utterance) -> None:
        self._emit(sp.Cancelled(of.index))
        self._emit(sp.UtteranceDone(of.index, int(of.started), sp.Status.CANCELLED))

    def _stop_all(self) -> None:
        if self._utterances:
            self._drop(list(self._utterances))

    def _close(self, code: int, reason: str) -> None:
        self._closed = True
        self._emit(sp.CloseConnection(code, reason))

    def _emit(self, effect: sp.Effect) -> None:
        self._effects.append(effect)


def _stopped() -> ErrorInfo:
    message = "The speech ended before its text did."
    return ErrorInfo("stage_stopped", message, type="server_error", retry_after_ms=1000)
