"""What a client gets wrong is answered by name, and the session goes on."""

from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from tests.support.server import Server, wait_quiet
from websockets.exceptions import ConnectionClosedError

from .line import Line, line

pytestmark = [pytest.mark.models, pytest.mark.server]

TURNS = "session.audio.input.turn_detection"
HELLO = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}


def on_a_line(server: Server, check: Callable[[Line], Awaitable[None]]) -> None:
    async def main() -> None:
        async with line(server) as each:
            await check(each)

    asyncio.run(main())


def event(kind: object, **members: object) -> str:
    return msgspec.json.encode({"type": kind, "event_id": "mine", **members}).decode()


def update(**session: object) -> str:
    return event("session.update", session=session)


def listening(**turns: object) -> str:
    return update(audio={"input": {"turn_detection": turns}})


def item(**members: object) -> str:
    return event("conversation.item.create", item={**HELLO, **members})


def audio(count: int) -> str:
    return base64.b64encode(bytes(count)).decode()


NESTED = '{"type":"session.update","session":{"prompt":' + "[" * 50_000 + "]" * 50_000 + "}}"

UNREADABLE = [
    "",
    "{",
    "hello",
    '{"type":"response.create"}{"type":"response.create"}',
    '{"type":"response.cancel","event_id":"\ud800"}'.encode("utf-16", "surrogatepass").decode(
        "latin-1"
    ),
    NESTED,
]


def test_what_is_no_json_is_refused(scripted_server: Server) -> None:
    async def check(each: Line) -> None:
        for message in UNREADABLE:
            await each.say_raw(message)
            error = (await each.hear())["error"]
            assert error["type"] == "invalid_request_error"
            assert error["code"] == "invalid_json", message[:200]
            assert (error["param"], error["event_id"]) == (None, None)
        assert await each.is_answered("Are you there?")

    on_a_line(scripted_server, check)


REFUSED = [
    # No event that we know.
    ("[]", "missing_required_parameter", "type", None),
    ('{"event_id": "mine"}', "missing_required_parameter", "type", "mine"),
    (event("nonsense"), "invalid_value", "type", "mine"),
    (event("session.created"), "invalid_value", "type", "mine"),
    (event(5), "invalid_value", "type", "mine"),
    ('{"type": "response.cancel", "event_id": 5}', "invalid_value", "event_id", None),
    # Audio.
    (event("input_audio_buffer.append"), "missing_required_parameter", "audio", "mine"),
    (event("input_audio_buffer.append", audio="?!"), "invalid_value", "audio", "mine"),
    (event("input_audio_buffer.append", audio="AAA"), "invalid_value", "audio", "mine"),
    (event("input_audio_buffer.append", audio=None), "invalid_value", "audio", "mine"),
    (event("input_audio_buffer.append", audio=audio(3)), "invalid_value", "audio", "mine"),
    (
        event("input_audio_buffer.append", audio=audio(15 << 20 | 2)),
        "invalid_value",
        "audio",
        "mine",
    ),
    (event("input_audio_buffer.commit"), "input_audio_buffer_commit_empty", None, "mine"),
    # Items that there are not, or that can't be.
    (
        event("conversation.item.retrieve", item_id="nobody"),
        "item_retrieve_invalid_item_id",
        "item_id",
        "mine",
    ),
    (
        event("conversation.item.delete", item_id="nobody"),
        "item_delete_invalid_item_id",
        "item_id",
        "mine",
    ),
    (
        event("conversation.item.truncate", item_id="nobody", content_index=0, audio_end_ms=0),
        "item_truncate_invalid_item_id",
        "item_id",
        "mine",
    ),
    (
        event("conversation.item.truncate", item_id="a", content_index="0", audio_end_ms=0),
        "invalid_value",
        "content_index",
        "mine",
    ),
    (
        event("conversation.item.truncate", item_id="a", content_index=0),
        "missing_required_parameter",
        "audio_end_ms",
        "mine",
    ),
    (event("conversation.item.create"), "missing_required_parameter", "item", "mine"),
    (item(type="weather"), "invalid_value", "item.type", "mine"),
    (
        item(type="function_call_output"),
        "missing_required_parameter",
        "item.call_id",
        "mine",
    ),
    (update(tools=["weather"]), "invalid_value", "session.tools[0]", "mine"),
    (item(role="robot"), "invalid_value", "item.role", "mine"),
    (item(content=[]), "invalid_value", "item.content", "mine"),
    (
        item(content=[{"type": "input_text"}]),
        "missing_required_parameter",
        "item.content[0].text",
        "mine",
    ),
    (
        item(content=[{"type": "smell", "text": ""}]),
        "invalid_value",
        "item.content[0].type",
        "mine",
    ),
    (item(id="x" * 65), "invalid_value", "item.id", "mine"),
    (
        event("conversation.item.create", item=HELLO, previous_item_id="nobody"),
        "item_create_invalid_previous_item_id",
        "previous_item_id",
        "mine",
    ),
    # Settings that can't be.
    (update(type="transcription"), "invalid_value", "session.type", "mine"),
    (
        update(output_modalities=["audio", "text"]),
        "invalid_value",
        "session.output_modalities",
        "mine",
    ),
    (update(max_output_tokens=0), "invalid_value", "session.max_output_tokens", "mine"),
    (
        update(audio={"output": {"voice": "nobody"}}),
        "invalid_value",
        "session.audio.output.voice",
        "mine",
    ),
    (update(audio={"output": {"speed": 9}}), "invalid_value", "session.audio.output.speed", "mine"),
    (
        update(audio={"input": {"format": {"type": "audio/pcm", "rate": 8000}}}),
        "invalid_value",
        "session.audio.input.format.rate",
        "mine",
    ),
    (listening(type="semantic_fad"), "invalid_value", f"{TURNS}.type", "mine"),
    (listening(type="server_vad", threshold=2), "invalid_value", f"{TURNS}.threshold", "mine"),
    (
        listening(silence_duration_ms="long"),
        "invalid_value",
        f"{TURNS}.silence_duration_ms",
        "mine",
    ),
    # Responses.
    (event("response.cancel"), "response_cancel_not_active", None, "mine"),
    (
        event("response.create", response={"metadata": {"key": 5}}),
        "invalid_value",
        "response.metadata[...]",
        "mine",
    ),
    (
        event("response.create", response={"max_output_tokens": 5000}),
        "invalid_value",
        "response.max_output_tokens",
        "mine",
    ),
]


def test_what_cannot_be_done_is_refused_by_name(scripted_server: Server) -> None:
    async def check(each: Line) -> None:
        for message, code, param, event_id in REFUSED:
            await each.say_raw(message)
            answer = await each.hear()
            assert answer["type"] == "error", (message[:200], answer)
            error = answer["error"]
            found = (error["type"], error["code"], error["param"], error["event_id"])
            assert found == ("invalid_request_error", code, param, event_id), message[:200]
            assert 10 < len(error["message"]) < 1000
        assert await each.is_answered("Are you there?")

    on_a_line(scripted_server, check)


def test_frames_that_are_not_text_are_refused(scripted_server: Server) -> None:
    async def check(each: Line) -> None:
        await each.say_raw(bytes(960))
        assert (await each.hear())["error"]["code"] == "invalid_value"
        assert await each.is_answered("Are you there?")

    on_a_line(scripted_server, check)


def test_settings_are_changed_wholly_or_not_at_all(scripted_server: Server) -> None:
    async def check(each: Line) -> None:
        wrong = {"instructions": "Be rude.", "audio": {"output": {"voice": "nobody"}}}
        await each.say("session.update", session=wrong)
        assert (await each.hear())["type"] == "error"
        await each.say("session.update", session={})
        assert (await each.hear())["session"]["instructions"] != "Be rude."

    on_a_line(scripted_server, check)


def test_a_second_response_waits_for_its_turn(scripted_server: Server) -> None:
    async def check(each: Line) -> None:
        await each.ask("Tell me a story.")
        created = await each.until("response.created")
        await each.say("response.create", event_id="second")
        error = (await each.until("error"))["error"]
        assert error["code"] == "conversation_already_has_active_response"
        assert error["event_id"] == "second"
        assert created["response"]["id"] in error["message"]
        assert (await each.until("response.done"))["response"]["status"] == "completed"
        assert await each.is_answered("And now?")

    on_a_line(scripted_server, check)


def test_a_message_without_end_closes_only_its_own_connection(scripted_server: Server) -> None:
    async def main() -> None:
        async with line(scripted_server) as other:
            async with line(scripted_server) as each:
                with pytest.raises(ConnectionClosedError) as closed:
                    await say_too_much(each)
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1009
            assert await other.is_answered("Are you there?")

    asyncio.run(main())


async def say_too_much(each: Line) -> None:
    """Send a frame that is refused by its size; the close may come while it is sent."""
    await each.say("input_audio_buffer.append", audio=audio(24 << 20))
    await each.hear()


def test_audio_behind_the_close_frame_harms_nobody(scripted_server: Server) -> None:
    async def main() -> None:
        async with line(scripted_server) as other:
            async with line(scripted_server) as each:
                transport = each.socket.transport
                append = event("input_audio_buffer.append", audio=audio(960)).encode()
                transport.write(client_frame(8, struct.pack("!H", 1000)))
                for _ in range(10):
                    transport.write(client_frame(1, append))
                await asyncio.wait_for(each.socket.wait_closed(), 10)
            assert await other.is_answered("Are you there?")

    asyncio.run(main())
    assert wait_quiet(scripted_server)["open"] == 0


def client_frame(opcode: int, payload: bytes) -> bytes:
    """A whole WebSocket frame of a client, masked with zeros (RFC 6455, 5.2)."""
    size = len(payload)
    length = struct.pack("!B", 0x80 | size) if size < 126 else struct.pack("!BH", 0xFE, size)
    return bytes([0x80 | opcode]) + length + bytes(4) + payload
