"""``/v1/images`` as a client sees it that waits for its pictures."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import msgspec
import pytest
from starlette.types import Message
from tests.support.loop import run_simulated
from tests.support.waiting import until

from antiphon.codecs.pictures import decode_picture
from antiphon.engines.diffusion.abilities import Facts
from antiphon.engines.diffusion.switches import DiffuserConfig
from antiphon.engines.media import Served
from antiphon.web.media import images
from antiphon.web.media.fitting import fit

from .painter import PATH, Painter, data_url, painted, refused, scene
from .rig import YOURS, Json, Rig

ASKED: Json = {"prompt": "a cat", "size": "64x64", "seed": 7}


def generate(client: Any, **more: Any) -> Any:
    return client.post(f"{PATH}/generations", json={**ASKED, **more})


def edit(client: Any, where: str = "edits", *, files: Any = None, **fields: str) -> Any:
    """Send a form; by default with one picture in it."""
    files = files or [("image", ("a.png", scene(64, 64)))]
    asked = {} if where == "variations" else {"prompt": "a cat", "seed": "7"}
    return client.post(f"{PATH}/{where}", data={**asked, **fields}, files=files)


def test_pictures_in_one_answer() -> None:
    rig = Painter()
    answer = generate(rig.visitor(), n=3, quality="low")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    files = [base64.b64decode(each.pop("b64_json")) for each in body["data"]]
    assert files == [painted(0), painted(1), painted(2)]
    (job,) = rig.jobs
    assert body == {
        "created": int(job.created_at),
        "data": [{"revised_prompt": None, "seed": seed} for seed in (7, 8, 9)],
        "background": "opaque",
        "output_format": "png",
        "quality": "low",
        "size": "64x64",
        "usage": {
            "total_tokens": 0,
            "input_tokens": 0,
            "output_tokens": 0,
            "input_tokens_details": {"text_tokens": 0, "image_tokens": 0},
        },
        "job": job.id,
    }
    assert answer.headers["x-antiphon-job"] == job.id
    assert [task.seed for task in job.tasks] == [7, 8, 9]
    assert job.owner == rig.owner()


@pytest.mark.parametrize(
    ("quality", "steps"),
    [(None, 20), ("auto", 20), ("standard", 20), ("low", 10), ("hd", 30), ("max", 40)],
)
def test_a_quality_is_a_count_of_steps(quality: str | None, steps: int) -> None:
    facts = Facts(max_steps=40)
    models = {"draw": DiffuserConfig(path="placeholder-image", facts=facts)}
    rig = Painter(models=models)
    assert generate(rig.visitor(), quality=quality).json()["quality"] == (quality or "auto")
    assert rig.jobs[0].tasks[0].steps == steps


def test_all_that_can_be_said_of_a_picture() -> None:
    rig = Painter()
    said = {
        "model": "gpt-image-1",
        "negative_prompt": "dogs",
        "steps": 3,
        "guidance": 2.5,
        "output_format": "webp",
        "output_compression": 0,
        "background": "opaque",
        "moderation": "low",
        "user": "u",
        "safety_identifier": "s",
        "partial_images": 0,
        "stream": False,
    }
    answer = generate(rig.visitor(), **said)
    assert answer.json()["output_format"] == "webp"
    (job,) = rig.jobs
    task = job.tasks[0]
    assert (task.model, task.negative_prompt) == ("antiphon-draw", "dogs")
    assert (task.steps, task.guidance) == (3, 2.5)
    assert job.asked == {"output_format": "webp", "output_compression": 0, "quality": "auto"}


@pytest.mark.parametrize(
    ("param", "value", "code"),
    [
        ("prompt", " ", "invalid_value"),
        ("model", "other", "invalid_value"),
        ("n", 0, "invalid_value"),
        ("n", 11, "invalid_value"),
        ("size", "63x64", "invalid_value"),
        ("size", "big", "invalid_value"),
        ("quality", "best", "invalid_value"),
        ("output_format", "gif", "invalid_value"),
        ("output_compression", 5, "unsupported_value"),
        ("background", "transparent", "unsupported_value"),
        ("background", "red", "invalid_value"),
        ("moderation", "high", "invalid_value"),
        ("style", "vivid", "unsupported_value"),
        ("response_format", "file", "invalid_value"),
        ("partial_images", 4, "invalid_value"),
        ("partial_images", 1, "unsupported_value"),
        ("strength", 0.5, "unsupported_value"),
        ("webhook", "https://example.com", "unsupported_value"),
        ("input_fidelity", "high", "unknown_parameter"),
        ("frames", 3, "unknown_parameter"),
    ],
)
def test_what_can_not_be_had_is_refused_by_name(param: str, value: object, code: str) -> None:
    rig = Rig()
    refused(generate(rig.visitor(), **{param: value}), 400, code, param)
    assert not rig.desk.jobs


def test_what_is_said_twice_is_refused() -> None:
    client = Rig().visitor()
    refused(generate(client, quality="low", steps=3), 400, "invalid_value", "quality")
    beside = {"stream": True, "response_format": "url"}
    refused(generate(client, **beside), 400, "unsupported_value", "response_format")
    twice = edit(client, input_fidelity="low", strength="0.5")
    refused(twice, 400, "invalid_value", "input_fidelity")


def test_a_repeated_request_is_the_same_pictures() -> None:
    rig = Painter()
    client, key = rig.visitor(), {"Idempotency-Key": "k1"}
    asked = {"prompt": "a cat", "n": 2}
    first, again = (
        client.post(f"{PATH}/generations", json=asked, headers=key).json() for _ in range(2)
    )
    assert first == again
    asked["prompt"] = "a dog"
    other = client.post(f"{PATH}/generations", json=asked, headers=key)
    refused(other, 409, "idempotency_mismatch", "Idempotency-Key")


def test_pictures_behind_addresses_that_need_no_key() -> None:
    rig = Painter()
    answer = generate(rig.visitor(), n=2, response_format="url", output_format="jpeg")
    urls = [each["url"] for each in answer.json()["data"]]
    (job,) = rig.jobs
    assert urls == [f"http://localhost:8000/media/{job.id}/content{end}" for end in ("", "-1")]
    client = rig.visitor()
    del client.headers["Authorization"]
    for at, url in enumerate(urls):
        file = client.get(url)
        assert (file.headers["content-type"], file.content) == ("image/jpeg", painted(at))
    part = client.get(urls[0], headers={"Range": "bytes=2-4"})
    assert (part.status_code, part.content) == (206, painted(0)[2:5])
    assert client.head(urls[0]).headers["content-length"] == str(len(painted(0)))
    for path in (f"{job.id}/other", "image_0/content", "%00/content"):
        refused(client.get(f"/media/{path}"), 404, "not_found")


def test_a_video_has_no_address_without_a_key() -> None:
    rig = Rig()
    video = rig.visitor().post("/v1/videos", json={"prompt": "a cat"}).json()["id"]
    asyncio.run(rig.desk.complete(video, {"content": ("video/mp4", b"mp4")}))
    refused(rig.visitor().get(f"/media/{video}/content"), 404, "not_found")


def test_pictures_that_fail() -> None:
    rig = Painter(code="out_of_memory")
    answer = generate(rig.visitor())
    assert refused(answer, 503, "out_of_memory") == "It went wrong."
    assert answer.headers["x-should-retry"] == "false"


def test_a_picture_goes_in_as_large_as_what_is_made() -> None:
    rig = Painter()
    files = [
        ("image[]", ("a.png", scene(200, 100))),
        ("mask", ("m.png", scene(200, 100, alpha=True))),
    ]
    answer = edit(rig.visitor(), files=files, size="64x64")
    assert (answer.status_code, answer.json()["size"]) == (200, "64x64")
    task = rig.jobs[0].tasks[0]
    # Nothing that was behind the mask is to be seen.
    assert task.strength == 1.0
    inputs = {
        name: decode_picture(rig.desk.files[key], max_pixels=10_000)
        for name, key in task.inputs.items()
    }
    # Cut off at the sides, never pressed together; what is clear in the mask is white.
    assert inputs["image"].shape == inputs["mask"].shape == (64, 64, 3)
    assert inputs["image"][32, [4, 60]].tolist() == [[255, 0, 0], [0, 0, 255]]
    assert inputs["mask"][32, [4, 60]].tolist() == [[0, 0, 0], [255, 255, 255]]


@pytest.mark.parametrize(
    ("where", "fields", "strength"),
    [
        ("edits", {}, 0.8),
        ("edits", {"input_fidelity": "high"}, 0.5),
        ("edits", {"strength": "0.3"}, 0.3),
        ("variations", {}, 0.6),
    ],
)
def test_how_much_of_a_picture_is_kept(where: str, fields: dict[str, str], strength: float) -> None:
    rig = Painter()
    answer = edit(rig.visitor(), where, n="2", **fields)
    assert answer.status_code == 200, answer.text
    assert [task.strength for task in rig.jobs[0].tasks] == [strength] * 2
    assert answer.json()["size"] == "64x64"


def test_an_edit_by_addresses_of_pictures() -> None:
    rig = Painter()
    asked = {
        "prompt": "a cat",
        "images": [{"image_url": data_url(scene(48, 32))}],
        "mask": {"image_url": data_url(scene(48, 32, alpha=True))},
    }
    answer = rig.visitor().post(f"{PATH}/edits", json=asked)
    assert (answer.status_code, answer.json()["size"]) == (200, "48x32")
    assert set(rig.jobs[0].tasks[0].inputs) == {"image", "mask"}


def test_pictures_that_can_not_go_in() -> None:
    rig = Rig()
    client, image = rig.visitor(), ("image", ("a.png", scene(64, 64)))
    several = [("image[]", ("a.png", scene(8, 8)))] * 2
    assert "not 2" in refused(edit(client, files=several), 400, "unsupported_value", "image")
    other = [image, ("mask", ("m.png", scene(32, 64)))]
    assert "64x64" in refused(edit(client, files=other), 400, "invalid_value", "mask")
    broken = [("image", ("a.png", b"no picture"))]
    refused(edit(client, files=broken), 400, "not_picture", "image")
    odd = [image, ("markup", ("m.png", scene(8, 8)))]
    refused(edit(client, files=odd), 400, "unknown_parameter", "markup")
    masked = [image, ("mask", ("m.png", scene(64, 64)))]
    refused(edit(client, "variations", files=masked), 400, "unknown_parameter", "mask")
    refused(client.post(f"{PATH}/variations", json={}), 400, "unsupported_value", "image")
    assert not rig.desk.jobs


@pytest.mark.parametrize(
    ("more", "code", "param"),
    [
        ({}, "missing_required_parameter", "image"),
        ({"images": [{"file_id": "f"}]}, "unsupported_value", "images"),
        ({"image": "http://a.example/b.png"}, "url_not_allowed", "image"),
        ({"image": "a.png"}, "input_invalid", "image"),
    ],
)
def test_addresses_of_no_picture(more: Json, code: str, param: str) -> None:
    answer = Rig().visitor().post(f"{PATH}/edits", json={"prompt": "a cat", **more})
    refused(answer, 400, code, param)


def test_files_that_are_too_large_are_refused_by_key() -> None:
    client = Rig(inputs={"picture_bytes": 100}).visitor()
    told = refused(edit(client), 413, "input_too_large", "image")
    assert "media.inputs.picture_bytes" in told


def test_who_names_no_model_gets_one_that_takes_the_picture() -> None:
    rig = Painter()
    draw = rig.service.models["antiphon-draw"]
    able = msgspec.structs.replace(draw.abilities, inputs=((),))
    text = Served("text", draw.config, able)
    fixed = msgspec.structs.replace(draw.abilities, inputs=(("image",),), strength=False)
    rig.service.models = {
        "text": text,
        "fixed": Served("fixed", draw.config, fixed),
        "draw": Served("draw", draw.config, draw.abilities),
    }
    client = rig.visitor()
    assert edit(client, model="dall-e-2").status_code == 200
    assert generate(client).status_code == 200
    assert [job.tasks[0].model for job in rig.jobs] == ["fixed", "text"]
    assert "text takes no picture" in refused(
        edit(client, model="text"), 400, "unsupported_value", "image"
    )
    refused(generate(client, model="fixed"), 400, "unsupported_value", "model")
    keeps = edit(client, model="fixed", input_fidelity="low")
    refused(keeps, 400, "unsupported_value", "input_fidelity")


def test_a_picture_that_fits_is_left_as_it_is() -> None:
    png = scene(16, 16)
    assert fit(png, 16, 16) == png
    clear = decode_picture(fit(scene(16, 16, alpha=True), 16, 16), max_pixels=256)
    assert clear[8, [2, 14]].tolist() == [[255, 0, 0], [255, 255, 255]]


def test_others_see_nothing_of_it() -> None:
    rig = Painter()
    generate(rig.visitor())
    refused(rig.visitor(YOURS).get(f"/v1/jobs/{rig.jobs[0].id}"), 404, "not_found")


def test_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(waiting=1)
    with rig.service.place():
        for streamed in (False, True):
            refused(generate(rig.visitor(), stream=streamed), 429, "queue_full")
    monkeypatch.setattr(images, "READING", 0)
    refused(generate(rig.visitor()), 429, "queue_full")
    assert not rig.desk.jobs


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_leaves_stops_its_pictures(streamed: bool) -> None:
    async def story() -> None:
        rig = Rig()
        body = msgspec.json.encode({**ASKED, "stream": streamed})
        scope = {
            "type": "http",
            "method": "POST",
            "path": f"{PATH}/generations",
            "raw_path": b"",
            "query_string": b"",
            "headers": [(b"authorization", b"Bearer sk-mine")],
            "client": ("there", 1),
        }

        async def receive() -> Message:
            nonlocal body
            if body:
                now, body = body, b""
                return {"type": "http.request", "body": now, "more_body": False}
            await until(lambda: bool(rig.desk.jobs))
            return {"type": "http.disconnect"}

        async def send(_message: Message) -> None:
            pass

        await rig.app(scope, receive, send)
        assert [job.state for job in rig.desk.jobs.values()] == ["cancelled"]
        assert rig.service.waiting == 0

    run_simulated(story())
