"""The ``openai`` package: its Realtime resource, or with ``beta`` the older twin of it."""

from __future__ import annotations

import asyncio
import base64
import sys
import time
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI
from pydantic import BaseModel, ValidationError

from .harness import (
    BYTES_PER_MS,
    HEARD_MS,
    INSTRUCTIONS,
    LONG_QUESTION,
    TOOL_DESCRIPTION,
    TOOL_NAME,
    TOOL_PARAMETERS,
    TOOL_QUESTION,
    WEATHER,
    WRITTEN_QUESTION,
    Arrivals,
    Job,
    Microphone,
    Report,
    check,
    check_done,
    read_speech,
    run,
)

TURNS = {"type": "server_vad", "silence_duration_ms": 500}
TOOL = {
    "type": "function",
    "name": TOOL_NAME,
    "description": TOOL_DESCRIPTION,
    "parameters": TOOL_PARAMETERS,
}
TRANSCRIBED = "conversation.item.input_audio_transcription.completed"

Event = dict[str, Any]


@dataclass(frozen=True)
class Dialect:
    """Where the two differ in what this conversation uses."""

    audio: str
    text: str
    written: Event
    session: Event


GA = Dialect(
    audio="response.output_audio.delta",
    text="response.output_text.delta",
    written={"output_modalities": ["text"]},
    session={
        "type": "realtime",
        "instructions": INSTRUCTIONS,
        "tools": [TOOL],
        "audio": {
            "input": {"turn_detection": TURNS, "transcription": {"model": "whisper-1"}},
            "output": {"voice": "marin"},
        },
    },
)
BETA = Dialect(
    audio="response.audio.delta",
    text="response.text.delta",
    written={"modalities": ["text"]},
    session={
        "modalities": ["text", "audio"],
        "instructions": INSTRUCTIONS,
        "tools": [TOOL],
        "voice": "alloy",
        "turn_detection": TURNS,
        "input_audio_format": "pcm16",
        "output_audio_format": "pcm16",
        "input_audio_transcription": {"model": "whisper-1"},
    },
)


class Conversation:
    """One conversation over a connection of either resource."""

    def __init__(self, connection: Any, dialect: Dialect, job: Job, report: Report) -> None:
        self._connection = connection
        self._dialect = dialect
        self._job = job
        self._report = report
        self._events = Arrivals()
        self._microphone = Microphone(self._append)

    async def hold(self) -> None:
        """Try every feature."""
        try_ = self._report.feature
        await try_("configure", self._configure)
        async with self._microphone.open():
            await try_("spoken turn", self._spoken_turn)
            await try_("text turn", self._text_turn)
            await try_("tool call", self._tool_call)
            await try_("interruption", self._interruption)

    async def receive(self) -> None:
        """Keep events until the connection ends.

        The client itself is lenient, so they are checked against its types.
        """
        while True:
            raw = await self._connection.recv_bytes()
            event = self._connection.parse_event(raw)
            model: BaseModel = event
            try:
                model.model_validate_json(raw)
            except ValidationError as error:
                # The beta types know no models but their makers'.
                wrong = [each for each in error.errors() if each["loc"] != ("session", "model")]
                if wrong:
                    self._report.error(f"{event.type}: {wrong}")
            # A short reply may end before a cancel arrives.
            if event.type == "error" and event.error.code != "response_cancel_not_active":
                self._report.error(f"error event: {event.error.code} {event.error.message}")
            self._events.add(event)

    async def begun(self) -> None:
        """Wait for the session to begin."""
        await self._events.first(0, lambda event: True, "event")
        check(self._events.all[0].type == "session.created", "session.created is not the first")

    async def _configure(self) -> None:
        await self._connection.session.update(session=self._dialect.session)
        updated = (await self._next("session.updated", 0)).session
        check(updated.instructions == INSTRUCTIONS, "the instructions are not echoed")
        check(updated.tools[0].name == TOOL_NAME, "the tools are not echoed")

    async def _spoken_turn(self) -> None:
        start = len(self._events.all)
        self._microphone.say(read_speech(self._job.question))
        item_id = (await self._next("input_audio_buffer.speech_started", start)).item_id
        await self._next("input_audio_buffer.committed", start, item_id=item_id)
        with self._report.part("transcription"):
            told = await self._next(TRANSCRIBED, start, item_id=item_id)
            wanted = "sky" if self._job.scripted else "france"
            check(wanted in told.transcript.lower(), told.transcript)
        await self._answer(start)
        check(self._audio_ms(start) > 300, f"only {self._audio_ms(start):.0f} ms of audio came")

    async def _text_turn(self) -> None:
        start = len(self._events.all)
        await self._write(WRITTEN_QUESTION)
        await self._connection.response.create(response=self._dialect.written)
        await self._answer(start)
        check(self._of(self._dialect.text, start), "no text came")
        check(not self._of(self._dialect.audio, start), "audio came unasked")

    async def _tool_call(self) -> None:
        start = len(self._events.all)
        await self._write(TOOL_QUESTION)
        # The embedded model is too small to call a function by itself.
        named = {"tool_choice": {"type": "function", "name": TOOL_NAME}}
        beta = self._dialect is BETA
        await self._connection.response.create(
            response={} if self._job.scripted else {"tool_choice": TOOL_NAME} if beta else named
        )
        call = await self._next("response.function_call_arguments.done", start)
        deltas = self._of("response.function_call_arguments.delta", start)
        check("".join(each.delta for each in deltas) == call.arguments, "deltas differ")
        response = await self._answer(start)
        (item,) = [each for each in response.output if each.type == "function_call"]
        check((item.name, item.call_id) == (TOOL_NAME, call.call_id), item)

        start = len(self._events.all)
        output = {"type": "function_call_output", "call_id": call.call_id, "output": WEATHER}
        await self._connection.conversation.item.create(item=output)
        free = {} if self._job.scripted else {"tool_choice": "none"}
        await self._connection.response.create(response=free)
        await self._answer(start)
        check(self._audio_ms(start) > 300, "the model did not go on")

    async def _interruption(self) -> None:
        start = len(self._events.all)
        await self._write(LONG_QUESTION)
        await self._connection.response.create(response={"tool_choice": "none"})
        first = await self._next(self._dialect.audio, start)
        began = time.monotonic()
        await self._events.first(
            start, lambda _: self._audio_ms(start) >= HEARD_MS, f"audio of {HEARD_MS} ms"
        )
        self._microphone.say(read_speech(self._job.interjection))
        cut = await self._next("input_audio_buffer.speech_started", start)
        played = int(min((time.monotonic() - began) * 1000, self._audio_ms(start)))
        with self._report.part("truncation"):
            await self._connection.conversation.item.truncate(
                item_id=first.item_id, content_index=0, audio_end_ms=played
            )
            done = await self._next("conversation.item.truncated", start, item_id=first.item_id)
            check(done.audio_end_ms == played, f"{done.audio_end_ms} is not {played}")
        ended = await self._events.first(
            start,
            lambda event: event.type == "response.done" and event.response.id == first.response_id,
            "end of the reply",
        )
        # A short reply of the embedded model may have been made in full by then.
        allowed = ("cancelled",) if self._job.scripted else ("cancelled", "completed")
        check(ended.response.status in allowed, ended.response.status)
        await self._cancelled(self._events.all.index(ended) + 1)
        late = self._of(self._dialect.audio, self._events.all.index(cut))
        check(all(each.response_id != first.response_id for each in late), "old audio came late")

    async def _append(self, pcm: bytes) -> None:
        await self._connection.input_audio_buffer.append(audio=base64.b64encode(pcm).decode())

    async def _write(self, text: str) -> None:
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self._connection.conversation.item.create(item=item)

    async def _next(self, kind: str, start: int, **members: object) -> Any:
        def fits(event: Any) -> bool:
            return event.type == kind and all(
                getattr(event, name) == value for name, value in members.items()
            )

        return await self._events.first(start, fits, kind)

    async def _answer(self, start: int) -> Any:
        """Return the next finished response."""
        response = (await self._next("response.done", start)).response
        check_done(self._job, response.status, response.status_details)
        check(response.usage.total_tokens > 0, "no usage is told")
        return response

    async def _cancelled(self, start: int) -> None:
        """Cancel the next reply once it sounds: it may take a minute to say."""
        await self._next(self._dialect.audio, start)
        await self._connection.response.cancel()
        status = (await self._next("response.done", start)).response.status
        check(status in ("cancelled", "completed"), status)

    def _of(self, kind: str, start: int) -> list[Any]:
        return self._events.since(start, lambda event: event.type == kind)

    def _audio_ms(self, start: int) -> float:
        deltas = self._of(self._dialect.audio, start)
        return sum(len(base64.b64decode(each.delta)) for each in deltas) / BYTES_PER_MS


async def talk(job: Job, report: Report) -> None:
    """Hold the conversation."""
    dialect = BETA if "beta" in sys.argv else GA
    base = f"{job.url}/v1"
    client = AsyncOpenAI(
        base_url=base, websocket_base_url=f"ws{base.removeprefix('http')}", api_key="none"
    )
    resource: Any = client.beta.realtime if dialect is BETA else client.realtime
    manager = resource.connect(model=job.model)
    connection = await manager.enter()
    conversation = Conversation(connection, dialect, job, report)
    receiving = asyncio.create_task(conversation.receive())
    await report.feature("connect", conversation.begun)
    await conversation.hold()
    receiving.cancel()
    await asyncio.gather(receiving, return_exceptions=True)

    async def end() -> None:
        await connection.close()
        check(connection._connection.close_code == 1000, connection._connection.close_code)

    await report.feature("end", end)
    await client.close()


if __name__ == "__main__":
    run(talk)
