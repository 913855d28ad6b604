"""The files of what was made: pictures in the form that was asked for, clips with their stills."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...codecs.movies import encode_movie
from ...codecs.pictures import CONTENT_TYPES, FORMS, encode_picture
from ...codecs.stills import encode_spritesheet, encode_thumbnail
from ..diffusion.task import Picture
from .job import Job
from .making import File


def encode_result(job: Job, at: int, picture: Picture) -> Sequence[File]:
    """The files of a job's task ``at``. Blocks for as long as the encoders need.

    Of :attr:`.job.Job.asked` are heeded ``output_format`` (``png``, ``jpeg``, ``webp``) and
    ``output_compression`` (0 to 100, of the latter two). Each file carries the parameters that
    make it again.
    """
    parameters = parameters_of(job, at, picture)
    if job.kind == "video":
        return _clip(job, at, picture, parameters)
    form = job.asked.get("output_format")
    form = form if form in FORMS else "png"
    quality = job.asked.get("output_compression")
    data = encode_picture(
        picture.frames[0],
        form,
        quality=quality if isinstance(quality, int) and form != "png" else None,
        parameters=parameters,
    )
    files = [File(_name("content", at), f".{form}", CONTENT_TYPES[form], data)]
    thumbnail = encode_thumbnail(picture.frames)
    return [*files, File(_name("thumbnail", at), ".webp", "image/webp", thumbnail)]


def _clip(job: Job, at: int, picture: Picture, parameters: str) -> Sequence[File]:
    movie = encode_movie(
        picture.frames,
        job.tasks[at].frames_per_second,
        audio=picture.audio,
        audio_rate=picture.audio_rate,
        parameters=parameters,
    )
    return [
        File(_name("content", at), ".mp4", "video/mp4", movie),
        File(_name("thumbnail", at), ".webp", "image/webp", encode_thumbnail(picture.frames)),
        File(_name("spritesheet", at), ".jpg", "image/jpeg", encode_spritesheet(picture.frames)),
    ]


def _name(name: str, at: int) -> str:
    return f"{name}-{at}" if at else name


def parameters_of(job: Job, at: int, picture: Picture) -> str:
    """All that is needed to make a result again, as JSON; keys of the store are left out, as
    they say nothing to who has the file."""
    task = msgspec.structs.replace(job.tasks[at], inputs=dict.fromkeys(job.tasks[at].inputs, ""))
    plain: dict[str, object] = {**msgspec.to_builtins(task), "made_by": picture.facts}
    return msgspec.json.encode(plain).decode()
