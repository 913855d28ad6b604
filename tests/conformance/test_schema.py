"""Every event that can be told, against the types of OpenAI's own client, strictly."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, get_args

import msgspec
import pytest
from openai.types.beta.realtime import RealtimeServerEvent as BetaServerEvent
from openai.types.beta.realtime import TranscriptionSessionUpdatedEvent
from openai.types.realtime import RealtimeServerEvent
from openai.types.realtime.client_secret_create_response import ClientSecretCreateResponse
from pydantic import TypeAdapter
from tests.conformance.shapes import effects, sessions
from tests.conformance.talk import unknown_members

from antiphon.realtime.dialect import Dialect
from antiphon.realtime.outbox import Frame
from antiphon.realtime.wire_out import WireEncoder
from antiphon.realtime.wire_session import session_object
from antiphon.sessions import effects as fx
from antiphon.sessions.settings import SessionKind

Json = dict[str, Any]

MODEL = "gpt-realtime"
MAX_FRAME = 64 * 1024


def by_type(union: Any) -> dict[str, TypeAdapter[Any]]:
    """Return the types of a union by the event that each is of."""
    members = get_args(get_args(union)[0])
    return {
        get_args(each.model_fields["type"].annotation)[0]: TypeAdapter(each) for each in members
    }


_ga = by_type(RealtimeServerEvent)
_beta = by_type(BetaServerEvent)
_transcription: TypeAdapter[Any] = TypeAdapter(TranscriptionSessionUpdatedEvent)
_secret: TypeAdapter[Any] = TypeAdapter(ClientSecretCreateResponse)

DOCUMENTED = {
    ".session.object",
    ".session.id",
    ".session.expires_at",
    ".session.antiphon",
    ".error.retry_after_ms",
    ".response.status_details.error.retry_after_ms",
    ".response.status_details.error.message",
}
"""Members that are sent though the client's types lack them."""

BETA_DOCUMENTED = {
    *DOCUMENTED,
    ".session.include",
    ".session.client_secret",
    ".session.input_audio_noise_reduction",
    ".session.turn_detection.eagerness",
}
"""Beside those, what the types of the beta lack and its service has sent."""


def encoder(dialect: Dialect) -> WireEncoder:
    wire = WireEncoder(
        "seed", session_id="sess_1", conversation_id="conv_1", model=MODEL, voices=("ada",)
    )
    wire.dialect = dialect
    return wire


def frames(wire: WireEncoder, effect: fx.ClientEffect) -> list[str]:
    made = [said.data if isinstance(said, Frame) else said for said in wire.encode(effect)]
    assert all(isinstance(text, str) for text in made)
    return [str(text) for text in made]


@cache
def every_event(dialect: Dialect) -> list[tuple[fx.ClientEffect, str]]:
    wire = encoder(dialect)
    return [(effect, text) for effect in effects() for text in frames(wire, effect)]


def is_ours(event: Json) -> bool:
    return str(event["type"]).startswith("antiphon.")


def test_every_effect_is_tried_here() -> None:
    assert {type(effect) for effect in effects()} == set(get_args(fx.ClientEffect))


def test_every_event_is_one_of_the_protocol() -> None:
    for _, text in every_event(Dialect.GA):
        event = msgspec.json.decode(text, type=Json)
        if is_ours(event):
            continue
        parsed = _ga[event["type"]].validate_json(text, strict=True)
        strange = set(unknown_members(parsed)) - DOCUMENTED
        assert not strange, (event["type"], strange)


def test_every_event_of_the_beta_is_one_of_its_protocol() -> None:
    for effect, text in every_event(Dialect.BETA):
        event = msgspec.json.decode(text, type=Json)
        if is_ours(event):
            continue
        has_images = "input_image" in text
        parsed = _parse_beta(event)
        if parsed is None:
            assert has_images, effect
            continue
        strange = set(unknown_members(parsed)) - BETA_DOCUMENTED
        assert not strange, (event["type"], strange)


def _parse_beta(event: Json) -> Any:
    """Return an event of the beta as its client sees it; ``None`` for what has images."""
    if str(event["type"]).startswith("transcription_session."):
        # Its secret is null over a socket; and the type of `created` is that of `updated`.
        assert event["session"].pop("client_secret") is None
        secret = {"value": "ek_1", "expires_at": 1}
        session = {**event["session"], "client_secret": secret}
        return _transcription.validate_json(
            msgspec.json.encode(
                {**event, "type": "transcription_session.updated", "session": session}
            ),
            strict=True,
        )
    text = msgspec.json.encode(event)
    if b'"input_image"' in text:
        # Images are newer than the beta's types; a client that adds one is shown it.
        return None
    return _beta[event["type"]].validate_json(text, strict=True)


def test_no_event_has_two_names() -> None:
    names = {
        dialect: {msgspec.json.decode(text)["type"] for _, text in every_event(dialect)}
        for dialect in Dialect
    }
    only_ga = {
        "conversation.item.added",
        "conversation.item.done",
        "input_audio_buffer.timeout_triggered",
        "response.output_text.delta",
        "response.output_text.done",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.delta",
        "response.output_audio_transcript.done",
    }
    only_beta = {
        "conversation.item.created",
        "transcription_session.created",
        "transcription_session.updated",
        "response.text.delta",
        "response.text.done",
        "response.audio.delta",
        "response.audio.done",
        "response.audio_transcript.delta",
        "response.audio_transcript.done",
    }
    assert names[Dialect.GA] - names[Dialect.BETA] == only_ga
    assert names[Dialect.BETA] - names[Dialect.GA] == only_beta


@pytest.mark.parametrize("dialect", list(Dialect))
def test_every_event_has_an_id_of_its_own(dialect: Dialect) -> None:
    ids = [msgspec.json.decode(text)["event_id"] for _, text in every_event(dialect)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"event_[0-9A-Za-z]{21}", each) for each in ids)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_no_frame_is_long(dialect: Dialect) -> None:
    assert max(len(text.encode()) for _, text in every_event(dialect)) < MAX_FRAME


def test_sessions_of_secrets_are_those_of_the_protocol() -> None:
    for settings in sessions():
        session = session_object("sess_1", settings, 1234, MODEL)
        text = msgspec.json.encode({"value": "ek_1", "expires_at": 1, "session": session})
        parsed = _secret.validate_json(text, strict=True)
        assert parsed.session.type == settings.kind.value
        strange = set(unknown_members(parsed))
        if settings.kind is SessionKind.TRANSCRIPTION:
            strange.discard(".session.audio.input.turn_detection.eagerness")
        assert not strange


# What strict clients fail on.


def told(wanted: Callable[[Json], bool]) -> list[Json]:
    events = (msgspec.json.decode(text, type=Json) for _, text in every_event(Dialect.GA))
    return [event for event in events if wanted(event)]


def test_transcription_has_only_members_that_were_set() -> None:
    sets: set[tuple[str, ...]] = set()
    for event in told(lambda event: "session" in event):
        wanted = event["session"]["audio"]["input"]["transcription"]
        sets.add(tuple(wanted or ()))
    assert sets == {(), ("model",), ("model", "language", "prompt", "keywords")}


def test_members_that_clients_join_or_look_into_are_there() -> None:
    for event in told(lambda event: event["type"].startswith("conversation.item.")):
        for part in event.get("item", {}).get("content", []):
            assert part["type"] != "input_audio" or "transcript" in part
    for event in told(lambda event: "response" in event):
        response = event["response"]
        assert isinstance(response["status_details"], dict | None)
        assert isinstance(response["audio"]["output"]["voice"], str)
        assert "metadata" in response
    for event in told(lambda event: event["type"] == "response.done"):
        usage = event["response"]["usage"]
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] == 29
        assert usage["input_token_details"]["audio_tokens"] == 7
        assert usage["output_token_details"]["audio_tokens"] == 9


def test_logprobs_have_the_bytes_of_their_tokens() -> None:
    event = told(lambda event: event["type"].endswith("transcription.completed"))[-1]
    tokens = [bytes(each["bytes"]).decode() for each in event["logprobs"]]
    assert tokens == ["Grüße", " 🙂"] == [each["token"] for each in event["logprobs"]]
