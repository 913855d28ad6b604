"""The routes of voices: which there are, and how one is added and removed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..codecs.media import MediaMissing
from ..engines.chunks import StageError
from ..engines.pipeline import NewVoice, Pipeline, VoiceCard, VoiceRecording
from ..engines.stage import StageFailure
from .chat_hearing import Unheard, hear
from .chat_messages import Recording
from .errors import refusal, sentence
from .leaving import NOBODY, ClientLeft, while_here
from .speech_request import STOCK_SPEECH_VOICES
from .uploads import BadForm
from .voice_form import AnyForm, voice_form

PATH = "/v1/audio/voices"

AT_ONCE = 4
"""Requests that add or remove and are under way; more are refused before their body is read."""

BUSY_SECONDS = 5
"""After so long it may be worth trying again."""

HEARING_SECONDS = 60.0
"""For so long the recognizer may say nothing of a recording whose text was not sent."""

_SHOWN_CHARS = 40

_REFUSED: dict[str, tuple[int, str | None]] = {
    "voice_exists": (409, "name"),
    "voice_unusable": (400, "model"),
    "recording_unusable": (400, "audio_sample"),
    "text_unusable": (400, "ref_text"),
    "consent_unusable": (400, "consent"),
    "unsupported_language": (400, "language"),
    "recordings_unsupported": (400, "audio_sample"),
    "files_unsupported": (400, "model"),
    "encoder_missing": (400, "audio_sample"),
    "voice_unknown": (404, None),
    # Not 5xx: clients repeat those by themselves, with the whole upload.
    "voices_full": (400, None),
    "voices_fixed": (400, None),
    "voice_fixed": (400, None),
    "package_missing": (501, None),
}
"""Status of what a pipeline refuses, and the field that it is about."""

Json = dict[str, Any]
T = TypeVar("T")


class VoiceRoutes:
    """Lists voices for everyone; operators add and remove them, one at a time."""

    def __init__(self, pipeline: Pipeline, is_operator: Callable[[Request], bool]) -> None:
        self._pipeline = pipeline
        self._is_operator = is_operator
        self._turn = asyncio.Lock()
        self._running = 0

    def routes(self) -> list[Route]:
        """That of all voices, and that of one."""
        return [
            Route(PATH, self._all, methods=["GET", "POST"]),
            Route(PATH + "/{name}", self._one, methods=["GET", "DELETE"]),
        ]

    @property
    def running(self) -> int:
        """How many requests that change something are under way."""
        return self._running

    async def _all(self, request: Request) -> Response:
        if request.method == "POST":
            return await self._change(request, self._upload)
        if not self._pipeline.readiness.ready:
            return _starting()
        cards = self._pipeline.voice_cards
        told = [*map(_told, cards), *(_alias(name, cards[0]) for name in _aliases(cards))]
        return JSONResponse(
            {"object": "list", "data": told, "voices": [card.name for card in cards]}
        )

    async def _one(self, request: Request) -> Response:
        if request.method == "DELETE":
            return await self._change(request, self._delete)
        if not self._pipeline.readiness.ready:
            return _starting()
        name, cards = request.path_params["name"], self._pipeline.voice_cards
        for card in cards:
            if card.name == name:
                return JSONResponse(_told(card))
        if name in _aliases(cards):
            return JSONResponse(_alias(name, cards[0]))
        return _failed(_unknown(name))

    async def _change(
        self, request: Request, work: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Response:
        """Do what changes the voices of everyone, if it may be done now."""
        if not self._is_operator(request):
            message = "Without keys, voices are added and removed from the server's machine alone."
            return refusal(403, "operator_only", message)
        if not self._pipeline.readiness.ready:
            return _starting()
        if self._running >= AT_ONCE:
            message = f"{AT_ONCE} voices are being added or removed; try again."
            return refusal(503, "overloaded", message, retry_after_s=BUSY_SECONDS)
        self._running += 1
        try:
            return await work(request)
        except BadForm as bad:
            return refusal(bad.status, bad.code, bad.message, param=bad.param)
        except StageFailure as failure:
            return _failed(failure.error)
        except (ClientLeft, ClientDisconnect):
            return Response(status_code=NOBODY)
        finally:
            self._running -= 1

    async def _upload(self, request: Request) -> Response:
        async with voice_form(request, self._pipeline.voice_source) as form:
            return await while_here(request.receive, self._add(form))

    async def _add(self, form: AnyForm) -> Response:
        async with self._turn:
            if form.name in (*self._pipeline.voices, *STOCK_SPEECH_VOICES):
                what = f"there is a voice {form.name} already: expected another name"
                raise StageFailure(StageError("voice_exists", what))
            cards = await _to_its_end(self._place(form))
        told = _told(cards[0])
        if len(cards) > 1:
            told["voices"] = [card.name for card in cards]
        return JSONResponse(told, status_code=201)

    async def _place(self, form: AnyForm) -> tuple[VoiceCard, ...]:
        folder = TemporaryDirectory(prefix="antiphon-voice-", ignore_cleanup_errors=True)
        try:
            new: NewVoice = await asyncio.to_thread(form.save, Path(folder.name))
            if isinstance(new, VoiceRecording) and not new.text:
                new = await self._heard(new)
            return await self._pipeline.add_voice(new)
        except MediaMissing:
            what = "recordings can't be read here: run `pip install 'antiphon[speech]'`"
            raise StageFailure(StageError("package_missing", what)) from None
        finally:
            await asyncio.shield(asyncio.to_thread(folder.cleanup))

    async def _heard(self, recording: VoiceRecording) -> VoiceRecording:
        """The same with what the recognizer understands of it."""
        data = await asyncio.to_thread(recording.audio.read_bytes)
        try:
            heard = await hear(
                self._pipeline,
                Recording(data, "audio_sample"),
                f"voice-{uuid4().hex[:12]}",
                HEARING_SECONDS,
                language=recording.language,
                words=True,
            )
        except Unheard as unheard:
            raise BadForm(str(unheard), param=unheard.param, code=unheard.error.code) from None
        except StageFailure as failure:
            if failure.error.code != "recognizer_missing":
                raise
            what = "ref_text: required, as nothing here can read the recording: what is said in it."
            code = "missing_required_parameter"
            raise BadForm(what, param="ref_text", code=code) from None
        if not heard.text:
            what = "ref_text: nothing was understood in the recording: send what is said in it."
            raise BadForm(what, param="ref_text")
        language = recording.language or heard.language or None
        return replace(recording, text=heard.text, words=heard.words, language=language)

    async def _delete(self, request: Request) -> Response:
        return await while_here(request.receive, self._remove(request.path_params["name"]))

    async def _remove(self, name: str) -> Response:
        async with self._turn:
            before = self._pipeline.voices
            if name in _aliases(self._pipeline.voice_cards):
                what = f"the default voice stays, and {name} is OpenAI's name for it"
                raise StageFailure(StageError("voice_fixed", what))
            if name not in before:
                raise StageFailure(_unknown(name))
            await _to_its_end(self._pipeline.remove_voice(name))
            gone = [each for each in before if each not in self._pipeline.voices]
        told: Json = {"id": name, "object": "audio.voice.deleted", "deleted": True}
        if len(gone) > 1:
            told["voices"] = gone
        return JSONResponse(told)


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """What comes of ``work``, which goes on to its end also where its client leaves.

    Half of it is of no use to anyone, and the next has to wait until it is over.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


def _told(card: VoiceCard) -> Json:
    told: Json = {
        "id": card.name,
        "object": "audio.voice",
        "name": card.name,
        "language": card.language,
        "model": card.model,
        "description": card.summary,
        "created_at": card.created_at or 0,
        "owned_by": "user" if card.own else "antiphon",
        "source": card.source,
    }
    if card.consent_at is not None:
        told["consent_at"] = card.consent_at
    return told


def _aliases(cards: tuple[VoiceCard, ...]) -> list[str]:
    """OpenAI's names for the default voice, where there is one."""
    ours = {card.name for card in cards}
    return [name for name in STOCK_SPEECH_VOICES if name not in ours] if ours else []


def _alias(name: str, card: VoiceCard) -> Json:
    return {**_told(card), "id": name, "name": name, "alias_of": card.name}


def _starting() -> Response:
    # Voices are known once the models are loaded.
    message = "The models are still loading; try again."
    return refusal(503, "server_starting", message, retry_after_s=1)


def _unknown(name: str) -> StageError:
    return StageError("voice_unknown", f"there is no voice {name[:_SHOWN_CHARS]}")


def _failed(error: StageError) -> Response:
    status, param = _REFUSED.get(error.code, (500, None))
    message = sentence(error)
    if error.retry_after_ms is not None:
        seconds = math.ceil(error.retry_after_ms / 1000)
        return refusal(503, error.code, message, retry_after_s=seconds)
    return refusal(status, error.code, message, param=param)
