"""The JSON of a speech stream: what is refused, by name, and that the stream goes on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.loop import run_simulated
from tests.support.speech_rig import served

from antiphon.codecs import encode as encoders

Json = dict[str, Any]

CONFIG: tuple[tuple[Json, str, str], ...] = (
    ({"voice": "nobody"}, "invalid_value", "voice"),
    ({"voice": {"id": "nobody"}}, "invalid_value", "voice"),
    ({"voice": 5}, "invalid_value", "voice"),
    ({"response_format": "midi"}, "invalid_value", "response_format"),
    ({"speed": 0.2}, "invalid_value", "speed"),
    ({"speed": 4.5}, "invalid_value", "speed"),
    ({"loudness": -36.5}, "invalid_value", "loudness"),
    ({"loudness": -11}, "invalid_value", "loudness"),
    ({"loudness": "loud"}, "invalid_value", "loudness"),
    ({"sample_rate": 16000}, "unsupported_value", "sample_rate"),
    ({"word_timestamps": "yes"}, "invalid_value", "word_timestamps"),
    ({"word_timestamps": True, "stream_audio": False}, "invalid_value", "stream_audio"),
    ({"instructions": "Whisper."}, "unsupported_value", "instructions"),
    ({"ref_audio": "data:,"}, "unsupported_value", "ref_audio"),
)


@pytest.mark.parametrize(("members", "code", "param"), CONFIG)
def test_settings_that_are_not_allowed(members: Json, code: str, param: str) -> None:
    async def main() -> None:
        async with served() as rig:
            rig.socket.put("session.config", event_id="event_1", **members)
            told = await rig.error()
            assert told["utterance_index"] is None
            error = told["error"]
            assert (error["type"], error["code"]) == ("invalid_request_error", code)
            assert (error["param"], error["event_id"]) == (param, "event_1")
            assert param in error["message"]
            # Nothing was changed.
            rig.socket.put("session.config", unknown=True, model="tts-1", instructions="")
            ready = await rig.socket.wait_for("session.ready", 2)
            assert ready == rig.socket.of("session.ready")[0]

    run_simulated(main())


def test_loudness_is_kept_until_it_is_null() -> None:
    async def main() -> None:
        async with served() as rig:
            told: list[float | None] = []
            for members in ({"loudness": -20}, {"speed": 2}, {"loudness": None}, {"speed": 1}):
                rig.socket.put("session.config", **members)
                ready = await rig.socket.wait_for("session.ready", len(told) + 2)
                told.append(ready["session"]["loudness"])
            assert told == [-20, -20, None, None]

    run_simulated(main())


MESSAGES: tuple[tuple[str | bytes, str, str | None], ...] = (
    ("", "invalid_json", None),
    ("{", "invalid_json", None),
    ("[]", "missing_required_parameter", "type"),
    ('{"x": ' + "[" * 100_000, "invalid_json", None),
    ("{}", "missing_required_parameter", "type"),
    ('{"type": 3}', "invalid_value", "type"),
    ('{"type": "session.update"}', "invalid_value", "type"),
    ('{"type": "input.text"}', "missing_required_parameter", "text"),
    ('{"type": "input.text", "text": null}', "invalid_value", "text"),
    ('{"type": "input.text", "text": "' + "a" * 100_001 + '"}', "string_above_max_length", "text"),
    ('{"type": "input.text", "text": "' + "a" * 1_500_000 + '"}', "message_too_long", None),
    (b"\0\1", "invalid_value", None),
)


@pytest.mark.parametrize(("message", "code", "param"), MESSAGES)
def test_messages_that_say_nothing(message: str | bytes, code: str, param: str | None) -> None:
    async def main() -> None:
        async with served() as rig:
            rig.socket.put_raw(message)
            error = (await rig.error())["error"]
            assert (error["code"], error["param"]) == (code, param)
            assert error["type"] == "invalid_request_error"
            rig.say("One.")
            rig.done()
            assert (await rig.told_done())["status"] == "completed"

    run_simulated(main())


@settings(max_examples=60)
@given(st.lists(st.one_of(st.text(max_size=20), st.binary(max_size=20)), max_size=10))
def test_whatever_is_sent_the_next_utterance_is_spoken(messages: list[str | bytes]) -> None:
    async def main() -> None:
        async with served() as rig:
            for message in messages:
                rig.socket.put_raw(message)
            rig.say("One.")
            rig.done()
            assert (await rig.told_done())["status"] == "completed"

    run_simulated(main())


def test_an_encoder_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(form: str) -> None:
        raise encoders.EncoderMissing("not here")

    monkeypatch.setattr("antiphon.realtime.speech_wire.new_encoder", missing)

    async def main() -> None:
        async with served() as rig:
            rig.socket.put("session.config", response_format="opus")
            error = (await rig.error())["error"]
            assert (error["code"], error["param"]) == ("unsupported_value", "response_format")

    run_simulated(main())
