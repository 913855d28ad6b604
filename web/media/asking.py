"""What pictures and clips are asked for with: read, checked, and made into tasks.

The same settings come as JSON or as a form, whose values are all text. A member that is unknown
is refused, so that nothing is asked for in vain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ...engines.diffusion.abilities import Abilities
from ...engines.diffusion.task import MediaTask
from ...engines.media import Served
from ...realtime.refusals import Refused, located, wrong_type
from ...sessions.errors import ErrorInfo, Refusal

BODY_BYTES = 1024 * 1024
"""Of a JSON body without files in it."""

KEY_CHARS = 255
"""Of an idempotency key."""

SIZE = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")


class Located(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A picture by where it is."""

    image_url: str | None = None
    """A ``data:`` or http(s) URL."""

    file_id: str | None = None
    """Of OpenAI's file store; there is none here."""


class Settings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What pictures and clips have in common; each request has a kind of its own.

    ``num_inference_steps`` and ``guidance_scale`` are other names of ``steps`` and ``guidance``,
    ``width`` and ``height`` another way to say ``size``.
    """

    prompt: str
    model: str | None = None
    size: str | None = None
    """``WIDTHxHEIGHT``, or ``auto``: the model's own."""

    width: int | None = None
    height: int | None = None
    negative_prompt: str | None = None
    steps: int | None = None
    num_inference_steps: int | None = None
    guidance: float | None = None
    guidance_scale: float | None = None
    seed: int | None = None
    strength: float | None = None
    adapters: dict[str, float] | None = None
    webhook: str | None = None
    user: str | None = None
    """Whom it is for, as OpenAI's clients say it; it changes nothing, and is not kept."""


T = TypeVar("T", bound=Settings)


def read_json(body: bytes, kind: type[T]) -> T:
    """Read a JSON body.

    Raises:
        Refused: it is none, or a member is missing, unknown or of another type.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _refused(error) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Refused(ErrorInfo("invalid_json", "The body is not valid JSON.")) from None


def read_fields(fields: Mapping[str, str], kind: type[T]) -> T:
    """Read the fields of a form; empty ones are as if not sent, ``adapters`` is JSON.

    Raises:
        Refused: a field is missing, unknown or no such value.
    """
    plain: dict[str, Any] = {name: value for name, value in fields.items() if value}
    if adapters := plain.get("adapters"):
        try:
            plain["adapters"] = msgspec.json.decode(adapters)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            message = 'adapters must be a JSON object such as {"sketch": 0.8}.'
            raise Refused(ErrorInfo("invalid_value", message, "adapters")) from None
    try:
        return msgspec.convert(plain, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _refused(error) from None


def _refused(error: msgspec.ValidationError) -> Refused:
    what, _ = located(error)
    if unknown := re.fullmatch(r"Object contains unknown field `(.+)`", what):
        name = unknown[1][:64]
        message = f"Unknown parameter: '{name}'."
        return Refused(ErrorInfo("unknown_parameter", message, name))
    return Refused(wrong_type(error, None))


def check_key(key: str | None) -> str | None:
    """The ``Idempotency-Key`` of a request; an empty one is none.

    Raises:
        Refusal: it is too long.
    """
    if key and len(key) > KEY_CHARS:
        message = f"Idempotency-Key may have at most {KEY_CHARS} characters."
        raise Refusal("invalid_value", message, "Idempotency-Key")
    return key or None


def size_of(asked: Settings, abilities: Abilities) -> tuple[int, int]:
    """Width and height in pixels.

    Raises:
        Refusal: it is no size, or said in two ways.
    """
    size = None if asked.size in (None, "", "auto") else asked.size
    if size is not None and (asked.width is not None or asked.height is not None):
        message = "size: say either size, or width and height."
        raise Refusal("invalid_value", message, "size")
    if size is None:
        width, height = asked.width, asked.height
        return (
            abilities.width if width is None else width,
            abilities.height if height is None else height,
        )
    found = SIZE.fullmatch(size)
    if found is None:
        message = f"size: expected WIDTHxHEIGHT such as {abilities.width}x{abilities.height}."
        raise Refusal("invalid_value", message, "size")
    return int(found[1]), int(found[2])


def task_of(
    asked: Settings,
    model: Served,
    *,
    seed: int,
    size: tuple[int, int],
    inputs: Mapping[str, str] | None = None,
    frames: int | None = None,
    frames_per_second: int | None = None,
) -> MediaTask:
    """One picture or clip, checked against what the model can.

    ``inputs``: names of files by what the family calls them, see :attr:`.job.NewJob.inputs`.

    Raises:
        Refusal: a setting is not allowed; the message names it and what is.
    """
    able = model.abilities
    task = MediaTask(
        kind=able.kind,
        model=model.name,
        prompt=asked.prompt,
        negative_prompt=asked.negative_prompt or "",
        width=size[0],
        height=size[1],
        steps=_steps(asked, able),
        guidance=_guidance(asked, able),
        seed=seed,
        frames=able.frames if frames is None else frames,
        frames_per_second=(
            able.frames_per_second if frames_per_second is None else frames_per_second
        ),
        inputs=dict(inputs or {}),
        strength=_strength(asked, able, inputs or {}),
        adapters=asked.adapters or {},
    )
    if not task.prompt.strip():
        raise Refusal("invalid_value", "prompt must have some text.", "prompt")
    try:
        able.check(task)
    except ValueError as error:
        param = str(error).partition(":")[0]
        raise Refusal("invalid_value", str(error), _FIELDS.get(param, param)) from None
    return task


_FIELDS = {"width": "size", "height": "size", "width, height": "size"}
"""Fields of a task that a client knows by another name."""


def _steps(asked: Settings, able: Abilities) -> int:
    said = said_once("steps", asked.steps, "num_inference_steps", asked.num_inference_steps)
    return able.steps if said is None else said


def _guidance(asked: Settings, able: Abilities) -> float:
    said = said_once("guidance", asked.guidance, "guidance_scale", asked.guidance_scale)
    return able.guidance if said is None else said


def _strength(asked: Settings, able: Abilities, inputs: Mapping[str, str]) -> float:
    if asked.strength is None:
        return DEFAULT_STRENGTH if inputs and able.strength else 1.0
    if not inputs or not able.strength:
        message = "strength: only where a picture goes in, of a model that heeds it."
        raise Refusal("unsupported_value", message, "strength")
    return asked.strength


DEFAULT_STRENGTH = 0.8
"""Of a picture that goes in, where nothing is said."""

N = TypeVar("N", int, float)


def said_once(name: str, value: N | None, other: str, also: N | None) -> N | None:
    """What was said under one of two names.

    Raises:
        Refusal: both were, and differ.
    """
    if value is not None and also is not None and value != also:
        message = f"{name}: said again, differently, as {other}."
        raise Refusal("invalid_value", message, name)
    return also if value is None else value
