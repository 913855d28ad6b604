"""Recordings: whatever happened is written and read back without loss; damage is told."""

from __future__ import annotations

import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.realtime.recording import Recorder, RecordingError, replay
from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.errors import ErrorInfo
from antiphon.sessions.items import ItemKind, NewItem, Part, PartKind, Role
from antiphon.sessions.settings import (
    UNSET,
    AudioFormat,
    BinaryFormat,
    Capabilities,
    Eagerness,
    Modality,
    NoiseReduction,
    Settings,
    SettingsPatch,
    Transcription,
    TranscriptionPatch,
    Truncation,
    TruncationMode,
    TurnDetection,
    TurnDetectionPatch,
    TurnKind,
)
from antiphon.sessions.tools import Tool, ToolChoice, ToolMode

SETTINGS = Settings(
    instructions="Be brief.",
    output_format=AudioFormat.PCMU,
    turn_detection=TurnDetection(threshold=0.25),
    transcription=Transcription(model="whisper-1", language="en"),
    max_output_tokens=12,
    tools=(Tool(name="add", parameters='{"type":"object"}'),),
    tool_choice=ToolChoice(mode=ToolMode.FUNCTION, name="add"),
    truncation=Truncation(mode=TruncationMode.RETENTION_RATIO, retention_ratio=0.5),
    noise_reduction=NoiseReduction.FAR_FIELD,
)
CAN = Capabilities(voices=("default", "other"), max_items=7, stage_timeout_s=1.5)

_text = st.text(st.characters(codec="utf-8"), max_size=8) | st.just("unset")
_name = _text | st.none()
_number = st.integers(-(2**53), 2**53)
_float = st.floats(allow_nan=False, allow_infinity=False)


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return values | st.just(UNSET)


_turns = st.builds(
    TurnDetectionPatch,
    kind=_maybe(st.sampled_from(TurnKind)),
    idle_timeout_ms=_maybe(_number | st.none()),
    eagerness=_maybe(st.sampled_from(Eagerness)),
    threshold=_maybe(_float),
    prefix_padding_ms=_maybe(_number),
    silence_duration_ms=_maybe(_number),
    create_response=_maybe(st.booleans()),
    interrupt_response=_maybe(st.booleans()),
)
_transcription = st.builds(
    TranscriptionPatch,
    model=_maybe(_text),
    language=_maybe(_name),
    prompt=_maybe(_name),
    keywords=_maybe(st.lists(_text, max_size=2).map(tuple) | st.none()),
)
_tools = st.lists(st.builds(Tool, name=_text, description=_text, parameters=_text), max_size=2).map(
    tuple
)
_choice = st.builds(ToolChoice, mode=st.sampled_from(ToolMode), name=_name)
_truncation = st.builds(
    Truncation,
    mode=st.sampled_from(TruncationMode),
    retention_ratio=_float,
    post_instructions=_number | st.none(),
)
_patch = st.builds(
    SettingsPatch,
    instructions=_maybe(_text),
    modality=_maybe(st.sampled_from(Modality)),
    input_format=_maybe(st.sampled_from(AudioFormat)),
    output_format=_maybe(st.sampled_from(AudioFormat)),
    voice=_maybe(_text),
    speed=_maybe(_float),
    turn_detection=_maybe(_turns | st.none()),
    transcription=_maybe(_transcription | st.none()),
    max_output_tokens=_maybe(_number | st.none()),
    temperature=_maybe(_float),
    tools=_maybe(_tools),
    tool_choice=_maybe(_choice),
    truncation=_maybe(_truncation),
    noise_reduction=_maybe(st.sampled_from(NoiseReduction) | st.none()),
    logprobs=_maybe(st.booleans()),
    extensions=_maybe(st.booleans()),
    binary_audio=_maybe(st.booleans()),
    binary_format=_maybe(st.sampled_from(BinaryFormat)),
)
_part = st.builds(Part, st.sampled_from(PartKind), _name, _name, _name)
_item = st.builds(
    NewItem,
    kind=st.sampled_from(ItemKind),
    call_id=_name,
    name=_name,
    arguments=_text,
    output=_text,
    role=st.sampled_from(Role),
    parts=st.lists(_part, max_size=3).map(tuple),
    id=_name,
    audio=st.binary(max_size=8),
)
_error = st.builds(
    ErrorInfo,
    code=_name,
    message=_text,
    param=_name,
    event_id=_name,
    type=_text,
    retry_after_ms=_number | st.none(),
)
_options = st.builds(
    ev.ResponseOptions,
    instructions=_name,
    modality=st.sampled_from(Modality) | st.none(),
    voice=_name,
    output_format=st.sampled_from(AudioFormat) | st.none(),
    max_output_tokens=_number | st.none(),
    temperature=_float | st.none(),
    metadata=st.none() | st.lists(st.tuples(_text, _text), max_size=2).map(tuple),
    tools=_tools | st.none(),
    tool_choice=_choice | st.none(),
    out_of_band=st.booleans(),
    input=st.none() | st.lists(_item | st.builds(ev.ItemReference, _text), max_size=2).map(tuple),
)
_logprobs = st.lists(st.builds(ev.TokenLogprob, _text, _float), max_size=2).map(tuple)
_words = st.lists(st.builds(ev.WordTime, _text, _float, _float), max_size=2).map(tuple)

BY_KIND: dict[type[Any], st.SearchStrategy[Any]] = {
    ev.UpdateSession: st.builds(ev.UpdateSession, _patch, _name),
    ev.AppendAudio: st.builds(ev.AppendAudio, st.binary(max_size=8), _name),
    ev.CommitAudio: st.builds(ev.CommitAudio, _name),
    ev.ClearAudio: st.builds(ev.ClearAudio, _name),
    ev.CreateItem: st.builds(ev.CreateItem, _item, _name, _name),
    ev.RetrieveItem: st.builds(ev.RetrieveItem, _text, _name),
    ev.TruncateItem: st.builds(ev.TruncateItem, _text, _number, _number, _name),
    ev.DeleteItem: st.builds(ev.DeleteItem, _text, _name),
    ev.CreateResponse: st.builds(ev.CreateResponse, _options, _name),
    ev.CancelResponse: st.builds(ev.CancelResponse, _name, _name),
    ev.ReportPlayback: st.builds(
        ev.ReportPlayback, _text, _number, _number, _number, _number, _name
    ),
    ev.RejectMessage: st.builds(ev.RejectMessage, _error),
    ev.SpeechScored: st.builds(
        ev.SpeechScored, _number, st.lists(_float, max_size=3).map(tuple), st.just(20)
    ),
    ev.ListeningFailed: st.builds(ev.ListeningFailed, _number, _text),
    ev.RecognitionEnded: st.builds(ev.RecognitionEnded, _number, _name, _name, _name, _logprobs),
    ev.ReplyText: st.builds(ev.ReplyText, _text, _number, _text),
    ev.ReplyWords: st.builds(ev.ReplyWords, _text, _number, _words),
    ev.ReplyAudio: st.builds(ev.ReplyAudio, _text, _number, st.binary(max_size=8)),
    ev.ReplyCall: st.builds(ev.ReplyCall, _text, _number, _number, _text, _text, st.booleans()),
    ev.ReplyFitted: st.builds(ev.ReplyFitted, _text, _number, _number),
    ev.ReplyTimed: st.builds(
        ev.ReplyTimed, _text, _number, *[_float | st.none() for _ in range(4)]
    ),
    ev.ReplyEnded: st.builds(
        ev.ReplyEnded,
        _text,
        _number,
        st.sampled_from(ev.ReplyOutcome),
        _name,
        _name,
        _number,
        _number,
        _number,
    ),
    ev.Attached: st.builds(ev.Attached, _number),
    ev.AudioWritten: st.builds(ev.AudioWritten, _text, _float),
    ev.Detached: st.just(ev.Detached()),
}


def recorded(*events: ev.Event | None) -> bytes:
    """Return a recording of events at 1.5, 2.5, ... seconds; ``None`` is a deadline."""
    file = BytesIO()
    recorder = Recorder(file, "seed", SETTINGS, CAN)
    for number, event in enumerate(events):
        if event is None:
            recorder.deadline(number + 1.5)
        else:
            recorder.event(event, number + 1.5)
    data = file.getvalue()
    recorder.close()
    assert file.closed
    return data


def played(data: bytes) -> list[ev.Event | None]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.jsonl"
        path.write_bytes(data)
        return [step.event for step in replay(path)]


def test_every_event_is_tried_here() -> None:
    assert set(BY_KIND) == {
        *ev.ClientEvent.__args__,
        *ev.StageEvent.__args__,
        ev.Attached,
        ev.AudioWritten,
        ev.Detached,
    }


@given(st.lists(st.one_of(*BY_KIND.values()), max_size=6))
@settings(deadline=None, max_examples=200)
def test_events_are_read_back_as_they_were(events: list[ev.Event]) -> None:
    assert played(recorded(*events)) == events


@pytest.mark.parametrize("kind", list(BY_KIND), ids=lambda kind: kind.__name__)
def test_each_event_is_read_back_as_it_was(kind: type[Any]) -> None:
    @given(BY_KIND[kind])
    @settings(deadline=None, max_examples=20)
    def check(event: ev.Event) -> None:
        assert played(recorded(event)) == [event]

    check()


def test_a_value_that_reads_unset_is_a_value() -> None:
    update = ev.UpdateSession(SettingsPatch(instructions="unset"))
    assert played(recorded(update)) == [update]


def test_a_recording_is_played_to_the_same_session(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    path.write_bytes(recorded(ev.Attached(1000), None, ev.CancelResponse(event_id="e")))
    attached, deadline, cancelled = replay(path)
    (created, listening) = attached.effects
    assert isinstance(created, fx.SessionCreated)
    assert (created.settings, created.expires_at) == (SETTINGS, 1000 + 3600)
    assert isinstance(listening, wx.StartListening)
    assert (deadline.now, deadline.event, deadline.effects) == (2.5, None, ())
    assert cancelled.now == 3.5
    (refused,) = cancelled.effects
    assert isinstance(refused, fx.ErrorRaised)
    assert refused.error.event_id == "e"


# Damage.


def message_of(data: bytes, tmp_path: Path) -> str:
    path = tmp_path / "recording.jsonl"
    path.write_bytes(data)
    with pytest.raises(RecordingError) as caught:
        list(replay(path))
    assert str(path) in str(caught.value)
    return str(caught.value).replace(str(path), "FILE")


def line(event: str, data: object) -> bytes:
    return msgspec.json.encode({"now": 1.0, "event": event, "data": data}) + b"\n"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="No such file"):
        list(replay(tmp_path / "none.jsonl"))


def test_a_folder_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="Is a directory"):
        list(replay(tmp_path))


def test_another_version_is_refused(tmp_path: Path) -> None:
    data = recorded().replace(b'"version":2', b'"version":1')
    assert message_of(data, tmp_path) == "FILE: version 1 is not 2"


@pytest.mark.parametrize("data", [b"", b"\n", b"{}\n", b"[]\n", b"\xff\xfe\n", b"[" * 100_000])
def test_a_file_without_a_head(data: bytes, tmp_path: Path) -> None:
    assert message_of(data, tmp_path).startswith("FILE:1: ")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (b'{"now":1.0,"ev', "FILE:2: "),
        (b"{}\n", "`now`"),
        (b'{"now":"late"}\n', "`$.now`"),
        (b'{"now":1.0,"data":' + b"[" * 100_000, "FILE:2: "),
        (line("NoSuchEvent", None), "unknown event 'NoSuchEvent'"),
        (line("AppendAudio", {"pcm": 3}), "`$.pcm`"),
        (line("AppendAudio", {"pcm": "no base64!"}), "`$.pcm`"),
        (line("RetrieveItem", {}), "`item_id`"),
        (line("RetrieveItem", None), "FILE:2: "),
        (line("UpdateSession", {"patch": {"no_such": 1}}), "unknown members ['no_such']"),
        (line("UpdateSession", {"patch": {"speed": "fast"}}), "Expected `float`, got `str`"),
        (line("UpdateSession", {"patch": {"turn_detection": 3}}), "FILE:2: "),
        (line("UpdateSession", {"patch": 3}), "`$.patch`"),
        (line("UpdateSession", {"patch": {"turn_detection": {"no": 1}}}), "['no']"),
        (line("UpdateSession", {"patch": {"tools": [{"name": 1}]}}), "FILE:2: "),
        (line("CreateResponse", {"options": {"no_such": 1}}), "unknown members ['no_such']"),
        (line("CreateResponse", {"options": {"voice": 1}}), "FILE:2: "),
        (
            line("CreateResponse", {"options": {"input": [{"item": None}]}}),
            "neither an item nor a reference",
        ),
        (line("CreateResponse", {"options": {"input": [{"item": {"id": 3}}]}}), "FILE:2: "),
    ],
)
def test_a_damaged_line_is_named(damage: bytes, said: str, tmp_path: Path) -> None:
    message = message_of(recorded() + damage, tmp_path)
    assert message.startswith("FILE:2: ")
    assert said in message


_whole = recorded(
    ev.Attached(0),
    ev.UpdateSession(SettingsPatch(turn_detection=TurnDetectionPatch(threshold=0.25))),
    ev.AppendAudio(bytes(960)),
    None,
    ev.CreateResponse(),
)


@given(st.integers(0, len(_whole)), st.binary(max_size=6))
@settings(deadline=None, max_examples=150)
def test_any_damage_is_found_or_harmless(at: int, put: bytes) -> None:
    damaged = _whole[:at] + put + _whole[at + len(put) :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.jsonl"
        path.write_bytes(damaged)
        try:
            list(replay(path))
        except RecordingError as error:
            assert str(path) in str(error)  # noqa: PT017
