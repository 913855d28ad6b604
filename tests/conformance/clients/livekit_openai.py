"""The ``livekit-plugins-openai`` package: a ``RealtimeModel`` session, without a room."""

# The package lies in an environment of its own, where no checker looks.
# mypy: disable-error-code="import-not-found,untyped-decorator"
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import time
from typing import Any

from livekit import rtc
from livekit.agents import llm
from livekit.plugins.openai.realtime import RealtimeModel

from .harness import (
    BYTES_PER_MS,
    HEARD_MS,
    INSTRUCTIONS,
    LONG_QUESTION,
    RATE,
    TOOL_DESCRIPTION,
    TOOL_NAME,
    TOOL_QUESTION,
    WEATHER,
    WRITTEN_QUESTION,
    Arrivals,
    Job,
    Microphone,
    Report,
    check,
    read_speech,
    run,
)


@llm.function_tool(name=TOOL_NAME, description=TOOL_DESCRIPTION)
async def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    return WEATHER if city else "unknown"


class Reply:
    """A reply as the session gives it: pieces of audio and text, and calls."""

    def __init__(self) -> None:
        self.message_id = ""
        self.audio_ms = 0.0
        self.text = ""
        self.calls: list[llm.FunctionCall] = []
        self.heard = asyncio.Event()
        """So much sounded that it may be spoken over."""

    async def read(self, generation: llm.GenerationCreatedEvent) -> Reply:
        """Take all of it."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read_messages(generation))
            tasks.create_task(self._read_calls(generation))
        return self

    async def _read_messages(self, generation: llm.GenerationCreatedEvent) -> None:
        async for message in generation.message_stream:
            self.message_id = message.message_id
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read_audio(message))
                tasks.create_task(self._read_text(message))
            check(await message.modalities == ["audio", "text"], await message.modalities)

    async def _read_audio(self, message: llm.MessageGeneration) -> None:
        async for frame in message.audio_stream:
            self.audio_ms += len(frame.data) * 2 / BYTES_PER_MS
            if self.audio_ms >= HEARD_MS:
                self.heard.set()

    async def _read_text(self, message: llm.MessageGeneration) -> None:
        async for piece in message.text_stream:
            self.text += piece

    async def _read_calls(self, generation: llm.GenerationCreatedEvent) -> None:
        async for call in generation.function_stream:
            self.calls.append(call)


class Conversation:
    """One conversation of a session."""

    def __init__(self, session: Any, job: Job, report: Report) -> None:
        self._session = session
        self._job = job
        self._report = report
        self._raw = Arrivals()
        """Server events as they came."""

        self._events = Arrivals()
        """Pairs of a name and an event of the session."""

        self._microphone = Microphone(self._push)
        session.on("openai_server_event_received", self._raw.add)
        for name in (
            "input_speech_started",
            "input_audio_transcription_completed",
            "generation_created",
        ):
            session.on(name, lambda event, name=name: self._events.add((name, event)))
        session.on("error", lambda event: report.error(f"error event: {event.error!r}"))

    async def hold(self) -> None:
        """Try every feature."""
        try_ = self._report.feature
        await try_("connect", self._connect)
        await try_("configure", self._configure)
        async with self._microphone.open():
            await try_("spoken turn", self._spoken_turn)
            await try_("text turn", self._text_turn)
            await try_("tool call", self._tool_call)
            await try_("interruption", self._interruption)
        await try_("end", self._session.aclose)

    async def _connect(self) -> None:
        await self._server("session.created", 0)

    async def _configure(self) -> None:
        await self._session.update_instructions(INSTRUCTIONS)
        await self._session.update_tools([get_weather])
        await self._raw.first(
            0,
            lambda event: (
                event["type"] == "session.updated"
                and event["session"]["instructions"] == INSTRUCTIONS
                and [tool["name"] for tool in event["session"]["tools"]] == [TOOL_NAME]
            ),
            "update with instructions and tools",
        )

    async def _spoken_turn(self) -> None:
        start = len(self._events.all)
        self._microphone.say(read_speech(self._job.question))
        generation = await self._event("generation_created", start)
        reply = asyncio.create_task(Reply().read(generation))
        with self._report.part("transcription"):
            told = await self._events.first(
                start,
                lambda event: (
                    event[0] == "input_audio_transcription_completed" and event[1].is_final
                ),
                "final transcript",
            )
            wanted = "sky" if self._job.scripted else "france"
            check(wanted in told[1].transcript.lower(), told[1].transcript)
        self._is_spoken(await reply)

    async def _text_turn(self) -> None:
        self._is_spoken(await self._ask(WRITTEN_QUESTION))

    async def _tool_call(self) -> None:
        # The embedded model is too small to call a function by itself.
        named = {"type": "function", "function": {"name": TOOL_NAME}}
        chosen = {} if self._job.scripted else {"tool_choice": named}
        reply = await self._ask(TOOL_QUESTION, **chosen)
        check(len(reply.calls) == 1, f"{len(reply.calls)} calls came")
        (call,) = reply.calls
        output = await llm.execute_function_call(call, llm.ToolContext([get_weather]))
        check(output.fnc_call_out and output.fnc_call_out.output == WEATHER, output)
        context = self._session.chat_ctx.copy()
        check(context.get_by_id(call.id), "the call is not in the conversation")
        context.items.append(output.fnc_call_out)
        await self._session.update_chat_ctx(context)
        self._is_spoken(await self._reply())

    async def _interruption(self) -> None:
        start, raw_start = len(self._events.all), len(self._raw.all)
        context = self._session.chat_ctx.copy()
        context.add_message(role="user", content=LONG_QUESTION)
        await self._session.update_chat_ctx(context)
        generation = await self._session.generate_reply(tool_choice="none")
        reply = Reply()
        reading = asyncio.create_task(reply.read(generation))
        await reply.heard.wait()
        began = time.monotonic() - HEARD_MS / 1000
        self._microphone.say(read_speech(self._job.interjection))
        await self._event("input_speech_started", start)
        self._session.interrupt()
        played = int(min((time.monotonic() - began) * 1000, reply.audio_ms))
        with self._report.part("truncation"):
            self._session.truncate(
                message_id=reply.message_id, modalities=["audio"], audio_end_ms=played
            )
            done = await self._server("conversation.item.truncated", raw_start)
            check(done["item_id"] == reply.message_id, "another item was truncated")
            check(done["audio_end_ms"] == played, f"{done['audio_end_ms']} is not {played}")
        await reading
        ended = await self._raw.first(
            raw_start,
            lambda event: (
                event["type"] == "response.done"
                and event["response"]["id"] == generation.response_id
            ),
            "end of the reply",
        )
        allowed = ("cancelled",) if self._job.scripted else ("cancelled", "completed")
        check(ended["response"]["status"] in allowed, ended["response"]["status"])
        later = await self._events.first(
            start,
            lambda event: (
                event[0] == "generation_created" and event[1].response_id != generation.response_id
            ),
            "next reply",
        )
        # It may take a minute to say.
        reply = Reply()
        reading = asyncio.create_task(reply.read(later[1]))
        await reply.heard.wait()
        self._session.interrupt()
        self._is_spoken(await reading)

    async def _push(self, pcm: bytes) -> None:
        self._session.push_audio(rtc.AudioFrame(pcm, RATE, 1, len(pcm) // 2))

    async def _ask(self, text: str, **options: Any) -> Reply:
        """Add a written message; return the whole reply."""
        context = self._session.chat_ctx.copy()
        context.add_message(role="user", content=text)
        await self._session.update_chat_ctx(context)
        return await self._reply(**options)

    async def _reply(self, **options: Any) -> Reply:
        return await Reply().read(await self._session.generate_reply(**options))

    async def _event(self, name: str, start: int) -> Any:
        return (await self._events.first(start, lambda event: event[0] == name, name))[1]

    async def _server(self, kind: str, start: int) -> dict[str, Any]:
        event: dict[str, Any] = await self._raw.first(
            start, lambda event: event["type"] == kind, kind
        )
        return event

    def _is_spoken(self, reply: Reply) -> None:
        check(reply.audio_ms > 300, f"only {reply.audio_ms:.0f} ms of audio came")
        check(reply.text.strip(), "no transcript came")


async def talk(job: Job, report: Report) -> None:
    """Hold the conversation."""
    async with RealtimeModel(base_url=f"{job.url}/v1", api_key="none", model=job.model) as model:
        await Conversation(model.session(), job, report).hold()


if __name__ == "__main__":
    run(talk)
