"""What is stored of a result."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest

from antiphon.codecs.movies import read_movie_parameters
from antiphon.codecs.pictures import decode_picture, read_parameters
from antiphon.engines.diffusion.task import MediaTask, Picture
from antiphon.engines.jobs.job import Job
from antiphon.engines.jobs.results import encode_result

TASK = MediaTask(
    kind="image",
    model="m",
    prompt="a cat",
    width=32,
    height=16,
    steps=4,
    guidance=1.0,
    seed=7,
    inputs={"image": "jobs/x/in/0"},
)
PICTURE = Picture(np.full((3, 16, 32, 3), 90, np.uint8), facts={"scheduler": "Euler"})


@pytest.mark.parametrize(
    ("asked", "suffix", "kind"),
    [
        ({}, ".png", "image/png"),
        ({"output_format": "webp", "output_compression": 80}, ".webp", "image/webp"),
        ({"output_format": "jpeg"}, ".jpeg", "image/jpeg"),
    ],
)
def test_a_picture_says_how_to_make_it_again(
    asked: dict[str, object], suffix: str, kind: str
) -> None:
    job = Job(id="image_1", kind="image", tasks=(TASK, TASK), asked=asked, created_at=1.0)
    content, thumbnail = encode_result(job, 1, PICTURE)
    assert (content.name, content.suffix, content.type) == ("content-1", suffix, kind)
    assert thumbnail.name == "thumbnail-1"
    assert abs(int(decode_picture(content.data, max_pixels=10_000)[3, 3, 0]) - 90) < 3
    told = json.loads(read_parameters(content.data) or "")
    assert (told["prompt"], told["seed"], told["made_by"]) == ("a cat", 7, {"scheduler": "Euler"})
    assert "jobs/x" not in json.dumps(told)


def test_a_clip_has_its_stills() -> None:
    task = msgspec.structs.replace(TASK, kind="video", frames=3, frames_per_second=8)
    job = Job(id="video_1", kind="video", tasks=(task,), created_at=1.0)
    files = {each.name: each for each in encode_result(job, 0, PICTURE)}
    assert {name: each.type for name, each in files.items()} == {
        "content": "video/mp4",
        "thumbnail": "image/webp",
        "spritesheet": "image/jpeg",
    }
    assert json.loads(read_movie_parameters(files["content"].data) or "")["frames"] == 3
