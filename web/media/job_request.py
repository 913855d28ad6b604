"""What a job is ordered with at ``POST /v1/jobs``: pictures or a clip, by the same settings."""

from __future__ import annotations

from typing import Literal

from ...codecs.pictures import FORMS
from ...engines.diffusion.task import MediaTask
from ...engines.jobs.inputs import InputReader
from ...engines.media import Served
from ...realtime.refusals import not_one_of
from ...sessions.errors import Refusal
from .asking import Settings, size_of, task_of

SEEDS = 2**32
"""Seeds that are drawn, and counted on from, lie below."""


class JobIn(Settings, kw_only=True, forbid_unknown_fields=True):
    """Pictures, or a clip."""

    kind: Literal["image", "video"]
    n: int | None = None
    """Pictures; their seeds follow each other."""

    output_format: str | None = None
    output_compression: int | None = None
    """0 to 100, the quality of JPEG and WebP."""

    frames: int | None = None
    frames_per_second: int | None = None
    image: str | None = None
    """A ``data:`` or http(s) URL."""

    mask: str | None = None
    """The same; what is transparent, else what is white, is made anew."""


def tasks_of(asked: JobIn, model: Served, seed: int, pictures: int) -> tuple[MediaTask, ...]:
    """The tasks, checked. ``pictures``: most that one job may have.

    Raises:
        Refusal: a setting is not allowed; the message names it and what is.
    """
    _check_kind(asked)
    count = count_of(asked.n, pictures)
    size = size_of(asked, model.abilities)
    inputs = {name: name for name in ("image", "mask") if getattr(asked, name)}
    _check_inputs(model, tuple(inputs))
    return tuple(
        task_of(
            asked,
            model,
            seed=seed_at(seed, at),
            size=size,
            inputs=inputs,
            frames=asked.frames,
            frames_per_second=asked.frames_per_second,
        )
        for at in range(count)
    )


def count_of(n: int | None, most: int) -> int:
    """How many pictures are wanted.

    Raises:
        Refusal: more than one request may ask for, or none.
    """
    count = 1 if n is None else n
    if not 1 <= count <= most:
        message = f"n: must be from 1 to {most} (media.pictures); it is {count}."
        raise Refusal("invalid_value", message, "n")
    return count


def seed_at(seed: int, at: int) -> int:
    """The seed of a job's picture ``at``."""
    return seed if not at else (seed + at) % SEEDS


def format_of(form: str | None, compression: int | None) -> dict[str, object]:
    """How pictures are written, as :attr:`.job.Job.asked` says it.

    Raises:
        Refusal: it is no form of ours, or nothing that it can be compressed by.
    """
    form = form or "png"
    if form not in FORMS:
        raise not_one_of("output_format", form, FORMS)
    if compression is None:
        return {"output_format": form}
    if form == "png":
        message = "output_compression: a PNG loses nothing; use jpeg or webp."
        raise Refusal("unsupported_value", message, "output_compression")
    if not 0 <= compression <= 100:
        message = f"output_compression: must be from 0 to 100; it is {compression}."
        raise Refusal("invalid_value", message, "output_compression")
    return {"output_format": form, "output_compression": compression}


def _check_inputs(model: Served, given: tuple[str, ...]) -> None:
    taken = model.abilities.inputs
    if given in taken:
        return
    known = " or ".join(" and ".join(names) or "none" for names in taken)
    message = (
        f"pictures that go in: {model.name} takes {known}, not {' and '.join(given) or 'none'}."
    )
    if given:
        raise Refusal("unsupported_value", message, given[-1])
    raise Refusal("missing_required_parameter", message, "image")


def _check_kind(asked: JobIn) -> None:
    video = asked.kind == "video"
    others = ("n", "output_format", "output_compression", "mask") if video else ("frames",)
    others = others if video else (*others, "frames_per_second")
    for name in others:
        if getattr(asked, name) is not None:
            message = f"{name}: not of a {asked.kind}."
            raise Refusal("unsupported_value", message, name)


async def inputs_of(asked: JobIn, reader: InputReader) -> dict[str, tuple[bytes, int, int]]:
    """Pictures that go in, with width and height.

    Raises:
        InputRefused: one can't be had, or is none.
    """
    found: dict[str, tuple[bytes, int, int]] = {}
    if asked.image:
        image = await reader.picture(asked.image, "image")
        found["image"] = (image.png, image.width, image.height)
    if asked.mask:
        mask = await reader.mask(asked.mask, "mask")
        found["mask"] = (mask.png, mask.width, mask.height)
    return found
