"""Recordings of sessions: what was told to a core and when, to be played again.

A recording is JSON lines: a head with seed, settings and capabilities, then one line an
event or deadline. It holds what the person said: keep it as you would keep the audio.
What another version has written is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from ..sessions import events as ev
from ..sessions.effects import Effect
from ..sessions.items import NewItem
from ..sessions.session import Session
from ..sessions.settings import (
    UNSET,
    Capabilities,
    Settings,
    SettingsPatch,
    TranscriptionPatch,
    TurnDetectionPatch,
)

VERSION = 2

_EVENTS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *ev.ClientEvent.__args__,
        *ev.StageEvent.__args__,
        ev.Attached,
        ev.AudioWritten,
        ev.Detached,
    )
}


class RecordingError(Exception):
    """A file that is no recording, or is damaged; says where."""


class _Head(msgspec.Struct, kw_only=True):
    version: int
    seed: str
    settings: Settings
    can: Capabilities


class _Line(msgspec.Struct, kw_only=True, omit_defaults=True):
    now: float
    event: str | None = None
    """Name of the event; absent for a deadline."""

    data: Any = None


@dataclass(frozen=True, slots=True)
class Step:
    """One replayed mutation and what the core asked for because of it."""

    now: float
    event: ev.Event | None
    """``None``: time had passed."""

    effects: tuple[Effect, ...]


class Recorder:
    """Writes a recording as a session goes on."""

    def __init__(self, file: IO[bytes], seed: str, settings: Settings, can: Capabilities) -> None:
        self._file = file
        self._encoder = msgspec.json.Encoder()
        self._write(_Head(version=VERSION, seed=seed, settings=settings, can=can))

    def event(self, event: ev.Event, now: float) -> None:
        """Note an event."""
        data: object = event
        if isinstance(event, ev.UpdateSession):
            data = {"patch": _said(event.patch), "event_id": event.event_id}
        elif isinstance(event, ev.CreateResponse):
            data = {"options": _asked(event.options), "event_id": event.event_id}
        self._write(_Line(now=now, event=type(event).__name__, data=data))

    def deadline(self, now: float) -> None:
        """Note that time had passed."""
        self._write(_Line(now=now))

    def close(self) -> None:
        """Finish the file."""
        self._file.close()

    def _write(self, line: msgspec.Struct) -> None:
        self._file.write(self._encoder.encode(line) + b"\n")


def replay(path: Path) -> Iterator[Step]:
    """Play a recording to a fresh core; yield each step.

    Raises:
        RecordingError: the file can't be read or is no recording.
    """
    with _open(path) as file:
        head = _decode(file.readline(), _Head, path, 1)
        if head.version != VERSION:
            raise RecordingError(f"{path}: version {head.version} is not {VERSION}")
        session = Session(head.seed, head.settings, head.can)
        for number, text in enumerate(file, 2):
            line = _decode(text, _Line, path, number)
            yield _step(session, line, path, number)


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise RecordingError(f"cannot read {path}: {error.strerror}") from None


def _step(session: Session, line: _Line, path: Path, number: int) -> Step:
    event: ev.Event | None = None
    if line.event is None:
        session.handle_deadline(line.now)
    else:
        event = _event(line, path, number)
        session.handle(event, line.now)
    effects: list[Effect] = []
    while (effect := session.next_effect()) is not None:
        effects.append(effect)
    return Step(line.now, event, tuple(effects))


def _event(line: _Line, path: Path, number: int) -> ev.Event:
    kind = _EVENTS.get(line.event or "")
    if kind is None:
        raise RecordingError(f"{path}:{number}: unknown event {line.event!r}")
    try:
        if kind is ev.UpdateSession:
            update = msgspec.convert(line.data, _Update)
            return ev.UpdateSession(_patch(SettingsPatch, update.patch), update.event_id)
        if kind is ev.CreateResponse:
            create = msgspec.convert(line.data, _Create)
            return ev.CreateResponse(_options(create.options), create.event_id)
        event: ev.Event = msgspec.convert(line.data, kind)
    except msgspec.ValidationError as error:
        raise RecordingError(f"{path}:{number}: {error}") from None
    return event


def _decode(text: bytes, kind: type[Any], path: Path, number: int) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise RecordingError(f"{path}:{number}: {error}") from None


# An update of settings says something of few members; what it does not mention is left out,
# so that it can't be taken for a value.


_PATCHES = (TurnDetectionPatch, TranscriptionPatch)


class _Update(msgspec.Struct, kw_only=True):
    patch: dict[str, Any]
    event_id: str | None = None


def _said(patch: SettingsPatch | TurnDetectionPatch | TranscriptionPatch) -> dict[str, object]:
    said: dict[str, object] = {}
    for each in fields(patch):
        value = getattr(patch, each.name)
        if isinstance(value, (TurnDetectionPatch, TranscriptionPatch)):
            said[each.name] = _said(value)
        elif value is not UNSET:
            said[each.name] = value
    return said


def _patch(kind: type[Any], said: dict[str, Any]) -> Any:
    declared = get_type_hints(kind)
    if unknown := said.keys() - declared.keys():
        raise msgspec.ValidationError(f"unknown members {sorted(unknown)}")
    return kind(**{name: _member(declared[name], value) for name, value in said.items()})


def _member(declared: Any, value: object) -> object:
    kinds: list[Any] = [kind for kind in get_args(declared) if get_origin(kind) is not Literal]
    nested: Any = next((kind for kind in kinds if kind in _PATCHES), None)
    if nested is None:
        return _convert(value, kinds)
    return None if value is None else _patch(nested, msgspec.convert(value, dict[str, Any]))


def _convert(value: object, kinds: list[Any]) -> object:
    allowed = kinds[0]
    for kind in kinds[1:]:
        allowed = allowed | kind
    return msgspec.convert(value, allowed)


# What a response is given to answer are items and references, which are told apart by the
# member that they are under.


class _Given(msgspec.Struct, kw_only=True, omit_defaults=True):
    item: NewItem | None = None
    reference: str | None = None


class _Create(msgspec.Struct, kw_only=True):
    options: dict[str, Any]
    event_id: str | None = None


def _asked(options: ev.ResponseOptions) -> dict[str, object]:
    asked = {each.name: getattr(options, each.name) for each in fields(options)}
    if options.input is not None:
        asked["input"] = [
            _Given(reference=each.item_id)
            if isinstance(each, ev.ItemReference)
            else _Given(item=each)
            for each in options.input
        ]
    return asked


def _options(asked: dict[str, Any]) -> ev.ResponseOptions:
    declared = get_type_hints(ev.ResponseOptions)
    if unknown := asked.keys() - declared.keys():
        raise msgspec.ValidationError(f"unknown members {sorted(unknown)}")
    members = {
        name: msgspec.convert(value, declared[name])
        for name, value in asked.items()
        if name != "input"
    }
    given = msgspec.convert(asked.get("input"), list[_Given] | None)
    members["input"] = None if given is None else tuple(_read(each) for each in given)
    return ev.ResponseOptions(**members)


def _read(given: _Given) -> NewItem | ev.ItemReference:
    if given.item is not None:
        return given.item
    if given.reference is None:
        raise msgspec.ValidationError("an input is neither an item nor a reference")
    return ev.ItemReference(given.reference)
