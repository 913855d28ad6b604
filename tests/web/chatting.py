"""Clients of the chat route in memory: a whole application, or the route message by message."""

from __future__ import annotations

import asyncio
import io
import json
import wave
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Message, Scope
from tests.support.fakes import FakePipeline
from tests.support.loop import run_simulated

from antiphon.engines.deployment import parse_deployment
from antiphon.web.app import Server
from antiphon.web.chat import PATH, ChatRoute

from .visitor import Visitor

Json = dict[str, Any]

HELLO: Json = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello?"}]}
ALOUD: Json = {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "pcm16"}}


def visitor(pipeline: FakePipeline, *, instructions: str = "", **limits: int) -> Visitor:
    data = {"model": "fake-model", "instructions": instructions, "limits": limits}
    return Visitor(Server(parse_deployment(data), pipeline).app)


def user(*parts: Json) -> Json:
    """A request whose one message has these parts."""
    return {**HELLO, "messages": [{"role": "user", "content": list(parts)}]}


def wav(seconds: float = 1.0, rate: int = 16_000) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(b"\x10\x00" * round(seconds * rate))
    return out.getvalue()


def said(file: bytes, form: str = "wav") -> Json:
    """A part with a recording."""
    return {
        "type": "input_audio",
        "input_audio": {"data": b64encode(file).decode(), "format": form},
    }


def events(text: str) -> list[Json]:
    """The chunks of a stream that has come to its end."""
    *lines, done = [part for part in text.split("\n\n") if part]
    assert done == "data: [DONE]"
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line[6:]) for line in lines]


def deltas(chunks: list[Json]) -> list[Json]:
    return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]


class Client:
    """A client of the route, who may leave or stop reading."""

    def __init__(self, pipeline: FakePipeline, **limits: int) -> None:
        deployment = parse_deployment({"limits": limits})
        self.route = ChatRoute(pipeline, deployment)
        self.sent: list[Message] = []
        self.leaves = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self.body_stops = False
        """Whether only the first byte of the body ever comes."""

        self._asked = False
        self._changed = asyncio.Condition()

    async def ask(self, **asked: object) -> None:
        self._body = json.dumps({**HELLO, **asked}).encode()
        self._asked = False
        scope: Scope = {"type": "http", "method": "POST", "path": PATH, "headers": []}
        await self.route(scope, self._receive, self._send)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None

    @property
    def text(self) -> str:
        return b"".join(each["body"] for each in self.sent[1:]).decode()

    @property
    def told(self) -> list[Json]:
        """What was sent as events, ``[DONE]`` left out."""
        lines = [part[6:] for part in self.text.split("\n\n") if part]
        return [json.loads(line) for line in lines if line != "[DONE]"]

    @property
    def complete(self) -> bool:
        return bool(self.sent) and not self.sent[-1].get("more_body", True)

    async def got(self, is_so: Callable[[], bool]) -> None:
        """Return once what was sent is so."""
        async with self._changed:
            await self._changed.wait_for(is_so)

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            if self.body_stops:
                return {"type": "http.request", "body": self._body[:1], "more_body": True}
            return {"type": "http.request", "body": self._body}
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await self.reads.wait()
        if self.leaves.is_set():
            raise OSError
        self.sent.append(message)
        async with self._changed:
            self._changed.notify_all()


def with_client(
    pipeline: Callable[[], FakePipeline],
    scenario: Callable[[Client], Awaitable[None]],
    **limits: int,
) -> None:
    """Afterwards no task and no stream may be left."""

    async def main() -> None:
        fake = pipeline()
        async with asyncio.timeout(3600):
            await scenario(Client(fake, **limits))
            await fake.all_streams_gone()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_simulated(main())
