"""The form that adds a voice: its name, and what it is made of.

That is either the two files that Piper exports, or a recording with what is said in it and the
consent of who speaks, as the deployment's talker wants it; the fields of the other are refused.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import msgspec
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from ..codecs.media import MediaError, open_audio
from ..engines.pipeline import VoiceFiles, VoiceRecording, VoiceSource
from ..engines.speech.voices.family import NAME
from .uploads import FIELD_BYTES, BadForm, body_type, read_form, too_large

GRAPH_BYTES = 256 * 1024 * 1024
"""Most of a model."""

DESCRIPTION_BYTES = 1024 * 1024
"""Most of its description."""

SAMPLE_BYTES = 32 * 1024 * 1024
"""Most of a recording's file."""

SAMPLE_SECONDS = 120.0
"""Most of its sound; what a talker can use is less."""

TEXT_CHARS = 2_000
"""Most of what is said in it."""

CONSENT_CHARS = 4_000
"""Most of the words of a consent."""

FILES = 2

_COPY_BYTES = 1024 * 1024

_ELSEWHERE = ("type", "prompt", "script_hint")
"""Fields of OpenAI's form for voices that are made from descriptions."""

_OF_RECORDINGS = ("audio_sample", "consent", "ref_text")
_OF_FILES = ("model", "config")

_SEND_FILES = (
    "voices here are not made from recordings or descriptions: send the files of a Piper voice "
    "as 'model' (.onnx) and 'config' (.onnx.json), with a 'name'"
)

_SEND_RECORDING = (
    "voices here are made from recordings: send one as 'audio_sample', with a 'name', the "
    "'consent' of who speaks, and what is said as 'ref_text'"
)


@dataclass(frozen=True, slots=True)
class VoiceForm:
    """A voice to be added, as it was uploaded."""

    name: str
    graph: UploadFile
    description: UploadFile

    def save(self, folder: Path) -> VoiceFiles:
        """Write the files into a folder, where they have names; not on an event loop.

        Raises:
            BadForm: the description is no JSON object.
        """
        described = self.description.file.read()
        try:
            msgspec.json.decode(described, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise BadForm("config: expected a JSON object, of Piper.", param="config") from None
        graph, description = folder / "voice.onnx", folder / "voice.onnx.json"
        description.write_bytes(described)
        with graph.open("wb") as out:
            shutil.copyfileobj(self.graph.file, out, _COPY_BYTES)
        return VoiceFiles(name=self.name, graph=graph, description=description)


@dataclass(frozen=True, slots=True)
class RecordingForm:
    """A voice to be added, of which a recording was uploaded."""

    name: str
    sample: UploadFile
    recording: VoiceRecording
    """What it will be; its text is empty where none was sent, and its file not there yet."""

    def save(self, folder: Path) -> VoiceRecording:
        """Write the file into a folder; not on an event loop.

        Raises:
            BadForm: there is no sound in it, or too much of it.
            MediaMissing: what decodes is not installed.
        """
        audio = folder / "sample"
        with audio.open("wb") as out:
            shutil.copyfileobj(self.sample.file, out, _COPY_BYTES)
        try:
            with audio.open("rb") as file:
                source = open_audio(file, max_seconds=SAMPLE_SECONDS)
                try:
                    while source.read():
                        pass
                finally:
                    source.close()
        except MediaError as error:
            what = f"audio_sample: {error.message}"
            if error.code == "too_long":
                what = f"audio_sample: expected at most {SAMPLE_SECONDS:g} s."
            raise BadForm(what, param="audio_sample", code=error.code) from None
        return replace(self.recording, audio=audio)


AnyForm: TypeAlias = VoiceForm | RecordingForm


@asynccontextmanager
async def voice_form(
    request: Request, source: VoiceSource = "files"
) -> AsyncGenerator[AnyForm, None]:
    """Read a request's form, whose files are gone at the end.

    Raises:
        BadForm: it is none, too large, too slow, lacks something, or is of another source.
        ClientDisconnect: the client is gone.
    """
    recorded = source == "recording"
    if body_type(request) == "application/json":
        # OpenAI makes voices of descriptions that come like this.
        send = _SEND_RECORDING if recorded else _SEND_FILES
        raise BadForm(f"Expected a multipart/form-data body; {send}.")
    if recorded:
        form = await read_form(request, SAMPLE_BYTES, file="audio_sample", files=FILES)
    else:
        form = await read_form(
            request, GRAPH_BYTES, file="model", files=FILES, beside=DESCRIPTION_BYTES + FIELD_BYTES
        )
    try:
        yield _of_recording(form) if recorded else _of_files(form)
    finally:
        await form.close()


def _refuse(form: FormData, fields: tuple[str, ...], send: str) -> None:
    for field in fields:
        if form.get(field):
            raise BadForm(f"{field}: {send}.", param=field)


def _of_recording(form: FormData) -> RecordingForm:
    _refuse(form, (*_OF_FILES, *_ELSEWHERE), _SEND_RECORDING)
    name = _name(form)
    sample = _file(form, "audio_sample", SAMPLE_BYTES)
    consent = _text(form, "consent", CONSENT_CHARS)
    if not consent:
        what = "consent: required, in the words of who speaks; it is kept with the voice."
        raise BadForm(what, param="consent", code="missing_required_parameter")
    recording = VoiceRecording(
        name=name,
        audio=Path(),
        text=_text(form, "ref_text", TEXT_CHARS),
        consent=consent,
        language=_text(form, "language", 16).lower() or None,
    )
    return RecordingForm(name, sample, recording)


def _of_files(form: FormData) -> VoiceForm:
    _refuse(form, (*_OF_RECORDINGS, *_ELSEWHERE), _SEND_FILES)
    return VoiceForm(
        name=_name(form),
        graph=_file(form, "model", GRAPH_BYTES),
        description=_file(form, "config", DESCRIPTION_BYTES),
    )


def _name(form: FormData) -> str:
    name = form.get("name") or ""
    if not name:
        raise BadForm("name: required.", param="name", code="missing_required_parameter")
    if not isinstance(name, str) or not re.fullmatch(NAME, name):
        what = "name: expected a letter or digit, and up to 99 of letters, digits and . _ : + -."
        raise BadForm(what, param="name")
    return name


def _text(form: FormData, field: str, most: int) -> str:
    """A field of text, without white space around it; empty where there is none."""
    text = form.get(field) or ""
    if not isinstance(text, str):
        raise BadForm(f"{field}: expected text, got a file.", param=field)
    if len(text := text.strip()) > most:
        what = f"{field}: expected at most {most} characters."
        raise BadForm(what, param=field, code="string_above_max_length")
    return text


def _file(form: FormData, field: str, limit: int) -> UploadFile:
    file = form.get(field)
    if file is None:
        raise BadForm(f"{field}: required.", param=field, code="missing_required_parameter")
    if not isinstance(file, UploadFile):
        raise BadForm(f"{field}: expected a file with a name, got text.", param=field)
    if file.size is not None and file.size > limit:
        raise too_large(field, limit)
    return file
