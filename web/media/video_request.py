"""What a clip is asked for with: a form or JSON, and what of it a remix may change."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from ...engines.diffusion.abilities import Abilities
from ...engines.diffusion.task import MediaTask
from ...engines.jobs.input_limits import InputLimits
from ...engines.jobs.inputs import Source
from ...engines.media import Served
from ...sessions.errors import Refusal
from ..bodies import read_body
from ..uploads import FIELD_BYTES, body_type, read_form
from .asking import (
    BODY_BYTES,
    Located,
    Settings,
    read_fields,
    read_json,
    said_once,
    size_of,
    task_of,
)
from .common import read_settings

REFERENCE = "input_reference"
"""The field of a picture that a clip begins with."""

IMAGE = "image"
"""What families call it."""

FPS_MOST = 120

_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")

_KEPT = ("model", "size", "width", "height")
"""What a remix can't change."""

V = TypeVar("V")


class VideoSettings(Settings, kw_only=True, forbid_unknown_fields=True):
    """A clip. ``num_frames`` and ``fps`` are other names of the two before them."""

    seconds: str | float | None = None
    """About so long: the model decides which counts of frames there are."""

    frames: int | None = None
    num_frames: int | None = None
    frames_per_second: int | None = None
    fps: int | None = None
    input_reference: str | Located | None = None
    """A URL, or a :class:`Located`; in a form a file as well."""


@dataclass(frozen=True, slots=True)
class AskedVideo:
    """A request as it came."""

    settings: VideoSettings
    source: Source | None
    """Of the picture that goes in. A file of ``form``, where it is one."""

    form: FormData | None = None
    """To be closed, once the picture was read."""

    async def close(self) -> None:
        """Let go of the form's files. Idempotent."""
        if self.form is not None:
            await self.form.close()


async def read_video(request: Request, limits: InputLimits) -> AskedVideo:
    """Read the request for a clip; whoever calls closes it.

    Raises:
        Refused, Refusal, BadForm, BodyTooLarge: it can't be understood, or is too large.
        TimeoutError: it was too slow.
        ClientDisconnect: the client is gone.
    """
    if body_type(request) == "multipart/form-data":
        form = await read_form(request, limits.picture_bytes, file=REFERENCE)
        try:
            return _from_form(form)
        except BaseException:
            await form.close()
            raise
    # A picture in it is base64.
    body = await read_body(request, BODY_BYTES + limits.picture_bytes * 4 // 3)
    settings = await read_settings(body, VideoSettings)
    return AskedVideo(settings, source_of(settings.input_reference))


async def read_remix(request: Request) -> Settings:
    """Read the request for a clip like another.

    Raises:
        Refused, Refusal, BadForm, BodyTooLarge, TimeoutError, ClientDisconnect: as
            :func:`read_video`; of what a remix keeps nothing may be said.
    """
    if body_type(request) == "multipart/form-data":
        form = await read_form(request, FIELD_BYTES, file="prompt", beside=0)
        try:
            fields, files = _taken_apart(form)
        finally:
            await form.close()
        _no_more(files, "a remix takes none")
        asked = read_fields(fields, Settings)
    else:
        asked = read_json(await read_body(request, BODY_BYTES), Settings)
    for name in _KEPT:
        if getattr(asked, name) is not None:
            raise Refusal("unsupported_value", f"{name}: a remix keeps what its video has.", name)
    return asked


def video_task(asked: AskedVideo, model: Served, seed: int) -> MediaTask:
    """The task, checked; its picture is called :data:`IMAGE`, and still to be read.

    Raises:
        Refusal: a setting is not allowed; the message names it and what is.
    """
    settings, able = asked.settings, model.abilities
    _check_reference(model, asked.source is not None)
    rate = _rate(settings, able)
    return task_of(
        settings,
        model,
        seed=seed,
        size=size_of(settings, able),
        inputs={} if asked.source is None else {IMAGE: IMAGE},
        frames=_frames(settings, able, rate),
        frames_per_second=rate,
    )


def remix_task(asked: Settings, earlier: MediaTask, model: Served) -> MediaTask:
    """The task of a remix: what is said anew, else as it was.

    Raises:
        Refusal: a setting is not allowed.
    """
    filled = msgspec.structs.replace(
        asked,
        negative_prompt=_or(asked.negative_prompt, earlier.negative_prompt),
        adapters=_or(asked.adapters, earlier.adapters),
    )
    if asked.steps is None and asked.num_inference_steps is None:
        filled = msgspec.structs.replace(filled, steps=earlier.steps)
    if asked.guidance is None and asked.guidance_scale is None:
        filled = msgspec.structs.replace(filled, guidance=earlier.guidance)
    if earlier.inputs and model.abilities.strength:
        filled = msgspec.structs.replace(filled, strength=_or(asked.strength, earlier.strength))
    return task_of(
        filled,
        model,
        seed=_or(asked.seed, earlier.seed),
        size=(earlier.width, earlier.height),
        inputs={name: name for name in earlier.inputs},
        frames=earlier.frames,
        frames_per_second=earlier.frames_per_second,
    )


def _from_form(form: FormData) -> AskedVideo:
    fields, files = _taken_apart(form)
    source: Source | None = files.pop(REFERENCE).file if REFERENCE in files else None
    _no_more(files, f"the picture is {REFERENCE}")
    said = {part: fields.pop(f"{REFERENCE}[{part}]", None) for part in ("image_url", "file_id")}
    reference: str | Located | None = Located(**said) if any(said.values()) else None
    settings = read_fields(fields, VideoSettings)
    for given in (reference, settings.input_reference):
        told = source_of(given)
        if told is not None and source is not None:
            message = f"{REFERENCE}: say it once, as a file or as a URL."
            raise Refusal("invalid_value", message, REFERENCE)
        source = source or told
    return AskedVideo(settings, source, form)


def _taken_apart(form: FormData) -> tuple[dict[str, str], dict[str, UploadFile]]:
    """Fields and files by their names, of which each may come once; empty files are none."""
    fields: dict[str, str] = {}
    files: dict[str, UploadFile] = {}
    for name, value in form.multi_items():
        if name in fields or name in files:
            message = f"{name[:64]}: expected it once."
            raise Refusal("invalid_value", message, name[:64])
        if isinstance(value, str):
            fields[name] = value
        elif value.filename or value.size:
            files[name] = value
    return fields, files


def _no_more(files: Mapping[str, UploadFile], why: str) -> None:
    for name in files:
        message = f"{name[:64]}: there is no such file in a request: {why}."
        raise Refusal("unknown_parameter", message, name[:64])


def source_of(reference: str | Located | None) -> str | None:
    """Where a picture is, if one goes in.

    Raises:
        Refusal: it is named in a way that there is not here.
    """
    if isinstance(reference, Located):
        if reference.file_id:
            name = f"{REFERENCE}.file_id"
            message = f"{name}: no files are kept here; send the file itself, or an image_url."
            raise Refusal("unsupported_value", message, name)
        return reference.image_url or None
    return reference or None


def _check_reference(model: Served, given: bool) -> None:
    taken = model.abilities.inputs
    if given and (IMAGE,) not in taken:
        message = f"{REFERENCE}: {model.name} takes no picture."
        raise Refusal("unsupported_value", message, REFERENCE)
    if not given and () not in taken:
        message = f"{REFERENCE}: required, as {model.name} begins with a picture."
        raise Refusal("missing_required_parameter", message, REFERENCE)


def _rate(settings: VideoSettings, able: Abilities) -> int:
    said = said_once("frames_per_second", settings.frames_per_second, "fps", settings.fps)
    rate = able.frames_per_second if said is None else said
    if not 1 <= rate <= FPS_MOST:
        message = f"frames_per_second: must be from 1 to {FPS_MOST}; it is {rate}."
        raise Refusal("invalid_value", message, "frames_per_second")
    return rate


def _frames(settings: VideoSettings, able: Abilities, rate: int) -> int:
    frames = said_once("frames", settings.frames, "num_frames", settings.num_frames)
    if settings.seconds is None:
        return able.frames if frames is None else frames
    if frames is not None:
        raise Refusal("invalid_value", "seconds: say either seconds or frames.", "seconds")
    seconds = _seconds(settings.seconds)
    # Half a frame more than there may be is still as near as any.
    if not 0 < seconds * rate <= able.max_frames + 0.5:
        most = length(able.max_frames, rate)
        message = f"seconds: over 0 and at most {most} (at {rate} frames per second)."
        raise Refusal("invalid_value", message, "seconds")
    return able.frames_near(round(seconds * rate))


def _seconds(said: str | float) -> float:
    if isinstance(said, str):
        return float(said) if _NUMBER.fullmatch(said) else math.nan
    return said


def length(frames: int, rate: int) -> str:
    """Seconds of a clip, as a client reads them: ``4``, ``2.125``."""
    return f"{frames / max(1, rate):.3f}".rstrip("0").rstrip(".")


def _or(value: V | None, otherwise: V) -> V:
    return otherwise if value is None else value
