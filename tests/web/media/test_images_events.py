"""Pictures that are told while they form."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.support.loop import run_simulated

from antiphon.codecs.picture_headers import read_header
from antiphon.engines.diffusion.task import MediaTask
from antiphon.engines.jobs.job import NewJob
from antiphon.web.media.common import HEARTBEAT_SECONDS
from antiphon.web.media.image_events import NOTHING, ImageEvents
from antiphon.web.media.image_request import AskedImage, ImageIn

from .painter import PATH, PREVIEW, Painter, painted, scene
from .rig import Json, Rig

ALL = range(0, 100, 5)


def events(text: str) -> list[Json]:
    return [msgspec.json.decode(line[6:]) for line in text.split("\n") if line.startswith("data: ")]


def streamed(rig: Painter, **more: Any) -> list[Json]:
    asked = {"prompt": "a cat", "size": "64x64", "seed": 7, "stream": True, **more}
    answer = rig.visitor().post(f"{PATH}/generations", json=asked)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-antiphon-job"] == rig.jobs[-1].id
    return events(answer.text)


def test_the_events_of_two_pictures() -> None:
    rig = Painter(percents=ALL)
    told = streamed(rig, n=2, partial_images=2, quality="low")
    files = [base64.b64decode(event.pop("b64_json")) for event in told]
    assert [read_header(file) is not None for file in files] == [True] * 4 + [False] * 2
    assert files[4:] == [painted(0), painted(1)]
    (job,) = rig.jobs
    facts = {
        "created_at": int(job.created_at),
        "background": "opaque",
        "output_format": "png",
        "quality": "low",
        "size": "64x64",
        "job": job.id,
    }
    partial = {"type": "image_generation.partial_image", **facts}
    assert told[:4] == [
        {**partial, "partial_image_index": index, "image_index": at, "seed": 7 + at}
        for index in range(2)
        for at in range(2)
    ]
    for at, event in enumerate(told[4:]):
        assert event.pop("usage")["total_tokens"] == 0
        done = {"type": "image_generation.completed", **facts}
        assert event == {**done, "image_index": at, "seed": 7 + at}


@pytest.mark.parametrize(
    ("asked", "percents", "count"),
    [(0, ALL, 0), (3, ALL, 3), (3, (30, 60), 2), (1, (10, 20), 0), (3, (99, 99, 99, 99), 3)],
)
def test_partial_pictures_are_never_more_than_asked(
    asked: int, percents: Sequence[int], count: int
) -> None:
    told = streamed(Painter(percents=percents), partial_images=asked)
    assert [event.get("partial_image_index") for event in told] == [*range(count), None]


@pytest.mark.parametrize(
    ("form", "compression", "kind"),
    [("png", None, "png"), ("webp", 40, "webp"), ("jpeg", 40, "jpeg"), ("jpeg", None, "jpeg")],
)
def test_partial_pictures_come_in_the_form_that_was_asked_for(
    form: str, compression: int | None, kind: str
) -> None:
    more = {"output_format": form, "output_compression": compression}
    told = streamed(Painter(percents=(60,)), partial_images=1, **more)
    file = base64.b64decode(told[0]["b64_json"])
    header = read_header(file)
    assert header is not None
    assert (header.form, told[0]["output_format"]) == (kind, form)
    assert (file == PREVIEW) == (form == "jpeg" and compression is None)


def test_an_edit_has_events_of_its_own_name() -> None:
    fields = {"prompt": "a cat", "stream": "true", "partial_images": "1"}
    answer = (
        Painter(percents=(90,))
        .visitor()
        .post(f"{PATH}/edits", data=fields, files={"image": ("a.png", scene(64, 64))})
    )
    kinds = [event["type"] for event in events(answer.text)]
    assert kinds == ["image_edit.partial_image", "image_edit.completed"]


def test_what_fails_is_told_as_an_error() -> None:
    told = streamed(Painter(code="out_of_memory"))
    error = {"message": "It went wrong.", "type": "server_error", "param": None}
    assert told == [{"error": {**error, "code": "out_of_memory"}}]


TASK = MediaTask(
    kind="image",
    model="antiphon-draw",
    prompt="a cat",
    width=64,
    height=64,
    steps=4,
    guidance=1.0,
    seed=1,
)


def followed(rig: Rig) -> ImageEvents:
    new = NewJob(kind="image", tasks=(TASK,), asked={"output_format": "png"}, owner="me")
    return ImageEvents(rig.service, new, AskedImage("generation", ImageIn(prompt="a cat")))


def test_a_stream_beats_while_its_job_waits_and_ends_when_that_takes_too_long() -> None:
    async def story() -> None:
        rig = Rig(wait_seconds=25)
        loop = asyncio.get_running_loop()
        pieces = [(loop.time(), piece) async for piece in followed(rig).pieces()]
        beats = [at for at, piece in pieces if piece == NOTHING]
        assert beats == [0, HEARTBEAT_SECONDS, 2 * HEARTBEAT_SECONDS]
        at, last = pieces[-1]
        assert (at, events(last.decode())[0]["error"]["code"]) == (25, "wait_timeout")
        assert [job.state for job in rig.desk.jobs.values()] == ["cancelled"]
        assert rig.service.waiting == 0

    run_simulated(story())


def test_a_stream_whose_job_is_deleted_says_so() -> None:
    async def story() -> None:
        rig = Rig()
        stream = followed(rig)
        pieces = stream.pieces()
        assert await anext(pieces) == NOTHING
        await rig.desk.delete(stream.job.id, "me")
        (last,) = [piece async for piece in pieces]
        assert events(last.decode())[0]["error"]["code"] == "not_found"

    run_simulated(story())
