"""The unmodified ``openai`` client, with every event it receives checked against its types."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from openai.types.realtime import RealtimeServerEvent
from pydantic import BaseModel, TypeAdapter
from tests.support.server import Server
from tests.support.speech import in_real_time, pieces

Event = dict[str, Any]

EVENT_SECONDS = 20.0
"""Longest wait for the next event."""

_event_types: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)

DOCUMENTED = {".session.object", ".session.id", ".session.expires_at"}
"""Members that the service documents and sends, though the client's types lack them."""

DELTAS = "deltas"

BESIDE = {"rate_limits.updated", "conversation.item.input_audio_transcription.delta"}
"""Kinds that the protocol gives no place among the others."""

REPLY = (
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
    DELTAS,
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
)
"""Order of the events of a spoken response."""

CUT = REPLY[5:]
"""What is still said of a response that is cut off while it sounds."""

WRITTEN = (*REPLY[:5], "response.output_text.done", *REPLY[7:])
"""Order of the events of a written response."""

COMMITTED = (
    "input_audio_buffer.committed",
    "conversation.item.added",
    "conversation.item.done",
)

TURN = ("input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", *COMMITTED)
"""Order of the events of a spoken turn."""

TRANSCRIBED = "conversation.item.input_audio_transcription.completed"


@dataclass
class Talk:
    """One conversation: the client's connection, and all that came over it."""

    connection: AsyncRealtimeConnection
    events: list[Event] = field(default_factory=list[Event])

    async def next(self) -> Event:
        """Return the next event, as JSON."""
        async with asyncio.timeout(EVENT_SECONDS):
            raw = await self.connection.recv_bytes()
        event = msgspec.json.decode(raw, type=Event)
        # The client itself is lenient: it makes objects without looking.
        assert self.connection.parse_event(raw).type == event["type"]
        strange = set(unknown_members(_event_types.validate_json(raw, strict=True))) - DOCUMENTED
        assert not strange, f"{event['type']} has members the protocol lacks: {strange}"
        self.events.append(event)
        return event

    async def until(self, kind: str, **members: object) -> Event:
        """Return the next event of a kind with these members."""
        while True:
            event = await self.next()
            if event["type"] == kind and members.items() <= event.items():
                return event
            assert kind == "error" or event["type"] != "error", event

    async def update(self, **session: Any) -> Event:
        """Change settings; return the session as it then is."""
        await self.connection.session.update(session=cast(Any, {"type": "realtime", **session}))
        updated = await self.until("session.updated")
        return cast(Event, updated["session"])

    async def write(self, text: str) -> None:
        """Add a written message."""
        content = [{"type": "input_text", "text": text}]
        item: Any = {"type": "message", "role": "user", "content": content}
        await self.connection.conversation.item.create(item=item)

    async def ask(self, text: str, **response: Any) -> Event:
        """Add a written message and let it be answered; return the finished response."""
        await self.write(text)
        await self.connection.response.create(response=cast(Any, response))
        done = await self.until("response.done")
        return cast(Event, done["response"])

    async def append(self, audio: bytes) -> None:
        """Send audio in the session's input format."""
        await self.connection.input_audio_buffer.append(audio=base64.b64encode(audio).decode())

    async def push(self, pcm: bytes) -> None:
        """Send audio in pieces of 100 ms, as fast as the socket takes it."""
        for piece in pieces(pcm, 100):
            await self.append(piece)

    async def speak(self, pcm: bytes, encode: Callable[[bytes], bytes] = bytes) -> None:
        """Send 24 kHz PCM as a microphone does, 20 ms at a time."""
        async for piece in in_real_time(pcm):
            await self.append(encode(piece))


@asynccontextmanager
async def talking(server: Server, **session: Any) -> AsyncGenerator[Talk, None]:
    """Open a conversation with the given settings."""
    async with (
        AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x") as client,
        client.realtime.connect(model="gpt-realtime") as connection,
    ):
        talk = Talk(connection)
        assert (await talk.next())["type"] == "session.created"
        if session:
            await talk.update(**session)
        yield talk


def converse(server: Server, check: Callable[[Talk], Awaitable[None]], **session: Any) -> None:
    """Run ``check`` in a conversation of its own."""

    async def main() -> None:
        async with talking(server, **session) as talk:
            await check(talk)

    asyncio.run(main())


def audio_settings(
    turns: dict[str, Any] | None, form: str = "audio/pcm", transcribe: bool = True
) -> Event:
    """Return the ``audio`` member of a session."""
    wire: Event = {"type": form, "rate": 24_000} if form == "audio/pcm" else {"type": form}
    heard: Event = {"format": wire, "turn_detection": turns}
    heard["transcription"] = {"model": "whisper-1"} if transcribe else None
    return {"input": heard, "output": {"format": wire}}


SERVER_VAD: Event = {"type": "server_vad"}


def unknown_members(value: object, at: str = "") -> Iterator[str]:
    """Yield the places of members that the client's types do not have."""
    if isinstance(value, BaseModel):
        for name in value.model_extra or {}:
            yield f"{at}.{name}"
        for name in value.model_fields_set:
            yield from unknown_members(getattr(value, name, None), f"{at}.{name}")
    elif isinstance(value, list):
        for index, each in enumerate(cast(list[object], value)):
            yield from unknown_members(each, f"{at}[{index}]")


def shape(events: Iterable[Event]) -> tuple[str, ...]:
    """Return the kinds of events in order; deltas that follow each other count as one.

    What may come anywhere is left out.
    """
    kinds: list[str] = []
    for event in events:
        if event["type"] in BESIDE:
            continue
        kind = DELTAS if event["type"].endswith(".delta") else str(event["type"])
        if kind != DELTAS or kinds[-1:] != [DELTAS]:
            kinds.append(kind)
    return tuple(kinds)


def of_response(events: Iterable[Event], response_id: str) -> list[Event]:
    """Return the events that name a response."""
    return [
        event
        for event in events
        if event.get("response_id") == response_id
        or event.get("response", {}).get("id") == response_id
    ]


def audio_of(events: Iterable[Event], response_id: str | None = None) -> bytes:
    """Return the audio of a response, or of all."""
    return b"".join(
        base64.b64decode(event["delta"])
        for event in events
        if event["type"] == "response.output_audio.delta"
        and response_id in (None, event["response_id"])
    )


def transcript_of(response: Event) -> str:
    """Return what a finished response says."""
    (item,) = response["output"]
    (part,) = item["content"]
    return str(part["transcript"] if "transcript" in part else part["text"])
