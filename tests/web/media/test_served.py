"""A whole server as a user starts it, and its worker: pictures and clips survive what happens."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from tests.support.server import Server, serving, shipped, write_deployment
from websockets.sync.client import connect

from antiphon.codecs.clips import measure_clip
from antiphon.codecs.pictures import decode_picture

pytestmark = [pytest.mark.server, pytest.mark.timeout(180)]

Json = dict[str, Any]

KIND = {"kind": "image"}

LONG: Json = {**KIND, "model": "vast", "prompt": "a cat", "size": "512x512", "steps": 200}
"""Takes far longer than what follows it, on any machine."""


class Site:
    """A server, and a client of it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client = httpx.Client(base_url=server.url, timeout=30)

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_error: object) -> None:
        self.client.close()

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        answer = self.client.request(method, path, **more)
        assert answer.is_success, answer.text
        return answer

    def submit(self, **asked: Any) -> str:
        return str(self.ask("POST", "/v1/jobs", json=asked).json()["id"])

    def job(self, name: str) -> Json:
        body: Json = self.ask("GET", f"/v1/jobs/{name}").json()
        return body

    def wait(self, name: str, is_so: Callable[[Json], bool], seconds: float = 120) -> Json:
        end = time.monotonic() + seconds
        while not is_so(job := self.job(name)):
            assert time.monotonic() < end, (job, self.server.output)
            time.sleep(0.02)
        return job

    def completed(self, name: str) -> Json:
        job = self.wait(name, lambda job: job["state"] not in ("queued", "in_progress"))
        assert job["state"] == "completed", (job["error"], self.server.output)
        return job

    def workers(self) -> list[psutil.Process]:
        """The server's own, which is one, or none for a moment."""
        return [
            each
            for each in psutil.Process(self.server.pid).children()
            if each.status() != psutil.STATUS_ZOMBIE
        ]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    deployment = shipped("silent")
    # A worker that has nothing else to do shows whether work was truly stopped.
    paths = {"draw": "embedded-image", "move": "embedded-video", "vast": "placeholder-image"}
    models = {name: {"path": path} for name, path in paths.items()}
    deployment["media"] = {"models": models, "jobs_at_once": 1}
    return write_deployment(deployment, tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def first(config: Path) -> Iterator[Server]:
    with serving(config) as server:
        yield server


@pytest.fixture
def site(first: Server) -> Iterator[Site]:
    with Site(first) as site:
        yield site


def test_a_picture_and_a_clip_are_made(site: Site) -> None:
    picture = site.submit(kind="image", prompt="a cat", size="64x64", steps=4)
    clip = site.ask("POST", "/v1/videos", json={"prompt": "a dog", "size": "64x64"}).json()
    made = site.completed(picture)
    assert [each["name"] for each in made["artefacts"]] == ["content", "thumbnail"]
    png = site.ask("GET", made["artefacts"][0]["url"]).content
    assert decode_picture(png, max_pixels=64 * 64).shape == (64, 64, 3)
    site.completed(clip["id"])
    movie = site.ask("GET", f"/v1/videos/{clip['id']}/content").content
    facts = measure_clip(movie, max_pixels=64 * 64, max_frames=100)
    assert (facts.width, facts.height, facts.frames) == (64, 64, clip["frames"])


def test_a_film_is_sent_while_it_is_made(site: Site) -> None:
    start = {"type": "session.start", "prompt": "a cat", "frames": 5, "steps": 2, "chunks": 2}
    with connect(f"ws{site.server.url.removeprefix('http')}/v1/realtime/video") as line:
        line.send(json.dumps(start))
        said = list(line)
    film = b"".join(each for each in said if isinstance(each, bytes))
    assert measure_clip(film, max_pixels=64 * 64, max_frames=100).frames == 10
    assert json.loads(said[-1])["type"] == "session.done"


def test_a_deleted_job_leaves_the_worker_free(site: Site) -> None:
    long = site.submit(**LONG)
    left = site.wait(long, lambda job: job["progress"] > 0)["remaining_ms"] / 1000
    begun = time.monotonic()
    site.ask("DELETE", f"/v1/jobs/{long}")
    site.completed(site.submit(kind="image", prompt="a dog", size="64x64", steps=1))
    assert time.monotonic() - begun < left / 2
    assert site.client.get(f"/v1/jobs/{long}").status_code == 404


def test_work_survives_its_worker_and_its_server(site: Site, config: Path) -> None:
    job = site.submit(**{**LONG, "size": "256x256", "steps": 100})
    site.wait(job, lambda job: job["progress"] > 0)
    (worker,) = site.workers()
    worker.kill()
    site.wait(job, lambda _: [each for each in site.workers() if each != worker] != [])
    assert site.job(job)["state"] == "in_progress"
    # The last of this server's tests.
    site.server.stop()
    with serving(config) as server, Site(server) as again:
        listed = again.ask("GET", "/v1/jobs?limit=1").json()["data"]
        assert [(each["id"], each["error"]) for each in listed] == [(job, None)]
        assert again.completed(job)["attempts"] == 2
