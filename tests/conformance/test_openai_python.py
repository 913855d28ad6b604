"""The stock Python client of the Realtime protocol, against a whole server."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable

import pytest
from openai import AsyncOpenAI
from tests.conftest import SCRIPTED_LINE, SCRIPTED_QUESTION
from tests.support.server import Server
from tests.support.speech import BYTES_PER_MS, Ear, Speaker, silence, word_error_rate

from antiphon.codecs import g711
from antiphon.codecs.resample import StreamResampler

from .talk import (
    COMMITTED,
    CUT,
    REPLY,
    SERVER_VAD,
    TRANSCRIBED,
    TURN,
    WRITTEN,
    Event,
    Talk,
    audio_of,
    audio_settings,
    converse,
    of_response,
    shape,
    transcript_of,
)

pytestmark = [pytest.mark.models, pytest.mark.server]

QUESTION = "What is the capital of France?"
PUSH_TO_TALK = {"audio": audio_settings(None)}
HANDS_FREE = {"audio": audio_settings(SERVER_VAD)}
PAUSE = silence(1200)
"""More than enough silence to end a turn."""


def test_models_are_listed(scripted_server: Server) -> None:
    async def main() -> None:
        async with AsyncOpenAI(base_url=f"{scripted_server.url}/v1", api_key="x") as client:
            names = [model.id async for model in client.models.list()]
            # Then those that make pictures and clips.
            assert names[0] == "antiphon-scripted"
            assert (await client.models.retrieve(names[0])).object == "model"

    asyncio.run(main())


def test_a_session_begins_and_every_update_is_echoed_whole(scripted_server: Server) -> None:
    async def check(talk: Talk) -> None:
        created = talk.events[0]["session"]
        assert created["type"] == "realtime"
        assert created["output_modalities"] == ["audio"]
        turns = created["audio"]["input"]["turn_detection"]
        assert (turns["type"], turns["silence_duration_ms"]) == ("server_vad", 500)

        turns = {"type": "server_vad", "silence_duration_ms": 800}
        changed = await talk.update(
            instructions="Be brief.", audio={"input": {"turn_detection": turns}}
        )
        assert changed["instructions"] == "Be brief."
        assert changed["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 800
        assert changed["audio"]["input"]["turn_detection"]["threshold"] == 0.5
        assert changed.keys() == created.keys()
        # Stock clients send these unasked; none may be an error.
        again = await talk.update(
            model="gpt-realtime", tracing=None, tools=[], audio={"output": {"voice": "alloy"}}
        )
        assert again["model"] == "antiphon-scripted"
        assert again["audio"]["output"]["voice"] == "alloy"
        assert (await talk.update())["audio"] == again["audio"]

    converse(scripted_server, check)


def test_a_written_turn_is_answered_aloud(scripted_server: Server, ear: Ear) -> None:
    async def check(talk: Talk) -> None:
        response = await talk.ask("Why is the sky blue?", metadata={"turn": "one"})
        events = talk.events[2:]
        assert shape(events) == ("conversation.item.added", "conversation.item.done", *REPLY)
        assert response["status"] == "completed"
        assert response["metadata"] == {"turn": "one"}
        assert response["usage"]["output_tokens"] > 0
        assert transcript_of(response) == SCRIPTED_LINE.strip()
        check_deltas(events)
        user, reply = (e for e in events if e["type"] == "conversation.item.added")
        assert user["previous_item_id"] is None
        assert reply["previous_item_id"] == user["item"]["id"]

    heard: list[str] = []

    async def listen(talk: Talk) -> None:
        await check(talk)
        heard.append(await asyncio.to_thread(ear.hear, audio_of(talk.events)))

    converse(scripted_server, listen, **PUSH_TO_TALK)
    assert word_error_rate(SCRIPTED_LINE, heard[0]) <= 0.1


def check_deltas(events: list[Event]) -> None:
    """The pieces of a reply name the same part, and add up to the whole."""
    deltas = [event for event in events if event["type"].endswith(".delta")]
    places = {tuple(event[name] for name in ("response_id", "item_id")) for event in deltas}
    assert len(places) == 1
    assert {(event["output_index"], event["content_index"]) for event in deltas} == {(0, 0)}
    for kind, whole in (
        ("response.output_audio_transcript", "transcript"),
        ("response.output_text", "text"),
    ):
        pieces = "".join(event["delta"] for event in deltas if event["type"] == f"{kind}.delta")
        for done in (event for event in events if event["type"] == f"{kind}.done"):
            assert done[whole] == pieces.strip()
    sizes = [len(event["delta"]) for event in deltas if event["type"].endswith("audio.delta")]
    assert max(sizes, default=0) <= 32_000


def test_text_can_be_asked_for_instead_of_speech(scripted_server: Server) -> None:
    async def check(talk: Talk) -> None:
        response = await talk.ask("Why is the sky blue?", output_modalities=["text"])
        assert shape(talk.events[2:]) == (
            "conversation.item.added",
            "conversation.item.done",
            *WRITTEN,
        )
        assert response["output"][0]["content"][0]["type"] == "output_text"
        assert transcript_of(response) == SCRIPTED_LINE.strip()
        check_deltas(talk.events[2:])

    converse(scripted_server, check, **PUSH_TO_TALK)


def test_push_to_talk(scripted_server: Server, speaker: Speaker, ear: Ear) -> None:
    said = speaker.say(QUESTION)
    kept: list[bytes] = []

    async def check(talk: Talk) -> None:
        await talk.connection.input_audio_buffer.clear()
        await talk.until("input_audio_buffer.cleared")
        await talk.push(said.pcm)
        await talk.connection.input_audio_buffer.commit()
        committed = await talk.until("input_audio_buffer.committed")
        await talk.until("conversation.item.done")
        assert shape(talk.events[3:]) == COMMITTED
        await talk.connection.response.create()
        done = await talk.until("response.done")
        answered = [event for event in talk.events[6:] if event["type"] != TRANSCRIBED]
        assert shape(answered) == REPLY
        assert done["response"]["status"] == "completed"
        (heard,) = (event for event in talk.events if event["type"] == TRANSCRIBED)
        assert (heard["item_id"], heard["transcript"]) == (committed["item_id"], SCRIPTED_QUESTION)
        await talk.connection.conversation.item.retrieve(item_id=committed["item_id"])
        item = (await talk.until("conversation.item.retrieved"))["item"]
        kept.append(base64.b64decode(item["content"][0]["audio"]))

    converse(scripted_server, check, **PUSH_TO_TALK)
    assert kept == [said.pcm]
    assert word_error_rate(QUESTION, ear.hear(kept[0])) == 0


def test_hands_free(scripted_server: Server, speaker: Speaker, ear: Ear) -> None:
    said = speaker.say(QUESTION)
    kept: list[bytes] = []

    async def check(talk: Talk) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(talk.speak(silence(600) + said.pcm + PAUSE))
            done = await talk.until("response.done")
        events = [event for event in talk.events[2:] if event["type"] != TRANSCRIBED]
        assert shape(events) == (*TURN, *REPLY)
        assert done["response"]["status"] == "completed"
        started, stopped, committed, added = events[:4]
        item_ids = {event["item_id"] for event in (started, stopped, committed)}
        assert item_ids == {added["item"]["id"]}
        assert added["item"]["content"] == [{"type": "input_audio", "transcript": None}]
        # The prefix padding is part of the turn, so it begins before the voice does.
        assert 200 <= started["audio_start_ms"] <= 700
        assert 600 + said.ms <= stopped["audio_end_ms"] <= 600 + said.ms + 700
        (heard,) = (event for event in talk.events if event["type"] == TRANSCRIBED)
        assert heard["transcript"] == SCRIPTED_QUESTION
        assert talk.events.index(heard) > talk.events.index(added)
        await talk.connection.conversation.item.retrieve(item_id=started["item_id"])
        item = (await talk.until("conversation.item.retrieved"))["item"]
        pcm = base64.b64decode(item["content"][0]["audio"])
        assert len(pcm) / BYTES_PER_MS == stopped["audio_end_ms"] - started["audio_start_ms"]
        kept.append(pcm)

    converse(scripted_server, check, **HANDS_FREE)
    assert word_error_rate(QUESTION, ear.hear(kept[0])) == 0


def test_speech_cuts_a_reply_off(scripted_server: Server, speaker: Speaker) -> None:
    said = speaker.say(QUESTION)

    async def check(talk: Talk) -> None:
        await talk.write("Why is the sky blue?")
        await talk.connection.response.create()
        first = await talk.until("response.output_audio.delta")
        old, item_id = first["response_id"], first["item_id"]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(talk.speak(said.pcm + PAUSE))
            cut = await talk.until("response.done")
            played_ms = len(audio_of(talk.events, old)) // BYTES_PER_MS // 2
            await talk.connection.conversation.item.truncate(
                item_id=item_id, content_index=0, audio_end_ms=played_ms
            )
            truncated = await talk.until("conversation.item.truncated")
            again = await talk.until("response.done")

        assert cut["response"]["id"] == old
        assert cut["response"]["status"] == "cancelled"
        assert cut["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        assert cut["response"]["output"][0]["status"] == "incomplete"
        began = next(i for i, e in enumerate(talk.events) if e["type"] == TURN[0])
        after = talk.events[began + 1 : talk.events.index(cut) + 1]
        assert shape(after) == CUT, "not one more delta of the old reply"
        assert shape(of_response(talk.events, old)) == tuple(
            kind for kind in REPLY if not kind.startswith("conversation.")
        )
        assert (truncated["item_id"], truncated["audio_end_ms"]) == (item_id, played_ms)

        left = {TRANSCRIBED, "conversation.item.truncated"}
        rest = [e for e in talk.events[talk.events.index(cut) + 1 :] if e["type"] not in left]
        assert shape(rest) == (*TURN[1:], *REPLY)
        assert again["response"]["status"] == "completed"
        assert transcript_of(again["response"]) == SCRIPTED_LINE.strip()
        await check_kept(talk, item_id, played_ms)

    converse(scripted_server, check, **HANDS_FREE)


async def check_kept(talk: Talk, item_id: str, ms: int) -> None:
    """Of a truncated item only what was heard is left: sound to the sample, text by words."""
    await talk.connection.conversation.item.retrieve(item_id=item_id)
    item = (await talk.until("conversation.item.retrieved"))["item"]
    (part,) = item["content"]
    assert len(base64.b64decode(part["audio"])) == ms * BYTES_PER_MS
    kept = part["transcript"].split()
    assert kept == SCRIPTED_LINE.split()[: len(kept)]
    assert len(kept) <= ms / 150, "words last about 300 ms"


def test_a_finished_reply_can_be_truncated(scripted_server: Server) -> None:
    async def check(talk: Talk) -> None:
        response = await talk.ask("Why is the sky blue?")
        item_id = response["output"][0]["id"]
        item = talk.connection.conversation.item
        await item.truncate(item_id=item_id, content_index=0, audio_end_ms=2000)
        await talk.until("conversation.item.truncated", item_id=item_id, audio_end_ms=2000)
        await check_kept(talk, item_id, 2000)
        await item.truncate(
            item_id=item_id, content_index=0, audio_end_ms=600_000, event_id="too_far"
        )
        error = (await talk.until("error"))["error"]
        assert (error["code"], error["event_id"]) == ("invalid_value", "too_far")
        assert "is already shorter than 600000ms" in error["message"]

    converse(scripted_server, check, **PUSH_TO_TALK)


def test_a_response_can_be_cancelled(scripted_server: Server) -> None:
    async def check(talk: Talk) -> None:
        await talk.write("Why is the sky blue?")
        await talk.connection.response.create()
        first = await talk.until("response.output_audio.delta")
        await talk.connection.response.cancel(response_id=first["response_id"])
        done = await talk.until("response.done")
        assert done["response"]["status_details"] == {
            "type": "cancelled",
            "reason": "client_cancelled",
        }
        assert done["response"]["usage"]["total_tokens"] >= 0
        assert shape(talk.events[4:]) == REPLY
        await talk.connection.response.cancel(event_id="late")
        error = (await talk.until("error"))["error"]
        assert (error["code"], error["event_id"]) == ("response_cancel_not_active", "late")
        assert (await talk.ask("And again?"))["status"] == "completed"

    converse(scripted_server, check, **PUSH_TO_TALK)


def test_items_are_added_read_and_removed(scripted_server: Server) -> None:
    def message(name: str, text: str) -> Event:
        content = [{"type": "input_text", "text": text}]
        return {"id": name, "type": "message", "role": "user", "content": content}

    async def check(talk: Talk) -> None:
        item = talk.connection.conversation.item
        await item.create(item=message("second", "World"))  # type: ignore[arg-type]
        await talk.until("conversation.item.done", previous_item_id=None)
        await item.create(item=message("first", "Hello"), previous_item_id="root")  # type: ignore[arg-type]
        await talk.until("conversation.item.done", previous_item_id=None)
        await item.create(item=message("third", "!"), previous_item_id="second")  # type: ignore[arg-type]
        added = await talk.until("conversation.item.added")
        assert (added["previous_item_id"], added["item"]["id"]) == ("second", "third")

        await item.retrieve(item_id="first")
        read = (await talk.until("conversation.item.retrieved"))["item"]
        assert read["content"] == [{"type": "input_text", "text": "Hello"}]
        await item.delete(item_id="first")
        await talk.until("conversation.item.deleted", item_id="first")
        await item.retrieve(item_id="first", event_id="gone")
        error = (await talk.until("error"))["error"]
        assert (error["code"], error["event_id"]) == ("item_retrieve_invalid_item_id", "gone")

    converse(scripted_server, check, **PUSH_TO_TALK)


@pytest.mark.parametrize(
    ("form", "encode", "decode"),
    [
        ("audio/pcmu", g711.ulaw_encode, g711.ulaw_decode),
        ("audio/pcma", g711.alaw_encode, g711.alaw_decode),
    ],
)
def test_telephone_audio(
    form: str,
    encode: Callable[[bytes], bytes],
    decode: Callable[[bytes], bytes],
    scripted_server: Server,
    speaker: Speaker,
    ear: Ear,
) -> None:
    said = speaker.say(QUESTION)
    resampler = StreamResampler(24_000, 8_000)
    asked: list[bytes] = []
    answered: list[bytes] = []

    def narrow(pcm: bytes) -> bytes:
        return encode(resampler.feed(pcm))

    async def check(talk: Talk) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(talk.speak(silence(300) + said.pcm + PAUSE, narrow))
            done = await talk.until("response.done")
        assert done["response"]["audio"]["output"]["format"] == {"type": form}
        events = [event for event in talk.events[2:] if event["type"] != TRANSCRIBED]
        assert shape(events) == (*TURN, *REPLY)
        answered.append(decode(audio_of(talk.events)))
        await talk.connection.conversation.item.retrieve(item_id=events[0]["item_id"])
        item = (await talk.until("conversation.item.retrieved"))["item"]
        asked.append(decode(base64.b64decode(item["content"][0]["audio"])))

    converse(scripted_server, check, audio=audio_settings(SERVER_VAD, form))
    assert word_error_rate(QUESTION, ear.hear(asked[0], 8_000)) == 0
    # A telephone's narrow band costs a small recognizer a word or two; noise would cost all.
    assert word_error_rate(SCRIPTED_LINE, ear.hear(answered[0], 8_000)) <= 0.25
