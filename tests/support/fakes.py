"""A pipeline that plays scripts, and a socket in memory: both ends of a connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np

from antiphon.engines.chunks import (
    End,
    EndReason,
    PcmChunk,
    Segment,
    SpeechFrames,
    SpokenWords,
    StageError,
    TextDelta,
    Timings,
    Transcript,
    TranscriptDelta,
    Usage,
    Word,
)
from antiphon.engines.pipeline import (
    Hearing,
    ListenRequest,
    NewVoice,
    Readiness,
    Recognition,
    RecognizeRequest,
    Reply,
    ReplyChunk,
    ReplyRequest,
    SpeakRequest,
    Speech,
    TranscribeRequest,
    Transcription,
    VoiceCard,
    VoiceSource,
)
from antiphon.engines.stage import StageFailure
from antiphon.engines.streams import Inbox, TaskStream
from antiphon.realtime.binary import unpack
from antiphon.realtime.connection import Disconnected

RATE = 24_000
FRAME_MS = 20
FRAME_BYTES = 2 * RATE * FRAME_MS // 1000

LOUD = b"\x10\x27" * (FRAME_BYTES // 2)
"""20 ms that a fake pipeline takes for speech."""

QUIET = bytes(FRAME_BYTES)

SAID_MS = 200
"""Audio of each word of a text to be spoken."""

BROKEN = StageError("broken", "The part is broken.")

Made: TypeAlias = ReplyChunk | TranscriptDelta | Transcript | Segment | End
Step: TypeAlias = float | asyncio.Event | Callable[[], None] | Made
"""A pause in seconds, something to wait for, to call, or to yield."""

Request: TypeAlias = (
    ListenRequest | RecognizeRequest | ReplyRequest | SpeakRequest | TranscribeRequest
)

InT = TypeVar("InT")
OutT = TypeVar("OutT")
Json = dict[str, Any]


def tone(ms: float, value: int = 1000) -> bytes:
    """Return audio of one sample value."""
    return np.full(round(ms * RATE / 1000), value, "<i2").tobytes()


def spoken(
    text: str, ms_a_word: int = 200, *, chunk_ms: int = 100, value: int = 1000
) -> tuple[Step, ...]:
    """Return the steps of a reply that says ``text``, all of it at once."""
    words = text.split()
    total_ms = ms_a_word * len(words)
    times = (
        Word(word, number * ms_a_word, (number + 1) * ms_a_word)
        for number, word in enumerate(words)
    )
    return (
        TextDelta(text, len(words)),
        Timings(0.0, 0.0, 0.0, 0.0, 0.0),
        SpokenWords(tuple(times)),
        *(PcmChunk(tone(chunk_ms, value), RATE) for _ in range(total_ms // chunk_ms)),
        End(EndReason.COMPLETED, usage=Usage(input_tokens=7, output_tokens=len(words))),
    )


def loudness(sample: int) -> float:
    """Take anything but silence for speech."""
    return 1.0 if sample else 0.0


class FakeReply(TaskStream[None, ReplyChunk]):
    """A reply that plays its steps, whatever it is told of its playback."""

    def __init__(
        self,
        name: str,
        steps: Sequence[Step],
        playback: list[tuple[str, float, float]],
        on_done: Callable[[End], None],
    ) -> None:
        super().__init__(f"fake {name}", lambda inbox: _played(steps), on_done=on_done)
        self._id = name
        self._playback = playback

    def played(self, played_ms: float, until_ms: float) -> None:
        self._playback.append((self._id, played_ms, until_ms))


class FakeSpeech(TaskStream[str, SpokenWords | PcmChunk]):
    """Speech that plays its steps, or says each word as soon as it comes."""

    def __init__(
        self,
        name: str,
        work: Callable[[Inbox[str]], AsyncGenerator[Any, None]],
        playback: list[tuple[str, float, float]],
        on_done: Callable[[End], None],
    ) -> None:
        super().__init__(f"fake {name}", work, on_done=on_done)
        self._id = name
        self._playback = playback

    def played(self, played_ms: float, until_ms: float) -> None:
        self._playback.append((self._id, played_ms, until_ms))


class FakePipeline:
    """Answers with scripts, hears given lines, and tells speech by a frame's first sample.

    A script is used once; the last of each list is used again and again. Text to be spoken is
    said a word at a time, :data:`SAID_MS` each, where there is no script for it.
    """

    def __init__(
        self,
        *,
        replies: Sequence[Sequence[Step]] = (spoken("hello there"),),
        heard: Sequence[Sequence[Step]] = ((Transcript("hi", 500),),),
        speeches: Sequence[Sequence[Step]] = (),
        recordings: Sequence[Sequence[Step]] = ((Segment(text=" Hi.", start_ms=0, end_ms=500),),),
        probability: Callable[[int], float] = loudness,
        voices: tuple[str, ...] = ("ada", "bob"),
        ready: bool = True,
    ) -> None:
        self.model = "fake"
        self.voices = voices
        self.voice_source: VoiceSource = "files"
        self.added: list[NewVoice] = []
        """Voices that were added and not removed."""

        self.sees = False
        self.probability = probability
        self.refused: dict[str, StageError] = {}
        """Error to raise instead of opening a ``listen``, ``recognize``, ``reply``, ``speak``
        or ``transcribe``, or of ``add_voice`` or ``remove_voice``."""

        self.listening_breaks_after: deque[int] = deque()
        """For each voice activity stream, how many chunks it survives."""

        self.listening_end = End(EndReason.FAILED, BROKEN)
        """How a stream ends that does not survive."""

        self.listening_gate = asyncio.Event()
        """While cleared, voice activity takes nothing in."""
        self.listening_gate.set()

        self.start_failure: Exception | None = None
        self.requests: list[Request] = []
        self.audio_heard: list[bytes] = []
        """What each recognition was given."""

        self.recorded: list[PcmChunk] = []
        """What transcriptions of recordings were given, one after another."""

        self.text_said: list[str] = []
        """What each speech was given so far."""

        self.expected = 0
        """How often the end of a turn was announced."""

        self.playback: list[tuple[str, float, float]] = []
        """What replies were told of their playback: id, ms heard, ms up to where it goes on."""

        self.open_streams = 0
        self.closed = False
        self._none_open = asyncio.Event()
        self._none_open.set()
        self._replies = deque(replies)
        self._heard = deque(heard)
        self._speeches = deque(speeches)
        self._recordings = deque(recordings)
        self._state = "ready" if ready else "starting"

    @property
    def voice_cards(self) -> tuple[VoiceCard, ...]:
        added = [each.name for each in self.added]
        return tuple(
            VoiceCard(
                name=name,
                language="en",
                created_at=1 if name in added else None,
                source=self.voice_source if name in added else "files",
                consent_at=1 if name in added and self.voice_source == "recording" else None,
            )
            for name in self.voices
        )

    async def add_voice(self, new: NewVoice) -> tuple[VoiceCard, ...]:
        self._refuse("add_voice")
        if new.name in self.voices:
            raise StageFailure(StageError("voice_exists", "expected another name"))
        self.added.append(new)
        self.voices = (*self.voices, new.name)
        return self.voice_cards[-1:]

    async def remove_voice(self, name: str) -> None:
        self._refuse("remove_voice")
        if name not in self.voices:
            raise StageFailure(StageError("voice_unknown", "expected another voice"))
        if name not in [each.name for each in self.added]:
            raise StageFailure(StageError("voice_fixed", "expected a voice that was added"))
        self.added = [each for each in self.added if each.name != name]
        self.voices = tuple(each for each in self.voices if each != name)

    @property
    def readiness(self) -> Readiness:
        return Readiness({"fake": self._state})

    async def start(self) -> None:
        if self.start_failure is not None:
            raise self.start_failure

    async def close(self) -> None:
        self.closed = True

    def listen(self, request: ListenRequest) -> Hearing:
        self._note("listen", request)
        left = self.listening_breaks_after.popleft() if self.listening_breaks_after else None
        return self._stream(request.request_id, lambda inbox: self._scores(inbox, left))

    def recognize(self, request: RecognizeRequest) -> Recognition:
        self._note("recognize", request)
        steps = _next(self._heard)
        return self._stream(request.request_id, lambda inbox: self._recognized(inbox, steps))

    def expect(self) -> None:
        self.expected += 1

    def reply(self, request: ReplyRequest) -> Reply:
        self._note("reply", request)
        steps = _next(self._replies)
        self._opened()
        return FakeReply(request.request_id, steps, self.playback, self._gone)

    def speak(self, request: SpeakRequest) -> Speech:
        if request.voice not in (None, *self.voices):
            raise StageFailure(StageError("voice_unknown", "expected another voice"))
        self._note("speak", request)
        steps = _next(self._speeches) if self._speeches else None
        number = len(self.text_said)
        self.text_said.append("")
        self._opened()
        return FakeSpeech(
            request.request_id,
            lambda inbox: self._said(inbox, number, steps),
            self.playback,
            self._gone,
        )

    def transcribe(self, request: TranscribeRequest) -> Transcription:
        self._note("transcribe", request)
        steps = _next(self._recordings)
        return self._stream(request.request_id, lambda inbox: self._transcribed(inbox, steps))

    def statistics(self) -> Mapping[str, Mapping[str, float]]:
        return {"fake": {"open": self.open_streams}}

    def of(self, kind: type[OutT]) -> list[OutT]:
        """Return the requests of a kind, in order."""
        return [request for request in self.requests if isinstance(request, kind)]

    async def all_streams_gone(self) -> None:
        """Return once no stream is open."""
        async with asyncio.timeout(30):
            await self._none_open.wait()

    def _note(self, name: str, request: Request) -> None:
        self._refuse(name)
        self.requests.append(request)

    def _refuse(self, name: str) -> None:
        if (error := self.refused.get(name)) is not None:
            raise StageFailure(error)

    def _stream(
        self, name: str, work: Callable[[Inbox[InT]], AsyncGenerator[OutT | End, None]]
    ) -> TaskStream[InT, OutT]:
        self._opened()
        return TaskStream(f"fake {name}", work, on_done=self._gone)

    def _opened(self) -> None:
        self.open_streams += 1
        self._none_open.clear()

    def _gone(self, _end: End) -> None:
        self.open_streams -= 1
        if not self.open_streams:
            self._none_open.set()

    async def _scores(
        self, inbox: Inbox[PcmChunk], left: int | None
    ) -> AsyncGenerator[SpeechFrames | End, None]:
        pending = b""
        async for chunk in inbox:
            await self.listening_gate.wait()
            if left is not None and (left := left - 1) < 0:
                yield self.listening_end
                return
            pending += chunk.pcm
            whole = len(pending) - len(pending) % FRAME_BYTES
            samples = np.frombuffer(pending[:whole], "<i2")[:: FRAME_BYTES // 2]
            pending = pending[whole:]
            if whole:
                yield SpeechFrames(tuple(self.probability(int(s)) for s in samples), FRAME_MS)

    async def _said(
        self, inbox: Inbox[str], number: int, steps: Sequence[Step] | None
    ) -> AsyncGenerator[Any, None]:
        at_ms = 0
        async for piece in inbox:
            self.text_said[number] += piece
            for word in piece.split() if steps is None else ():
                yield SpokenWords((Word(word, at_ms, at_ms + SAID_MS),))
                yield PcmChunk(tone(SAID_MS), RATE)
                at_ms += SAID_MS
        async for made in _played(steps or ()):
            yield made

    async def _transcribed(
        self, inbox: Inbox[PcmChunk], steps: Sequence[Step]
    ) -> AsyncGenerator[Segment | End, None]:
        """One step for each chunk; what is left at the end."""
        left = deque(steps)
        async for chunk in inbox:
            self.recorded.append(chunk)
            async for made in _played([left.popleft()] if left else []):
                yield made
        async for made in _played(left):
            yield made

    async def _recognized(
        self, inbox: Inbox[PcmChunk], steps: Sequence[Step]
    ) -> AsyncGenerator[TranscriptDelta | Transcript | End, None]:
        self.audio_heard.append(b"".join([chunk.pcm async for chunk in inbox]))
        async for made in _played(steps):
            yield made


def _next(scripts: deque[Sequence[Step]]) -> Sequence[Step]:
    return scripts.popleft() if len(scripts) > 1 else scripts[0]


async def _played(steps: Iterable[Step]) -> AsyncGenerator[Any, None]:
    for step in steps:
        if isinstance(step, asyncio.Event):
            await step.wait()
        elif isinstance(step, (int, float)):
            await asyncio.sleep(step)
        elif callable(step):
            step()
        else:
            yield step


@dataclass(frozen=True)
class Sent:
    """A frame that was written, and when; a binary one is told as an event of type ``binary``."""

    at: float
    data: str | bytes
    event: Json


def _binary(data: bytes) -> Json:
    frame = unpack(data)
    members = {name: getattr(frame, name) for name in frame.__slots__}
    return {"type": "binary", **members}


class FakeSocket:
    """The client's end and the server's end of one connection."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.closed: tuple[int, str] | None = None
        self.send_error: Exception | None = None
        """Raised by the next write."""

        self.close_hangs = False
        self.stalls_at: str | None = None
        """The type of the first event behind which nothing more is read."""

        self._incoming: asyncio.Queue[str | bytes | None] = asyncio.Queue()
        self._writable = asyncio.Event()
        self._writable.set()
        self._changed = asyncio.Condition()
        self._gone = False

    # The server's end.

    async def receive(self) -> str | bytes:
        message = await self._incoming.get()
        if message is None:
            raise Disconnected
        return message

    async def send(self, data: str | bytes) -> None:
        await self._writable.wait()
        if self.send_error is not None:
            raise self.send_error
        if self._gone:
            raise Disconnected
        event = msgspec.json.decode(data, type=Json) if isinstance(data, str) else _binary(data)
        self.sent.append(Sent(asyncio.get_running_loop().time(), data, event))
        if self.stalls_at == event["type"]:
            self.stalls_at = None
            self.stall()
        async with self._changed:
            self._changed.notify_all()

    async def close(self, code: int, reason: str) -> None:
        if self.close_hangs:
            await asyncio.Event().wait()
        if self._gone:
            raise Disconnected
        self.closed = (code, reason)

    # The client's end.

    def put(self, kind: str, **members: object) -> None:
        """Send an event."""
        self.put_raw(msgspec.json.encode({"type": kind, **members}).decode())

    def put_raw(self, message: str | bytes) -> None:
        """Send a text or a binary frame."""
        self._incoming.put_nowait(message)

    def append(self, pcm: bytes) -> None:
        """Send audio."""
        self.put("input_audio_buffer.append", audio=pcm)

    def vanish(self) -> None:
        """Be gone: nothing more can be read or written."""
        self._gone = True
        self._incoming.put_nowait(None)
        self._writable.set()

    def stall(self) -> None:
        """Read nothing more."""
        self._writable.clear()

    def resume(self) -> None:
        """Read again."""
        self._writable.set()

    @property
    def unread(self) -> int:
        """How many messages the server has not taken."""
        return self._incoming.qsize()

    @property
    def events(self) -> list[Json]:
        return [sent.event for sent in self.sent]

    def of(self, kind: str) -> list[Json]:
        """Return the events of a type, in order."""
        return [event for event in self.events if event["type"] == kind]

    @property
    def kinds(self) -> list[str]:
        """The types of all events, in order."""
        return [event["type"] for event in self.events]

    async def wait_for(self, kind: str, count: int = 1) -> Json:
        """Return the ``count``-th event of a type once it was written."""
        async with asyncio.timeout(30), self._changed:
            while len(found := self.of(kind)) < count:
                await self._changed.wait()
        return found[count - 1]
