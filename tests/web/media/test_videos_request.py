"""What a clip is asked for with, from the bytes of a request to the task."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from antiphon.engines.diffusion.switches import DiffuserConfig
from antiphon.engines.diffusion.task import MediaTask
from antiphon.engines.jobs.input_limits import InputLimits
from antiphon.engines.media import MediaConfig, Served, served_models
from antiphon.web.media.refused import REFUSED, answer_refused
from antiphon.web.media.video_request import read_remix, read_video, remix_task, video_task

Json = dict[str, Any]

PLACEHOLDER = MediaConfig(models={"antiphon-move": DiffuserConfig(path="placeholder-video")})
MOVE = served_models(PLACEHOLDER)["antiphon-move"]
"""The placeholder: 17 frames, 8 a second, at most 81, 1 and a multiple of 4 more; no picture."""


def taking(*inputs: tuple[str, ...], strength: bool = False) -> Served:
    able = msgspec.structs.replace(MOVE.abilities, inputs=inputs, strength=strength)
    return Served(MOVE.name, MOVE.config, able)


EARLIER = MediaTask(
    kind="video",
    model=MOVE.name,
    prompt="a cat",
    negative_prompt="dogs",
    width=32,
    height=48,
    steps=3,
    guidance=2.5,
    seed=11,
    frames=9,
    frames_per_second=4,
)


def client(model: Served = MOVE, earlier: MediaTask = EARLIER) -> TestClient:
    async def video(request: Request) -> Json:
        asked = await read_video(request, InputLimits(picture_bytes=1000))
        try:
            task = video_task(asked, model, seed=7)
            source = asked.source
            if source is not None and not isinstance(source, str | bytes):
                source = source.read()
            read = source.decode() if isinstance(source, bytes) else source
            return {**msgspec.to_builtins(task), "source": read}
        finally:
            await asked.close()

    async def remix(request: Request) -> Json:
        asked = await read_remix(request)
        return dict(msgspec.to_builtins(remix_task(asked, earlier, model)))

    async def answer(request: Request) -> Response:
        try:
            made = await (remix if request.url.path == "/remix" else video)(request)
            return JSONResponse(made)
        except REFUSED as error:
            return answer_refused(error)

    return TestClient(Starlette(routes=[Route("/{any:path}", answer, methods=["POST"])]))


def form(model: Served = MOVE, /, **fields: Any) -> Any:
    """As OpenAI's clients send it: multipart, with a file or without."""
    parts = {
        name: (None, value) if isinstance(value, str) else value for name, value in fields.items()
    }
    return client(model).post("/", files=parts)


def refused(answer: Any, param: str | None, code: str = "invalid_value", status: int = 400) -> str:
    assert answer.status_code == status, answer.text
    error: Json = answer.json()["error"]
    assert (error["param"], error["code"]) == (param, code), error
    return str(error["message"])


def test_a_prompt_is_enough() -> None:
    for answer in (form(prompt="a cat"), client().post("/", json={"prompt": "a cat"})):
        task = answer.json()
        assert (task["width"], task["height"], task["frames"]) == (64, 64, 17)
        assert (task["frames_per_second"], task["steps"], task["seed"]) == (8, 12, 7)
        assert (task["inputs"], task["source"]) == ({}, None)


def test_a_form_and_json_mean_the_same() -> None:
    said: Json = {
        "prompt": "a cat",
        "model": "sora-2",
        "size": "96x64",
        "seconds": 4,
        "fps": 6,
        "num_inference_steps": 9,
        "guidance_scale": 3.5,
        "negative_prompt": "dogs",
        "user": "somebody",
    }
    whole = client().post("/", json=said).json()
    assert whole == form(**{name: str(value) for name, value in said.items()}).json()
    assert (whole["width"], whole["height"], whole["frames"]) == (96, 64, 25)
    assert (whole["steps"], whole["guidance"], whole["frames_per_second"]) == (9, 3.5, 6)


@pytest.mark.parametrize(
    ("said", "frames"),
    [
        ({"seconds": "4"}, 33),
        ({"seconds": "2.1"}, 17),
        ({"seconds": 0.01}, 1),
        ({"seconds": "10", "fps": 8}, 81),
        ({"seconds": 2, "frames_per_second": 30}, 61),
        ({"frames": 21}, 21),
        ({"num_frames": 21, "frames": 21, "fps": 1}, 21),
    ],
)
def test_the_count_of_frames_is_one_that_there_is(said: Json, frames: int) -> None:
    assert client().post("/", json={"prompt": "x", **said}).json()["frames"] == frames


@pytest.mark.parametrize(
    ("said", "param", "told"),
    [
        ({"seconds": "12"}, "seconds", "at most 10.125"),
        ({"seconds": 1e308}, "seconds", "at most 10.125"),
        ({"seconds": 4, "fps": 120}, "seconds", "at most 0.675 (at 120"),
        ({"seconds": 0}, "seconds", "over 0"),
        ({"seconds": -1}, "seconds", "over 0"),
        ({"seconds": "4s"}, "seconds", "over 0"),
        ({"seconds": "nan"}, "seconds", "over 0"),
        ({"seconds": True}, "seconds", "got `bool`"),
        ({"seconds": 2, "frames": 17}, "seconds", "either"),
        ({"frames": 18}, "frames", "17 or 21"),
        ({"frames": 85}, "frames", "from 1 to 81"),
        ({"frames": 17, "num_frames": 21}, "frames", "num_frames"),
        ({"fps": 0}, "frames_per_second", "from 1 to 120"),
        ({"fps": 8, "frames_per_second": 9}, "frames_per_second", "fps"),
        ({"size": "65x64"}, "size", "multiple of 16"),
        ({"size": "1280x720"}, "size", "65536 pixels"),
        ({"prompt": " "}, "prompt", "some text"),
        ({"strength": 0.5}, "strength", "picture"),
    ],
)
def test_what_can_not_be_made_is_refused_by_name(said: Json, param: str, told: str) -> None:
    answer = client().post("/", json={"prompt": "x", **said})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert told in answer.json()["error"]["message"]


def test_what_is_unknown_is_not_passed_over() -> None:
    refused(client().post("/", json={"prompt": "x", "n": 2}), "n", "unknown_parameter")
    refused(form(prompt="x", n="2"), "n", "unknown_parameter")
    refused(form(prompt="x", other=("a.png", b"1")), "other", "unknown_parameter")
    refused(client().post("/", json={}), "prompt", "missing_required_parameter")
    refused(client().post("/", content=b"prompt=x"), None, "invalid_json")
    twice = client().post("/", files=[("prompt", (None, "a")), ("prompt", (None, "b"))])
    refused(twice, "prompt")


def test_a_picture_comes_as_a_file_or_by_a_url() -> None:
    model, url = taking((), ("image",)), "data:image/png;base64,AA=="
    by_file = form(model, prompt="x", input_reference=("a.png", b"png", "image/png")).json()
    assert (by_file["source"], by_file["inputs"]) == ("png", {"image": "image"})
    for answer in (
        form(model, prompt="x", input_reference=url),
        form(model, prompt="x", **{"input_reference[image_url]": url}),
        client(model).post("/", json={"prompt": "x", "input_reference": url}),
        client(model).post("/", json={"prompt": "x", "input_reference": {"image_url": url}}),
    ):
        assert answer.json()["source"] == url
    # What a page sends where nothing was chosen.
    assert form(model, prompt="x", input_reference=("", b"")).json()["source"] is None


def test_pictures_that_can_not_go_in_are_refused() -> None:
    model, name = taking((), ("image",)), "input_reference"
    picture = ("a.png", b"png", "image/png")
    assert "no files are kept" in refused(
        client(model).post("/", json={"prompt": "x", name: {"file_id": "file_1"}}),
        f"{name}.file_id",
        "unsupported_value",
    )
    by_form = form(model, prompt="x", **{f"{name}[file_id]": "file_1"})
    refused(by_form, f"{name}.file_id", "unsupported_value")
    refused(form(model, prompt="x", input_reference=picture, **{f"{name}[image_url]": "u"}), name)
    refused(form(prompt="x", input_reference=picture), name, "unsupported_value")
    without = form(taking(("image",)), prompt="x")
    refused(without, name, "missing_required_parameter")
    large = form(model, prompt="x", input_reference=("a.png", bytes(2_000_000)))
    refused(large, name, "request_too_large", 413)


def test_a_remix_keeps_what_is_not_said_anew() -> None:
    assert client().post("/remix", json={"prompt": "a dog"}).json() == {
        **msgspec.to_builtins(EARLIER),
        "prompt": "a dog",
    }
    said = {"prompt": "a dog", "steps": 5, "guidance_scale": 1.5, "negative_prompt": "", "seed": 12}
    task = client().post("/remix", json=said).json()
    assert (task["steps"], task["guidance"]) == (5, 1.5)
    assert (task["negative_prompt"], task["seed"], task["frames"]) == ("", 12, 9)
    assert client().post("/remix", files={"prompt": (None, "a dog")}).json()["seed"] == 11


def test_a_remix_goes_on_with_the_picture_and_its_strength() -> None:
    earlier = msgspec.structs.replace(EARLIER, inputs={"image": "jobs/1/in/0"}, strength=0.7)
    model = taking((), ("image",), strength=True)
    task = client(model, earlier).post("/remix", json={"prompt": "a dog"}).json()
    # Under its own name: the key is the earlier job's.
    assert (task["inputs"], task["strength"]) == ({"image": "image"}, 0.7)


@pytest.mark.parametrize("name", ["model", "size", "width", "seconds"])
def test_a_remix_is_of_the_same_size_and_length(name: str) -> None:
    value: object = 32 if name == "width" else "32x48"
    answer = client().post("/remix", json={"prompt": "a dog", name: value})
    refused(answer, name, "unknown_parameter" if name == "seconds" else "unsupported_value")


def test_a_remix_takes_no_file() -> None:
    parts: Json = {"prompt": (None, "a dog"), "image": ("a.png", b"png")}
    refused(client().post("/remix", files=parts), "image", "unknown_parameter")


FIELDS = sorted({"input_reference[image_url]", *msgspec.structs.asdict(EARLIER), "fps", "seconds"})


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.one_of(st.sampled_from(FIELDS), st.text(min_size=1, max_size=20)),
        st.one_of(
            st.text(max_size=20),
            st.integers().map(str),
            st.floats().map(str),
            st.just("9" * 5000),
            st.binary(max_size=9),
        ),
        max_size=4,
    )
)
def test_no_form_makes_anything_but_a_task_or_a_refusal(fields: dict[str, str | bytes]) -> None:
    parts: Json = {"prompt": (None, "x")}
    for name, value in fields.items():
        parts[name] = (None, value) if isinstance(value, str) else ("f", value)
    answer = FUZZED.post("/", files=parts)
    assert answer.status_code in (200, 400, 413)
    if answer.status_code != 200:
        assert answer.json()["error"]["message"]


FUZZED = client(taking((), ("image",), strength=True))
