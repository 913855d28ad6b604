"""``/v1/jobs`` as a client sees it, over jobs that the test moves on."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import numpy as np
import pytest
from starlette.types import Message
from tests.support.loop import run_simulated
from tests.support.waiting import until

from antiphon.codecs.pictures import decode_picture, encode_picture
from antiphon.engines.diffusion.task import MediaTask
from antiphon.engines.jobs.job import NewJob
from antiphon.web.media.common import HEARTBEAT_SECONDS

from .rig import YOURS, Json, Rig

PATH = "/v1/jobs"
ASKED = {"kind": "image", "prompt": "a cat", "size": "64x64", "steps": 4, "seed": 7}


def create(client: Any, **more: Any) -> Json:
    answer = client.post(PATH, json={**ASKED, **more})
    assert answer.status_code == 202, answer.text
    body: Json = answer.json()
    assert answer.headers["location"] == f"{PATH}/{body['id']}"
    return body


def refused(answer: Any, status: int, code: str, param: str | None = None) -> str:
    assert answer.status_code == status, answer.text
    error: Json = answer.json()["error"]
    assert (error["code"], error["param"]) == (code, param), error
    return str(error["message"])


def data_url(side: int = 8) -> str:
    png = encode_picture(np.full((side, side, 3), 200, np.uint8))
    return "data:image/png;base64," + base64.b64encode(png).decode()


def test_pictures_from_their_order_to_their_files() -> None:
    rig = Rig()
    client = rig.visitor()
    job = create(client, n=2, output_format="webp", output_compression=70)
    assert (job["object"], job["kind"], job["state"], job["progress"]) == (
        "job",
        "image",
        "queued",
        0,
    )
    assert job["asked"] == {"output_format": "webp", "output_compression": 70}
    assert [task["seed"] for task in job["tasks"]] == [7, 8]
    assert job["tasks"][0] | {"seed": 0} == job["tasks"][1] | {"seed": 0}
    assert {name: job["tasks"][0][name] for name in ("model", "width", "steps", "inputs")} == {
        "model": "antiphon-draw",
        "width": 64,
        "steps": 4,
        "inputs": [],
    }
    one = f"{PATH}/{job['id']}"
    asyncio.run(rig.desk.begin(job["id"]))
    asyncio.run(rig.desk.progress(job["id"], 25))
    running = client.get(one).json()
    assert (running["state"], running["progress"], running["attempts"]) == ("in_progress", 25, 1)
    assert (running["step_ms"], running["remaining_ms"]) == (10.0, 75.0)
    early = client.get(f"{one}/content?variant=content-1")
    assert "25 per cent" in refused(early, 409, "not_ready")
    files = {"content": ("image/webp", b"one"), "content-1": ("image/webp", b"two")}
    asyncio.run(rig.desk.complete(job["id"], files))
    done = client.get(one).json()
    assert (done["state"], done["progress"]) == ("completed", 100)
    assert done["version"] > running["version"] > job["version"]
    assert done["started_at"] < done["ended_at"]
    assert [client.get(each["url"]).content for each in done["artefacts"]] == [b"one", b"two"]
    assert client.get(f"{one}/content").content == b"one"
    unknown = refused(client.get(f"{one}/content?variant=x"), 400, "invalid_value", "variant")
    assert "'content-1'" in unknown


def test_a_clip_and_the_picture_that_it_begins_with() -> None:
    facts = {"path": "placeholder-video"}
    rig = Rig(models={"move": facts})
    client = rig.visitor()
    answer = client.post(PATH, json={**ASKED, "kind": "video", "frames": 5, "image": data_url()})
    assert "move takes none" in refused(answer, 400, "unsupported_value", "image")
    job = create(client, kind="video", frames=5, frames_per_second=4)
    assert (job["tasks"][0]["frames"], job["tasks"][0]["frames_per_second"]) == (5, 4)
    assert (job["asked"], job["tasks"][0]["model"]) == ({}, "move")


def test_pictures_that_go_in_are_brought_to_size_and_can_be_had_again() -> None:
    rig = Rig()
    client, other = rig.visitor(), rig.visitor(YOURS)
    job = create(client, image=data_url(), mask=data_url(), strength=0.5, n=2)
    assert [task["inputs"] for task in job["tasks"]] == [["image", "mask"]] * 2
    assert len(rig.desk.stored_inputs) == 2
    url = f"{PATH}/{job['id']}/content?variant=input-image"
    again = client.get(url)
    assert again.headers["content-type"] == "image/png"
    assert decode_picture(again.content, max_pixels=64 * 64).shape == (64, 64, 3)
    refused(other.get(url), 404, "not_found")
    unlike = {**ASKED, "image": data_url(), "mask": data_url(9)}
    refused(client.post(PATH, json=unlike), 400, "invalid_value", "mask")


@pytest.mark.parametrize(
    ("more", "code", "param"),
    [
        ({"kind": "sound"}, "invalid_value", "kind"),
        ({"prompt": " "}, "invalid_value", "prompt"),
        ({"n": 11}, "invalid_value", "n"),
        ({"kind": "video", "n": 2}, "unsupported_value", "n"),
        ({"frames": 5}, "unsupported_value", "frames"),
        ({"output_format": "gif"}, "invalid_value", "output_format"),
        ({"output_compression": 5}, "unsupported_value", "output_compression"),
        (
            {"output_format": "jpeg", "output_compression": 101},
            "invalid_value",
            "output_compression",
        ),
        ({"mask": "data:,"}, "unsupported_value", "mask"),
        ({"image": "data:image/png;base64,AAAA"}, "not_picture", "image"),
        ({"image": "https://example.com/a.png"}, "url_not_allowed", "image"),
        ({"seed": -1}, "invalid_value", "seed"),
        ({"steps": 0}, "invalid_value", "steps"),
        ({"model": "antiphon-move"}, "invalid_value", "model"),
        ({"colour": "red"}, "unknown_parameter", "colour"),
        ({"webhook": "https://example.com/"}, "unsupported_value", "webhook"),
    ],
)
def test_what_can_not_be_is_refused(more: Json, code: str, param: str) -> None:
    rig = Rig()
    client = rig.visitor()
    refused(client.post(PATH, json={**ASKED, **more}), 400, code, param)
    assert not rig.desk.jobs


def test_the_same_key_is_the_same_job() -> None:
    rig = Rig()
    client = rig.visitor()
    asked = {name: value for name, value in ASKED.items() if name != "seed"}
    key = {"Idempotency-Key": "once"}
    first, again = (client.post(PATH, json=asked, headers=key).json() for _ in range(2))
    assert first == again
    other = client.post(PATH, json={**asked, "prompt": "a dog"}, headers=key)
    refused(other, 409, "idempotency_mismatch", "Idempotency-Key")
    assert create(client, seed=None)["tasks"][0]["seed"] < 2**32
    assert len(rig.desk.jobs) == 2


def test_lists_tell_of_a_kind_and_of_a_state() -> None:
    rig = Rig()
    client, other = rig.visitor(), rig.visitor(YOURS)
    pictures = [create(client)["id"] for _ in range(3)]
    clip = create(client, kind="video")["id"]
    create(other)
    asyncio.run(rig.desk.begin(pictures[1]))
    client.post(f"{PATH}/{pictures[2]}/cancel")

    def ids(query: str) -> list[str]:
        return [job["id"] for job in client.get(f"{PATH}?{query}").json()["data"]]

    assert ids("") == [clip, *pictures[::-1]]
    assert ids("kind=image&order=asc") == pictures
    assert ids("state=queued") == [clip, pictures[0]]
    assert ids("state=cancelled&kind=video") == []
    page = client.get(f"{PATH}?limit=1&state=queued").json()
    assert (page["first_id"], page["last_id"], page["has_more"]) == (clip, clip, True)
    assert ids(f"limit=1&state=queued&after={clip}") == [pictures[0]]
    for query, param in (("kind=sound", "kind"), ("state=done", "state"), ("limit=0", "limit")):
        refused(client.get(f"{PATH}?{query}"), 400, "invalid_value", param)
    for after in ("image_nothing", "%00"):
        refused(client.get(f"{PATH}?after={after}"), 404, "not_found", "after")


def test_a_job_is_cancelled_and_deleted_by_its_owner_alone() -> None:
    rig = Rig()
    client, other = rig.visitor(), rig.visitor(YOURS)
    name = create(client)["id"]
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/cancel"),
        ("GET", "/content"),
        ("GET", "/events"),
    ):
        refused(other.request(method, f"{PATH}/{name}{path}"), 404, "not_found")
    refused(client.get(f"{PATH}/a%00b"), 404, "not_found")
    cancelled = client.post(f"{PATH}/{name}/cancel").json()
    assert (cancelled["state"], cancelled["error"]["code"]) == ("cancelled", "cancelled")
    gone = client.delete(f"{PATH}/{name}").json()
    assert gone == {"id": name, "deleted": True, "object": "job.deleted"}
    refused(client.delete(f"{PATH}/{name}"), 404, "not_found")
    assert not rig.desk.jobs


class Stream:
    """A client that reads the events of a job, message by message."""

    def __init__(self, rig: Rig, name: str, last: int | None = None) -> None:
        headers = [(b"authorization", b"Bearer sk-mine")]
        if last is not None:
            headers.append((b"last-event-id", str(last).encode()))
        self.scope = {
            "type": "http",
            "method": "GET",
            "path": f"{PATH}/{name}/events",
            "raw_path": b"",
            "query_string": b"",
            "headers": headers,
            "client": ("there", 1),
        }
        self.rig = rig
        self.status = 0
        self.text = ""
        self._gone = asyncio.Event()
        self._asked = False
        self.task = asyncio.create_task(rig.app(self.scope, self._receive, self._send))

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.status = message.get("status", self.status)
        self.text += message.get("body", b"").decode()

    async def leave(self) -> None:
        self._gone.set()
        await self.task

    @property
    def names(self) -> list[str]:
        """Of the events so far."""
        return [line[7:] for line in self.text.split("\n") if line.startswith("event: ")]

    @property
    def bodies(self) -> list[Json]:
        lines = self.text.split("\n")
        return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]

    @property
    def ids(self) -> list[int]:
        return [int(line[4:]) for line in self.text.split("\n") if line.startswith("id: ")]


async def submitted(rig: Rig) -> str:
    task = MediaTask(
        kind="image",
        model="antiphon-draw",
        prompt="a cat",
        width=64,
        height=64,
        steps=4,
        guidance=1.0,
        seed=1,
    )
    return (await rig.desk.submit(NewJob(kind="image", tasks=(task,), owner=rig.owner()))).id


def test_events_tell_a_job_to_its_end() -> None:
    async def story() -> None:
        rig = Rig()
        name = await submitted(rig)
        stream = Stream(rig, name)
        await until(lambda: stream.names == ["job.queued"])
        await rig.desk.begin(name)
        await until(lambda: len(stream.names) == 2)
        await rig.desk.progress(name, 50, b"jpeg", 1)
        await until(lambda: len(stream.names) == 4)
        await rig.desk.complete(name, {"content": ("image/png", b"png")})
        await stream.task
        assert stream.names == [
            "job.queued",
            "job.progress",
            "job.progress",
            "job.preview",
            "job.completed",
        ]
        _, begun, half, preview, done = stream.bodies
        assert (begun["state"], half["progress"]) == ("in_progress", 50)
        assert preview == {
            "id": name,
            "picture": 1,
            "image": "data:image/jpeg;base64," + base64.b64encode(b"jpeg").decode(),
        }
        assert done["artefacts"][0]["name"] == "content"
        assert stream.ids == [0, 1, 2, 3]
        assert rig.service.waiting == 0

    run_simulated(story())


def test_who_comes_again_is_told_only_what_is_newer() -> None:
    async def story() -> None:
        rig = Rig()
        name = await submitted(rig)
        await rig.desk.begin(name)
        await rig.desk.progress(name, 50, b"jpeg")
        stream = Stream(rig, name, last=2)
        await until(lambda: ": connected" in stream.text)
        await asyncio.sleep(HEARTBEAT_SECONDS + 1)
        assert stream.names == []
        assert stream.text.count(": nothing new\n\n") == 1
        await rig.desk.fail(name, "out_of_memory", "too large")
        await stream.task
        assert (stream.names, stream.bodies[0]["error"]["code"]) == (
            ["job.failed"],
            "out_of_memory",
        )
        late = Stream(rig, name, last=3)
        await late.task
        assert (late.status, late.text) == (204, "")
        first = Stream(rig, name)
        await first.task
        assert first.names == ["job.failed"]

    run_simulated(story())


def test_a_deleted_job_ends_its_events() -> None:
    async def story() -> None:
        rig = Rig()
        name = await submitted(rig)
        stream = Stream(rig, name)
        await until(lambda: bool(stream.names))
        await rig.desk.delete(name, rig.owner())
        await stream.task
        assert (stream.names[-1], stream.bodies[-1]) == ("job.deleted", {"id": name})

    run_simulated(story())


def test_streams_take_places_and_give_them_back() -> None:
    async def story() -> None:
        rig = Rig(waiting=1)
        name = await submitted(rig)
        stream = Stream(rig, name)
        await until(lambda: bool(stream.names))
        second = Stream(rig, name)
        await second.task
        assert second.status == 429
        assert json.loads(second.text)["error"]["code"] == "queue_full"
        await stream.leave()
        assert rig.service.waiting == 0
        third = Stream(rig, name)
        await until(lambda: third.names == ["job.queued"])
        await third.leave()

    run_simulated(story())
