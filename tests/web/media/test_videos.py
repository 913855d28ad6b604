"""``/v1/videos`` as a client sees it, over jobs that the test moves on."""

from __future__ import annotations

import asyncio
import io
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.testclient import TestClient
from starlette.types import Message
from tests.support.fake_desk import FakeDesk
from tests.support.loop import run_simulated
from tests.support.waiting import until

from antiphon.codecs.pictures import decode_picture, encode_picture
from antiphon.engines.diffusion.switches import DiffuserConfig
from antiphon.engines.jobs.job import Job, NewJob
from antiphon.engines.media import MediaConfig, Served, served_models
from antiphon.web.media import videos
from antiphon.web.media.service import MediaService
from antiphon.web.media.videos import VideoRoutes, poll_after_ms, video_of

Json = dict[str, Any]

PATH = "/v1/videos"
MP4, WEBP, JPEG = b"mp4" * 100, b"webp", b"jpeg"
FILES = {
    "content": ("video/mp4", MP4),
    "thumbnail": ("image/webp", WEBP),
    "spritesheet": ("image/jpeg", JPEG),
}
STILLS = ("thumbnail", "spritesheet")
ASKED = {"prompt": "a cat that runs", "seconds": "2", "size": "96x64"}


class Rig:
    """The routes over a desk in memory. Who asks is told by a header alone."""

    def __init__(self, *, pictures: bool = False, **config: Any) -> None:
        self.desk = FakeDesk()
        media = MediaConfig(**config)
        models = dict(served_models(media))
        if pictures:
            models = {name: _taking_pictures(each) for name, each in models.items()}
        gate = SimpleNamespace(owner_of=_asker)
        self.service = MediaService(media, models, self.desk, cast("Any", gate))
        self.app = Starlette(routes=VideoRoutes(self.service).routes())
        self.client = TestClient(self.app)

    def create(self, **more: Any) -> Json:
        answer = self.client.post(PATH, json={**ASKED, **more})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def completed(self, **more: Any) -> str:
        """Id of a video that is done."""
        name = str(self.create(**more)["id"])
        asyncio.run(self.desk.begin(name))
        asyncio.run(self.desk.complete(name, FILES))
        return name

    def at_once(self, code: str | None = None) -> None:
        """See that jobs end as soon as they are handed in; with a code they fail."""
        submit = self.desk.submit

        async def end(new: NewJob) -> Job:
            job = await submit(new)
            await self.desk.begin(job.id)
            if code is None:
                await self.desk.complete(job.id, FILES)
            else:
                await self.desk.fail(job.id, code, "it went wrong")
            return job

        self.desk.submit = end  # type: ignore[method-assign]


def _asker(request: HTTPConnection) -> str:
    return request.headers.get("authorization", "")


def _taking_pictures(model: Served) -> Served:
    able = msgspec.structs.replace(model.abilities, inputs=((), ("image",)))
    return Served(model.name, model.config, able)


def refused(answer: Any, status: int, code: str, param: str | None = None) -> str:
    assert answer.status_code == status, answer.text
    error: Json = answer.json()["error"]
    assert (error["code"], error["param"]) == (code, param), error
    return str(error["message"])


def picture(width: int, height: int) -> bytes:
    """Red left of the middle, blue right of it."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2, 0] = 255
    pixels[:, width // 2 :, 2] = 255
    return encode_picture(pixels)


def test_a_video_from_its_beginning_to_its_end() -> None:
    rig = Rig()
    made = rig.create(seed=5, steps=4)
    name = made["id"]
    assert made == {
        "id": name,
        "object": "video",
        "model": "antiphon-move",
        "status": "queued",
        "progress": 0,
        "created_at": made["created_at"],
        "completed_at": None,
        "expires_at": None,
        "size": "96x64",
        # 17 frames, the allowed number that is next to 16.
        "seconds": "2.125",
        "prompt": "a cat that runs",
        "remixed_from_video_id": None,
        "error": None,
        "seed": 5,
        "steps": 4,
        "guidance": rig.service.models["antiphon-move"].abilities.guidance,
        "frames": 17,
        "frames_per_second": 8,
        "step_ms": 0,
        "remaining_ms": None,
    }
    asyncio.run(rig.desk.begin(name))
    asyncio.run(rig.desk.progress(name, 25))
    polled = rig.client.get(f"{PATH}/{name}")
    assert (polled.json()["status"], polled.json()["progress"]) == ("in_progress", 25)
    assert polled.headers["openai-poll-after-ms"].isdecimal()
    asyncio.run(rig.desk.complete(name, FILES))
    polled = rig.client.get(f"{PATH}/{name}")
    assert (polled.json()["status"], polled.json()["progress"]) == ("completed", 100)
    assert isinstance(polled.json()["completed_at"], int)
    assert "openai-poll-after-ms" not in polled.headers


def test_failed_and_cancelled_ones_are_told_and_not_raised() -> None:
    rig = Rig()
    failed, cancelled = rig.create()["id"], rig.create()["id"]
    asyncio.run(rig.desk.begin(failed))
    asyncio.run(rig.desk.fail(failed, "out_of_memory", "the model's memory is full"))
    asyncio.run(rig.desk.cancel(cancelled, ""))
    for name, code in ((failed, "out_of_memory"), (cancelled, "cancelled")):
        answer = rig.client.get(f"{PATH}/{name}")
        assert (answer.status_code, answer.json()["status"]) == (200, "failed")
        assert answer.json()["error"]["code"] == code
        assert answer.json()["completed_at"] is None
        told = refused(rig.client.get(f"{PATH}/{name}/content"), 409, code)
        assert told.startswith("There is no content, as the video failed: ")


def test_polls_come_by_what_remains() -> None:
    rig = Rig()
    job = asyncio.run(rig.desk.get(rig.create()["id"], ""))
    assert poll_after_ms(job) == 500
    for remaining, after in ((0.0, 200), (9000.0, 900), (1e9, 5000), (None, 500)):
        now = msgspec.structs.replace(job, state="in_progress", remaining_ms=remaining)
        assert poll_after_ms(now) == after
        assert video_of(now)["remaining_ms"] == remaining


def test_a_repeated_request_is_the_same_video() -> None:
    rig, key = Rig(), {"Idempotency-Key": "k1"}
    one = rig.client.post(PATH, json=ASKED, headers=key).json()
    again = rig.client.post(PATH, json=ASKED, headers=key).json()
    assert (one["id"], one["seed"]) == (again["id"], again["seed"])
    other = rig.client.post(PATH, json={**ASKED, "steps": 2}, headers=key)
    refused(other, 409, "idempotency_mismatch", "Idempotency-Key")
    long = rig.client.post(PATH, json=ASKED, headers={"Idempotency-Key": "k" * 256})
    refused(long, 400, "invalid_value", "Idempotency-Key")


def test_the_list_goes_on_where_the_last_page_ended() -> None:
    rig = Rig()
    names = [rig.create()["id"] for _ in range(5)]
    page = rig.client.get(PATH, params={"limit": 2}).json()
    assert page["object"] == "list"
    assert [each["id"] for each in page["data"]] == names[:2:-1]
    assert (page["first_id"], page["last_id"], page["has_more"]) == (names[4], names[3], True)
    rest = rig.client.get(PATH, params={"after": page["last_id"]}).json()
    assert [each["id"] for each in rest["data"]] == names[2::-1]
    assert rest["has_more"] is False
    rising = rig.client.get(PATH, params={"order": "asc", "limit": 1}).json()
    assert rising["first_id"] == names[0]
    empty = rig.client.get(PATH, headers={"Authorization": "other"}).json()
    assert (empty["data"], empty["first_id"], empty["last_id"]) == ([], None, None)


@pytest.mark.parametrize("said", ["0", "101", "-1", "x", "9" * 5000, "\u0661"])
def test_pages_have_a_size(said: str) -> None:
    refused(Rig().client.get(PATH, params={"limit": said}), 400, "invalid_value", "limit")


def test_the_list_says_what_can_be_asked() -> None:
    client = Rig().client
    refused(client.get(PATH, params={"order": "up"}), 400, "invalid_value", "order")
    for after in ("video_0", "\0", "v" * 5000):
        refused(client.get(PATH, params={"after": after}), 404, "not_found", "after")


def test_who_deletes_a_video_stops_it() -> None:
    rig = Rig()
    name = rig.create()["id"]
    asyncio.run(rig.desk.begin(name))
    answer = rig.client.delete(f"{PATH}/{name}")
    assert answer.json() == {"id": name, "deleted": True, "object": "video.deleted"}
    refused(rig.client.get(f"{PATH}/{name}"), 404, "not_found")
    refused(rig.client.delete(f"{PATH}/{name}"), 404, "not_found")


def test_others_see_nothing_of_it() -> None:
    rig = Rig()
    name, other = rig.completed(), {"Authorization": "other"}
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/content"),
        ("HEAD", "/content"),
        ("POST", "/remix"),
    ):
        answer = rig.client.request(method, f"{PATH}/{name}{path}", headers=other)
        assert answer.status_code == 404
    assert rig.client.get(f"{PATH}/{name}").json()["status"] == "completed"


def test_what_is_no_video_is_not_there() -> None:
    rig = Rig()
    job = asyncio.run(rig.desk.get(rig.create()["id"], ""))
    new = NewJob(kind="image", tasks=job.tasks)
    image = asyncio.run(rig.desk.submit(new)).id
    for name in (image, "video_1", "%00", "v" * 5000):
        refused(rig.client.get(f"{PATH}/{name}"), 404, "not_found")
        refused(rig.client.delete(f"{PATH}/{name}"), 404, "not_found")


def test_the_files_of_a_video() -> None:
    rig = Rig()
    path = f"{PATH}/{rig.completed()}/content"
    for variant, name in (("", "content"), ("video", "content"), *zip(STILLS, STILLS, strict=True)):
        answer = rig.client.get(path, params={"variant": variant})
        assert (answer.headers["content-type"], answer.content) == FILES[name]
    part = rig.client.get(path, headers={"Range": "bytes=3-5"})
    assert (part.status_code, part.content) == (206, MP4[3:6])
    assert rig.client.head(path).headers["content-length"] == str(len(MP4))
    told = refused(rig.client.get(path, params={"variant": "gif"}), 400, "invalid_value", "variant")
    assert "'spritesheet'" in told


def test_there_is_no_content_before_the_end() -> None:
    rig = Rig()
    name = rig.create()["id"]
    asyncio.run(rig.desk.begin(name))
    asyncio.run(rig.desk.progress(name, 40))
    told = refused(rig.client.get(f"{PATH}/{name}/content"), 409, "not_ready")
    assert "40 per cent" in told
    assert f"GET {PATH}/{name}" in told


def test_a_picture_goes_in_as_large_as_the_clip_and_a_remix_has_its_own_copy() -> None:
    rig = Rig(pictures=True)
    parts = {name: (None, value) for name, value in ASKED.items()}
    file = {"input_reference": ("a.png", io.BytesIO(picture(200, 100)), "image/png")}
    made = rig.client.post(PATH, files=cast("Any", {**parts, **file}))
    assert made.status_code == 200, made.text
    remix = rig.client.post(f"{PATH}/{made.json()['id']}/remix", json={"prompt": "a dog"})
    assert remix.status_code == 200, remix.text
    for each in (made, remix):
        job = asyncio.run(rig.desk.get(each.json()["id"], ""))
        key = job.tasks[0].inputs["image"]
        assert job.id in key
        pixels = decode_picture(rig.desk.stored_inputs[key], max_pixels=10_000)
        assert pixels.shape == (64, 96, 3)
        # Cut off above and below, or at the sides: never pressed together.
        assert pixels[32, 10].tolist() == [255, 0, 0]
        assert pixels[32, 85].tolist() == [0, 0, 255]
    broken = {"input_reference": ("a.png", b"no picture", "image/png")}
    answer = rig.client.post(PATH, files=cast("Any", {**parts, **broken}))
    refused(answer, 400, "not_picture", "input_reference")


def test_a_remix_is_of_the_same_seed_and_size() -> None:
    rig = Rig()
    name = rig.completed(seed=9, steps=3)
    answer = rig.client.post(f"{PATH}/{name}/remix", json={"prompt": "a dog"})
    remix = answer.json()
    assert (remix["status"], remix["remixed_from_video_id"]) == ("queued", name)
    assert (remix["seed"], remix["steps"], remix["size"]) == (9, 3, "96x64")
    assert (remix["prompt"], remix["frames"]) == ("a dog", 17)
    path = f"{PATH}/{name}/remix"
    refused(rig.client.post(path, json={}), 400, "missing_required_parameter", "prompt")


def test_a_whole_video_in_one_answer() -> None:
    rig = Rig()
    rig.at_once()
    answer = rig.client.post(f"{PATH}/sync", json=ASKED)
    assert (answer.status_code, answer.content) == (200, MP4)
    assert answer.headers["content-type"] == "video/mp4"
    name = answer.headers["x-antiphon-job"]
    assert rig.client.get(f"{PATH}/{name}").json()["status"] == "completed"


def test_a_video_that_fails_in_one_answer() -> None:
    rig = Rig()
    rig.at_once("bad_input")
    answer = rig.client.post(f"{PATH}/sync", json=ASKED)
    assert refused(answer, 400, "bad_input") == "It went wrong."
    assert answer.headers["x-antiphon-job"].startswith("video_")


def test_a_client_that_leaves_stops_the_video_it_waits_for() -> None:
    rig = Rig()

    async def story() -> None:
        body = msgspec.json.encode(ASKED)
        left = asyncio.Event()

        async def receive() -> Message:
            nonlocal body
            if body:
                now, body = body, b""
                return {"type": "http.request", "body": now, "more_body": False}
            await until(lambda: rig.service.waiting == 1)
            left.set()
            return {"type": "http.disconnect"}

        async def send(_message: Message) -> None:
            assert left.is_set()

        scope: Json = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": f"{PATH}/sync",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
        }
        await rig.app(scope, receive, send)
        page = await rig.desk.list(None, "", after=None, limit=9, order="asc")
        assert [job.state for job in page.jobs] == ["cancelled"]

    run_simulated(story())


@pytest.mark.parametrize("path", ["edits", "extensions", "characters", "characters/char_1"])
def test_what_no_model_can_do_is_refused_by_name(path: str) -> None:
    told = refused(Rig().client.post(f"{PATH}/{path}"), 400, "unsupported_value")
    assert told.startswith(f"{PATH}/{path.partition('/')[0]}: no model here")


def test_requests_that_are_being_read_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    name = rig.completed()
    monkeypatch.setattr(videos, "READING", 0)
    for path in ("", "/sync", f"/{name}/remix"):
        answer = rig.client.post(PATH + path, json=ASKED)
        refused(answer, 429, "queue_full")
        assert int(answer.headers["retry-after"]) > 0


def test_what_a_deployment_lacks_is_refused() -> None:
    hook = {**ASKED, "webhook": "https://example.com/done"}
    refused(Rig().client.post(PATH, json=hook), 400, "unsupported_value", "webhook")
    other = {**ASKED, "model": "other"}
    refused(Rig().client.post(PATH, json=other), 400, "invalid_value", "model")
    draw = {"draw": DiffuserConfig(path="placeholder-image")}
    only = Rig(models=draw).client.post(PATH, json=ASKED)
    refused(only, 404, "model_not_found", "model")
