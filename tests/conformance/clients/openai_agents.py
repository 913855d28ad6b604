"""The ``openai-agents`` package: ``RealtimeRunner`` with an agent that has a function."""

# The package lies in an environment of its own, where no checker looks.
# mypy: disable-error-code="import-not-found,untyped-decorator"
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents import function_tool
from agents.realtime import (
    RealtimeAgent,
    RealtimeModelSendSessionUpdate,
    RealtimeRunner,
    RealtimeSession,
)

from .harness import (
    BYTES_PER_MS,
    HEARD_MS,
    INSTRUCTIONS,
    LONG_QUESTION,
    TOOL_NAME,
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

SETTINGS: Any = {
    "audio": {
        "input": {
            "transcription": {"model": "whisper-1"},
            "turn_detection": {"type": "semantic_vad", "interrupt_response": True},
        },
        "output": {"voice": "marin"},
    },
}


class Conversation:
    """One conversation of a session."""

    def __init__(self, job: Job, report: Report) -> None:
        self._job = job
        self._report = report
        self._events = Arrivals()
        self._called: list[str] = []
        self._session: RealtimeSession

        @function_tool(name_override=TOOL_NAME)
        async def get_weather(city: str) -> str:
            """Tells the weather of a city."""
            self._called.append(city)
            await self._choose("none")
            return WEATHER

        self._agent: Any = RealtimeAgent(
            name="guide", instructions=INSTRUCTIONS, tools=[get_weather]
        )

    async def hold(self) -> None:
        """Try every feature."""
        try_ = self._report.feature
        runner = RealtimeRunner(self._agent, config={"model_settings": SETTINGS})
        url = f"{self._job.ws_url}?model={self._job.model}"
        self._session = await runner.run(model_config={"url": url, "api_key": "none"})
        await try_("connect", self._connect)
        listening = asyncio.create_task(self._listen())
        await try_("configure", self._configure)
        async with Microphone(self._session.send_audio).open() as microphone:
            self._microphone = microphone
            await try_("spoken turn", self._spoken_turn)
            await try_("text turn", self._text_turn)
            await try_("tool call", self._tool_call)
            await try_("interruption", self._interruption)
        await try_("end", self._end)
        await listening

    async def _listen(self) -> None:
        async for event in self._session:
            if event.type == "error":
                self._report.error(f"error event: {event.error}")
            if event.type == "raw_model_event" and event.data.type == "exception":
                self._report.error(f"exception: {event.data}")
            self._events.add(event)

    async def _connect(self) -> None:
        await self._session.enter()

    async def _configure(self) -> None:
        session = (await self._raw("session.updated", 0))["session"]
        check(session["instructions"] == INSTRUCTIONS, "the instructions are not echoed")
        check(session["tools"][0]["name"] == TOOL_NAME, "the tools are not echoed")

    async def _spoken_turn(self) -> None:
        start = len(self._events.all)
        self._microphone.say(read_speech(self._job.question))
        with self._report.part("transcription"):
            wanted = "sky" if self._job.scripted else "france"
            await self._events.first(
                start, lambda event: wanted in _user_text(event), f"transcript with {wanted!r}"
            )
        await self._answer(start)
        check(self._audio_ms(start) > 300, f"only {self._audio_ms(start):.0f} ms of audio came")

    async def _text_turn(self) -> None:
        start = len(self._events.all)
        await self._session.send_message(WRITTEN_QUESTION)
        await self._answer(start)
        check(self._audio_ms(start) > 300, "no reply sounds")

    async def _tool_call(self) -> None:
        start = len(self._events.all)
        if not self._job.scripted:
            # The embedded model is too small to call a function by itself.
            await self._choose("required")
        await self._session.send_message(TOOL_QUESTION)
        await self._event("tool_start", start)
        ended = await self._event("tool_end", start)
        check((ended.tool.name, ended.output) == (TOOL_NAME, WEATHER), ended)
        check(self._called, "the function did not run")
        # The function may have run before the response of its call was done.
        await self._events.first(
            start,
            lambda event: (
                _raw(event, "response.done")
                and [item["type"] for item in event.data.data["response"]["output"]] == ["message"]
            ),
            "reply to what the function returned",
        )
        check(self._audio_ms(start) > 300, "the model did not go on")

    async def _interruption(self) -> None:
        start = len(self._events.all)
        await self._session.send_message(LONG_QUESTION)
        await self._events.first(
            start, lambda _: self._audio_ms(start) >= HEARD_MS, f"audio of {HEARD_MS} ms"
        )
        item_id = self._of("audio", start)[-1].item_id
        await asyncio.sleep(HEARD_MS / 1000)
        self._microphone.say(read_speech(self._job.interjection))
        interrupted = await self._event("audio_interrupted", start)
        check(interrupted.item_id == item_id, "another item was interrupted")
        with self._report.part("truncation"):
            done = await self._raw("conversation.item.truncated", start)
            check(done["item_id"] == item_id, "another item was truncated")
        cut = self._events.all.index(interrupted)
        ended = await self._raw("response.done", start)
        allowed = ("cancelled",) if self._job.scripted else ("cancelled", "completed")
        check(ended["response"]["status"] in allowed, ended["response"]["status"])
        # The next one may take a minute to say: the end of the connection cuts it off.
        await self._events.first(
            cut, lambda event: event.type == "audio" and event.item_id != item_id, "next reply"
        )
        late = self._of("audio", cut)
        check(all(each.item_id != item_id for each in late), "old audio came late")

    async def _end(self) -> None:
        model: Any = self._session.model
        socket = model._websocket
        await self._session.close()
        check(socket.close_code == 1000, f"closed with {socket.close_code}")

    async def _choose(self, tool_choice: str) -> None:
        settings: Any = {**SETTINGS, "tool_choice": tool_choice, "tools": self._agent.tools}
        settings["instructions"] = INSTRUCTIONS
        await self._session.model.send_event(
            RealtimeModelSendSessionUpdate(session_settings=settings)
        )

    async def _event(self, kind: str, start: int) -> Any:
        return await self._events.first(start, lambda event: event.type == kind, kind)

    async def _raw(self, kind: str, start: int) -> dict[str, Any]:
        event = await self._events.first(start, lambda event: _raw(event, kind), kind)
        raw: dict[str, Any] = event.data.data
        return raw

    async def _answer(self, start: int) -> None:
        """Wait for the next finished response."""
        response = (await self._raw("response.done", start))["response"]
        check_done(self._job, response["status"], response["status_details"])

    def _of(self, kind: str, start: int) -> list[Any]:
        return [
            each.audio if kind == "audio" else each
            for each in self._events.since(start, lambda event: event.type == kind)
        ]

    def _audio_ms(self, start: int) -> float:
        return sum(len(each.data) for each in self._of("audio", start)) / BYTES_PER_MS


def _raw(event: Any, kind: str) -> bool:
    """Whether it holds a server event of a kind."""
    if event.type != "raw_model_event" or event.data.type != "raw_server_event":
        return False
    return bool(event.data.data["type"] == kind)


def _user_text(event: Any) -> str:
    """What the person said, as far as the history of an event has it, in small letters."""
    if event.type not in ("history_updated", "history_added"):
        return ""
    items = event.history if event.type == "history_updated" else [event.item]
    texts = [
        getattr(part, "transcript", None) or ""
        for item in items
        if item.type == "message" and item.role == "user"
        for part in item.content
    ]
    return json.dumps(texts).lower()


async def talk(job: Job, report: Report) -> None:
    """Hold the conversation."""
    await Conversation(job, report).hold()


if __name__ == "__main__":
    run(talk)
