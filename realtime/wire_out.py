"""From session effects to the server's JSON, in the dialect that a connection speaks.

Events are made as GA has them. For the beta they are translated before they are encoded.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any, TypeAlias, assert_never

import msgspec

from ..sessions import effects as fx
from ..sessions.ids import LENGTH, IdSource
from ..sessions.items import AUDIO_KINDS, Item, PartKind
from ..sessions.settings import AudioFormat, Settings
from .audio_format import OutputEncoder, to_wire
from .beta import AUDIO_DELTA, beta_event, beta_response
from .dialect import Dialect
from .outbox import Frame, SlowText
from .wire_audio import BinaryOutput
from .wire_events import (
    BufferEffect,
    ExtensionEffect,
    TranscriptionEffect,
    at_json,
    buffer_event,
    call_at_json,
    delta_event,
    extension_event,
    part_json,
    rate_limit_json,
    transcription_event,
)
from .wire_items import item_json
from .wire_response import error_json, response_json
from .wire_session import antiphon_json, session_object

Json = dict[str, Any]

DELTA_BYTES = 24_000
"""Audio of one delta: 500 ms of PCM, 32 KB of base64, well below any client's frame limit."""

DELTA_CHARS = 8_000
"""Text of one delta: at most 48 KB, even where each character has to be escaped."""

AUDIO_STARTED = "antiphon.output_audio.started"
"""Says what the binary frames of a response belong to."""

BIG_AUDIO = 192_000
"""Audio of a retrieved item from which it is encoded in a thread: 4 s."""

PIECE_BYTES = 3 * 64 * 1024
"""Audio encoded at once: a call holds the interpreter, and the loop runs between two."""

_COUNTED = 9
"""Digits of an event's number, in its id."""

_encoder = msgspec.json.Encoder()


_ConversationEffect: TypeAlias = fx.ItemAdded | fx.ItemDone | fx.ItemTruncated | fx.ItemDeleted
_ResponseEffect: TypeAlias = fx.ResponseCreated | fx.ResponseDone
_OutputEffect: TypeAlias = (
    fx.OutputItemAdded
    | fx.OutputItemDone
    | fx.ContentPartAdded
    | fx.ContentPartDone
    | fx.TextDone
    | fx.TranscriptDone
    | fx.CallDone
)
_SimpleEffect: TypeAlias = (
    fx.SessionCreated
    | fx.SessionUpdated
    | fx.ErrorRaised
    | fx.RateLimitsUpdated
    | BufferEffect
    | _ConversationEffect
    | TranscriptionEffect
    | _ResponseEffect
    | ExtensionEffect
    | _OutputEffect
)
"""What is told in one frame, or in none where a dialect lacks it."""


class WireEncoder:
    """Encodes what one connection is told; numbers its events."""

    def __init__(
        self,
        seed: str,
        *,
        session_id: str,
        conversation_id: str,
        model: str,
        voices: tuple[str, ...],
    ) -> None:
        self.dialect = Dialect.GA
        """What events are told in from now on."""

        self._id_stem = IdSource(f"{seed}/wire").next("event")[: LENGTH - _COUNTED + len("event_")]
        self._told = 0
        self._session_id = session_id
        self._conversation_id = conversation_id
        self._model = model
        self._voices = voices
        self._settings = Settings()
        self._audio: dict[str, OutputEncoder | BinaryOutput] = {}
        """One a response: its format is fixed when it begins."""

        self._responses = 0

        self._delta_key: tuple[fx.PartAt, Dialect] | None = None
        self._delta_head = self._delta_tail = ""

    def encode(self, effect: fx.ClientEffect) -> Iterator[str | SlowText | Frame]:
        """Yield what tells the client of ``effect``, usually one text; audio is in frames."""
        match effect:
            case fx.AudioDelta():
                yield from self._sound(effect)
            case fx.TextDelta() | fx.TranscriptDelta() | fx.CallDelta():
                for start in range(0, len(effect.text), DELTA_CHARS):
                    piece = effect.text[start : start + DELTA_CHARS]
                    yield from self._frame(*delta_event(effect, piece))
            case fx.ItemRetrieved():
                yield from self._retrieved(effect)
            case fx.TurnMeasured() | fx.ResponseMeasured() if not self._settings.extensions:
                # Made for every session, as the server counts them.
                pass
            case fx.AudioDone(at=at):
                yield from self._sound_ends(at)
                yield from self._frame("response.output_audio.done", at_json(at))
            case fx.ResponseCreated(response=view):
                self._responses += 1
                self._audio[view.id] = self._audio_output(view.output_format)
                yield from self._frame(*self._simple(effect))
            case fx.ResponseDone(response=view):
                self._audio.pop(view.id, None)
                yield from self._frame(*self._simple(effect))
            case _:
                yield from self._frame(*self._simple(effect))

    def abort(self, response_id: str) -> None:
        """Encode no more audio of a response, not even what is held back."""
        self._audio.pop(response_id, None)

    def _frame(self, name: str, body: Json) -> Iterator[str]:
        event = self._event(name, body)
        if event is not None:
            yield _encoder.encode(event).decode()

    def _event(self, name: str, body: Json) -> Json | None:
        if self.dialect is Dialect.BETA:
            translated = beta_event(name, body)
            if translated is None:
                return None
            name, body = translated
        return {"type": name, "event_id": self._event_id(), **body}

    def _event_id(self) -> str:
        self._told += 1
        return f"{self._id_stem}{self._told:0{_COUNTED}d}"

    def _audio_output(self, form: AudioFormat) -> OutputEncoder | BinaryOutput:
        binary = self._settings.binary
        return OutputEncoder(form) if binary is None else BinaryOutput(binary, self._responses)

    def _sound(self, effect: fx.AudioDelta) -> Iterator[str | Frame]:
        at = effect.at
        match self._audio.get(at.response_id):
            case OutputEncoder() as encoder:
                yield from self._deltas(at, encoder, encoder.feed(effect.pcm))
            case BinaryOutput() as output:
                if output.begins(at):
                    yield from self._frame(AUDIO_STARTED, output.started(at, effect.epoch))
                yield from output.feed(effect.pcm)
            case None:
                return

    def _sound_ends(self, at: fx.PartAt) -> Iterator[Frame]:
        match self._audio.get(at.response_id):
            case OutputEncoder() as encoder:
                yield from self._deltas(at, encoder, encoder.flush())
            case BinaryOutput() as output:
                yield from output.flush()
            case None:
                return

    def _deltas(self, at: fx.PartAt, encoder: OutputEncoder, audio: bytes) -> Iterator[Frame]:
        if self._delta_key != (at, self.dialect):
            # All that the deltas of a part have in common, made once.
            name = AUDIO_DELTA if self.dialect is Dialect.BETA else "response.output_audio.delta"
            head = _encoder.encode({"type": name}).decode()
            self._delta_key = (at, self.dialect)
            self._delta_head = f'{head[:-1]},"event_id":"'
            self._delta_tail = f'",{_encoder.encode(at_json(at)).decode()[1:-1]},"delta":"'
        for start in range(0, len(audio), DELTA_BYTES):
            piece = audio[start : start + DELTA_BYTES]
            delta = b64encode(piece).decode("ascii")
            text = f'{self._delta_head}{self._event_id()}{self._delta_tail}{delta}"}}'
            yield Frame(text, at.response_id, encoder.length_ms(piece))

    def _retrieved(self, effect: fx.ItemRetrieved) -> Iterator[str | SlowText]:
        name, body = "conversation.item.retrieved", {"item": self._item(effect.item, whole=True)}
        event = self._event(name, body)
        sounds = (p for p in effect.item.parts if p.kind in AUDIO_KINDS)
        sound = next(sounds, None)
        if sound is None or event is None:
            yield _encoder.encode(event).decode()
            return
        form = self._settings.output_format
        if sound.kind is PartKind.INPUT_AUDIO:
            form = self._settings.input_format
        make = partial(_with_audio, event, effect.item.parts.index(sound), effect.audio, form)
        if len(effect.audio) < BIG_AUDIO:
            yield make()
        else:
            yield SlowText(make, len(effect.audio) * 4 // 3)

    def _simple(self, effect: _SimpleEffect) -> tuple[str, Json]:
        match effect:
            case fx.SessionCreated(settings=settings, expires_at=expires_at):
                return "session.created", {"session": self._session(settings, expires_at)}
            case fx.SessionUpdated(settings=settings, expires_at=expires_at):
                return "session.updated", {"session": self._session(settings, expires_at)}
            case fx.ErrorRaised(error=error):
                return "error", {"error": error_json(error)}
            case fx.RateLimitsUpdated(limits=limits):
                body = {"rate_limits": [rate_limit_json(each) for each in limits]}
                return "rate_limits.updated", body
            case fx.ResponseCreated(response=view):
                return "response.created", {"response": self._response(view)}
            case fx.ResponseDone(response=view):
                return "response.done", {"response": self._response(view)}
            case (
                fx.SpeechStarted()
                | fx.SpeechStopped()
                | fx.IdleTimedOut()
                | fx.BufferCommitted()
                | fx.BufferCleared()
            ):
                return buffer_event(effect)
            case fx.ItemAdded() | fx.ItemDone() | fx.ItemTruncated() | fx.ItemDeleted():
                return self._conversation(effect)
            case fx.TranscriptionDelta() | fx.TranscriptionDone() | fx.TranscriptionFailed():
                return transcription_event(effect)
            case fx.WordSpoken() | fx.TurnMeasured() | fx.ResponseMeasured():
                return extension_event(effect)
            case _:
                return self._output(effect)

    def _conversation(self, effect: _ConversationEffect) -> tuple[str, Json]:
        match effect:
            case fx.ItemAdded(item=item, previous_item_id=previous):
                body = {"previous_item_id": previous, "item": self._item(item)}
                return "conversation.item.added", body
            case fx.ItemDone(item=item, previous_item_id=previous):
                body = {"previous_item_id": previous, "item": self._item(item)}
                return "conversation.item.done", body
            case fx.ItemTruncated():
                return "conversation.item.truncated", asdict(effect)
            case fx.ItemDeleted(item_id=item_id):
                return "conversation.item.deleted", {"item_id": item_id}
            case _:
                assert_never(effect)

    def _output(self, effect: _OutputEffect) -> tuple[str, Json]:
        match effect:
            case fx.OutputItemAdded():
                return "response.output_item.added", self._output_item(effect)
            case fx.OutputItemDone():
                return "response.output_item.done", self._output_item(effect)
            case fx.ContentPartAdded(at=at, modality=modality):
                return "response.content_part.added", {
                    **at_json(at),
                    "part": part_json(modality, ""),
                }
            case fx.ContentPartDone(at=at, modality=modality, text=text):
                return "response.content_part.done", {
                    **at_json(at),
                    "part": part_json(modality, text),
                }
            case fx.TextDone(at=at, text=text):
                return "response.output_text.done", {**at_json(at), "text": text}
            case fx.TranscriptDone(at=at, text=text):
                return "response.output_audio_transcript.done", {**at_json(at), "transcript": text}
            case fx.CallDone(at=at, call_id=call_id):
                body = {"call_id": call_id, "name": effect.name, "arguments": effect.arguments}
                return "response.function_call_arguments.done", {**call_at_json(at), **body}
            case _:
                assert_never(effect)

    def _output_item(self, effect: fx.OutputItemAdded | fx.OutputItemDone) -> Json:
        return {
            "response_id": effect.response_id,
            "output_index": effect.output_index,
            "item": self._item(effect.item),
        }

    def _session(self, settings: Settings, expires_at: int) -> Json:
        self._settings = settings
        session = session_object(self._session_id, settings, expires_at, self._model, self.dialect)
        if settings.extensions:
            session["antiphon"] = antiphon_json(settings, self._voices)
        return session

    def _response(self, view: fx.ResponseView) -> Json:
        response = response_json(view, self._conversation_id, transcribed=self._transcribed)
        if self.dialect is Dialect.BETA:
            return beta_response(response, view.temperature)
        return response

    def _item(self, item: Item, *, whole: bool = False) -> Json:
        return item_json(item, transcribed=self._transcribed, whole=whole)

    @property
    def _transcribed(self) -> bool:
        return self._settings.transcription is not None


def _with_audio(event: Json, index: int, audio: bytes, form: AudioFormat) -> str:
    """Encode an event whose item has ``audio`` in its part ``index``."""
    event["item"]["content"][index]["audio"] = ""
    made = to_wire(audio, form)
    pieces = [
        b64encode(made[start : start + PIECE_BYTES]).decode("ascii")
        for start in range(0, len(made), PIECE_BYTES)
    ]
    text = _encoder.encode(event).decode()
    head, _, tail = text.partition('"audio":""')
    return "".join([head, '"audio":"', *pieces, '"', tail])
