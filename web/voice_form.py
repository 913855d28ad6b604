"""The form that adds a voice: its name, and the two files that Piper exports."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from ..engines.pipeline import VoiceFiles
from ..engines.speech.voices.family import NAME
from .uploads import FIELD_BYTES, BadForm, body_type, read_form, too_large

GRAPH_BYTES = 256 * 1024 * 1024
"""Most of a model."""

DESCRIPTION_BYTES = 1024 * 1024
"""Most of its description."""

FILES = 2

_COPY_BYTES = 1024 * 1024

_ELSEWHERE = ("audio_sample", "consent", "type", "prompt", "script_hint")
"""Fields of OpenAI's form, which makes voices of recordings and of descriptions."""

_INSTEAD = (
    "voices here are not made from recordings or descriptions: send the files of a Piper voice "
    "as 'model' (.onnx) and 'config' (.onnx.json), with a 'name'"
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


@asynccontextmanager
async def voice_form(request: Request) -> AsyncGenerator[VoiceForm, None]:
    """Read a request's form, whose files are gone at the end.

    Raises:
        BadForm: it is none, too large, too slow, or lacks something.
        ClientDisconnect: the client is gone.
    """
    if body_type(request) == "application/json":
        # OpenAI makes voices of descriptions that come like this.
        raise BadForm(f"Expected a multipart/form-data body; {_INSTEAD}.")
    form = await read_form(
        request, GRAPH_BYTES, file="model", files=FILES, beside=DESCRIPTION_BYTES + FIELD_BYTES
    )
    try:
        yield _parsed(form)
    finally:
        await form.close()


def _parsed(form: FormData) -> VoiceForm:
    for field in _ELSEWHERE:
        if form.get(field):
            raise BadForm(f"{field}: {_INSTEAD}.", param=field)
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


def _file(form: FormData, field: str, limit: int) -> UploadFile:
    file = form.get(field)
    if file is None:
        raise BadForm(f"{field}: required.", param=field, code="missing_required_parameter")
    if not isinstance(file, UploadFile):
        raise BadForm(f"{field}: expected a file with a name, got text.", param=field)
    if file.size is not None and file.size > limit:
        raise too_large(field, limit)
    return file
