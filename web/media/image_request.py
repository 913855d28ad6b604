"""What ``/v1/images`` is asked for with: generations as JSON, edits and variations as forms too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from ...engines.jobs.input_limits import InputLimits
from ...engines.jobs.inputs import Source
from ...engines.media import Served
from ...realtime.refusals import missing, not_one_of
from ...sessions.errors import Refusal
from ..bodies import read_body
from ..uploads import FIELD_BYTES, body_type, read_form
from .asking import BODY_BYTES, Located, Settings, read_fields
from .common import read_settings

Work: TypeAlias = Literal["generation", "edit", "variation"]

QUALITIES: Mapping[str, float] = {
    "auto": 1.0,
    "standard": 1.0,
    "medium": 1.0,
    "low": 0.5,
    "high": 1.5,
    "hd": 1.5,
    "xhigh": 2.0,
    "max": 3.0,
}
"""The model's own count of steps, so many times."""

FIDELITIES: Mapping[str, float] = {"low": 0.8, "high": 0.5}
"""How much of a picture is made anew."""

RESPONSES = ("b64_json", "url")
BACKGROUNDS = ("auto", "opaque")
MODERATIONS = ("auto", "low")
"""Taken, as stock clients send them; nothing is looked at here."""

PARTIALS = 3

FILES = 17
"""Files that a form may have: as many pictures as there may be elsewhere, to be told how many
here, and a mask."""

VARIED = 0.6
"""How much of a picture is made anew for a variation of it."""

MASKED = 1.0
"""The same of what a mask shows: nothing that was there is to be seen."""


class ImageIn(Settings, kw_only=True, forbid_unknown_fields=True):
    """What all three have. A variation needs no prompt."""

    n: int | None = None
    quality: str | None = None
    background: str | None = None
    moderation: str | None = None
    output_format: str | None = None
    output_compression: int | None = None
    partial_images: int | None = None
    stream: bool | None = None
    response_format: str | None = None
    style: str | None = None
    safety_identifier: str | None = None
    """As ``user``: it changes nothing, and is not kept."""


class EditIn(ImageIn, kw_only=True, forbid_unknown_fields=True):
    """An edit, or a variation."""

    input_fidelity: str | None = None
    images: list[Located] | None = None
    image: str | list[str] | None = None
    """URLs, in JSON; a form has files."""

    mask: str | Located | None = None


@dataclass(frozen=True, slots=True)
class AskedImage:
    """A request as it came."""

    work: Work
    settings: ImageIn
    images: tuple[Source, ...] = ()
    mask: Source | None = None
    form: FormData | None = None
    """To be closed, once the pictures were read."""

    @property
    def streams(self) -> bool:
        """Whether events are wanted."""
        return bool(self.settings.stream)

    async def close(self) -> None:
        """Let go of the form's files. Idempotent."""
        if self.form is not None:
            await self.form.close()


async def read_image(request: Request, work: Work, limits: InputLimits) -> AskedImage:
    """Read a request; whoever calls closes it.

    Raises:
        Refused, Refusal, BadForm, BodyTooLarge: it can't be understood, or is too large.
        TimeoutError: it was too slow.
        ClientDisconnect: the client is gone.
    """
    if work == "generation":
        asked = await read_settings(await read_body(request, BODY_BYTES), ImageIn)
        return _checked(AskedImage(work, asked))
    if body_type(request) != "multipart/form-data":
        return _checked(await _read_json(request, work, limits))
    beside = FIELD_BYTES + limits.picture_bytes
    form = await read_form(request, limits.picture_bytes, file="image", files=FILES, beside=beside)
    try:
        return _checked(_from_form(form, work))
    except BaseException:
        await form.close()
        raise


async def _read_json(request: Request, work: Work, limits: InputLimits) -> AskedImage:
    if work == "variation":
        message = "image: send it as a file of a multipart form."
        raise Refusal("unsupported_value", message, "image")
    # Two pictures in base64, and the rest.
    body = await read_body(request, BODY_BYTES + 2 * limits.picture_bytes * 4 // 3)
    return _from_json(await read_settings(body, EditIn), work)


def _from_json(settings: EditIn, work: Work) -> AskedImage:
    given = [settings.image] if isinstance(settings.image, str) else settings.image or []
    images = [*given, *(_url(each, "images") for each in settings.images or [])]
    mask = settings.mask
    if mask is not None:
        mask = _url(mask, "mask") if isinstance(mask, Located) else mask
    return AskedImage(work, settings, tuple(images), mask)


def _url(where: Located, param: str) -> str:
    if where.file_id or not where.image_url:
        message = f"{param}: no files are kept here; send the file itself, or an image_url."
        raise Refusal("unsupported_value", message, param)
    return where.image_url


def _from_form(form: FormData, work: Work) -> AskedImage:
    fields: dict[str, str] = {}
    files: dict[str, list[UploadFile]] = {"image": [], "mask": []}
    for name, value in form.multi_items():
        plain = name.removesuffix("[]")
        if isinstance(value, str):
            if plain in fields:
                raise Refusal("invalid_value", f"{plain[:64]}: expected it once.", plain[:64])
            fields[plain] = value
        elif plain not in files:
            message = f"{plain[:64]}: there is no such file in a request."
            raise Refusal("unknown_parameter", message, plain[:64])
        elif value.filename or value.size:
            files[plain].append(value)
    if work == "variation":
        fields.setdefault("prompt", VARIATION)
    settings = read_fields(fields, EditIn)
    if len(files["mask"]) > 1:
        raise Refusal("invalid_value", "mask: expected it once.", "mask")
    said = _from_json(settings, work)
    images = (*(each.file for each in files["image"]), *said.images)
    mask = files["mask"][0].file if files["mask"] else said.mask
    return AskedImage(work, settings, images, mask, form)


VARIATION = "the same"
"""The prompt of a variation, which has none of its own: the picture that goes in tells more."""


def _checked(asked: AskedImage) -> AskedImage:
    said = asked.settings
    _one_of("response_format", said.response_format, RESPONSES)
    _one_of("quality", said.quality, tuple(QUALITIES))
    _one_of("moderation", said.moderation, MODERATIONS)
    if said.background == "transparent":
        message = "background: the models here paint every pixel; use auto or opaque."
        raise Refusal("unsupported_value", message, "background")
    _one_of("background", said.background, BACKGROUNDS)
    if said.style is not None:
        message = "style: the models here have none; say it in the prompt."
        raise Refusal("unsupported_value", message, "style")
    _check_stream(said)
    if asked.work != "generation":
        _check_pictures(asked)
    return asked


def _check_stream(said: ImageIn) -> None:
    partial = said.partial_images
    if partial is not None and not 0 <= partial <= PARTIALS:
        message = f"partial_images: must be from 0 to {PARTIALS}; it is {partial}."
        raise Refusal("invalid_value", message, "partial_images")
    if partial and not said.stream:
        message = "partial_images: only where stream is true."
        raise Refusal("unsupported_value", message, "partial_images")
    if said.stream and said.response_format == "url":
        message = "response_format: a stream has its pictures in it (b64_json)."
        raise Refusal("unsupported_value", message, "response_format")


def _check_pictures(asked: AskedImage) -> None:
    if not asked.images:
        raise missing("image")
    if len(asked.images) > 1:
        message = f"image: the models here take one picture, not {len(asked.images)}."
        raise Refusal("unsupported_value", message, "image")
    said = asked.settings
    assert isinstance(said, EditIn)
    _one_of("input_fidelity", said.input_fidelity, tuple(FIDELITIES))
    if said.input_fidelity and said.strength is not None:
        message = "input_fidelity: say either this or strength."
        raise Refusal("invalid_value", message, "input_fidelity")
    if asked.work == "variation" and asked.mask is not None:
        raise Refusal("unknown_parameter", "mask: not of a variation.", "mask")


def _one_of(param: str, value: str | None, allowed: Sequence[str]) -> None:
    if value is not None and value not in allowed:
        raise not_one_of(param, value, allowed)


def filled(asked: AskedImage, model: Served) -> ImageIn:
    """The settings, with the steps that a quality means and the strength of a fidelity.

    Raises:
        Refusal: the model takes no such pictures, or steps are said twice.
    """
    said, able = asked.settings, model.abilities
    _check_inputs(asked, model)
    factor = QUALITIES[said.quality or "auto"]
    if factor != 1.0:
        if said.steps is not None or said.num_inference_steps is not None:
            raise Refusal("invalid_value", "quality: say either this or steps.", "quality")
        steps = max(1, min(able.max_steps, round(able.steps * factor)))
        said = msgspec.structs.replace(said, steps=steps)
    if isinstance(said, EditIn) and said.strength is None:
        said = msgspec.structs.replace(said, strength=_strength(asked, said, model))
    return said


def _strength(asked: AskedImage, said: EditIn, model: Served) -> float | None:
    if not model.abilities.strength:
        if said.input_fidelity:
            message = f"input_fidelity: {model.name} always takes the picture as it is."
            raise Refusal("unsupported_value", message, "input_fidelity")
        return None
    if said.input_fidelity:
        return FIDELITIES[said.input_fidelity]
    if asked.mask is not None:
        return MASKED
    return VARIED if asked.work == "variation" else None


def _check_inputs(asked: AskedImage, model: Served) -> None:
    given, taken = inputs_of(asked), model.abilities.inputs
    if given in taken:
        return
    if not given:
        message = f"model: {model.name} begins with a picture; use /v1/images/edits."
        raise Refusal("unsupported_value", message, "model")
    known = " or ".join(" and ".join(names) or "no picture" for names in taken)
    param = "mask" if "mask" in given or ("image", "mask") in taken else "image"
    message = f"{param}: {model.name} takes {known}, not {' and '.join(given)}."
    raise Refusal("unsupported_value", message, param)


def inputs_of(asked: AskedImage) -> tuple[str, ...]:
    """Which pictures go in, as families call them, in order."""
    return (("image",) if asked.images else ()) + (("mask",) if asked.mask is not None else ())
