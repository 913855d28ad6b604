"""Films over the whole application: chunks are jobs in memory that end as the test says."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import av
import msgspec
import numpy as np
import pytest
from starlette.types import Message
from tests.support.loop import run_simulated
from tests.support.patience import patiently
from tests.support.waiting import until

from antiphon.codecs.movies import encode_movie
from antiphon.codecs.pictures import decode_picture
from antiphon.engines.diffusion.switches import DiffuserConfig
from antiphon.engines.diffusion.task import MediaTask
from antiphon.engines.jobs.desk import JobRefused
from antiphon.engines.jobs.job import Job, NewJob
from antiphon.engines.media import Served
from antiphon.web.media.live import START_SECONDS
from antiphon.web.media.live_wire import CONTROL_BYTES

from .rig import Json, Rig

START: Json = {
    "type": "session.start",
    "prompt": "a cat",
    "size": "32x32",
    "frames": 5,
    "seed": 3,
    "chunks": 2,
}


class Caller:
    """A client in memory, message by message."""

    def __init__(self, rig: Rig, key: str = "sk-mine") -> None:
        self.said: list[str | bytes] = []
        """What came, in order."""

        self.code: int | None = None
        self.denied = 0
        self.reads = asyncio.Event()
        self.reads.set()
        self._in: asyncio.Queue[Message] = asyncio.Queue()
        self._in.put_nowait({"type": "websocket.connect"})
        scope: Json = {
            "type": "websocket",
            "path": "/v1/realtime/video",
            "raw_path": b"",
            "query_string": b"",
            "headers": [(b"authorization", f"Bearer {key}".encode())],
            "subprotocols": [],
            "client": ("there", 1),
            "extensions": {"websocket.http.response": {}},
        }
        self.task = asyncio.create_task(rig.app(scope, self._in.get, self._take))

    async def _take(self, message: Message) -> None:
        if message["type"] == "websocket.send":
            await self.reads.wait()
            text = message.get("text")
            self.said.append(message["bytes"] if text is None else text)
        elif message["type"] == "websocket.close":
            self.code = message["code"]
        elif message["type"] == "websocket.http.response.start":
            self.denied = message["status"]

    def say(self, body: Json | str | bytes) -> None:
        if isinstance(body, bytes):
            self._in.put_nowait({"type": "websocket.receive", "bytes": body})
            return
        text = body if isinstance(body, str) else json.dumps(body)
        self._in.put_nowait({"type": "websocket.receive", "text": text})

    def leave(self) -> None:
        self._in.put_nowait({"type": "websocket.disconnect", "code": 1001})

    @property
    def told(self) -> list[Json]:
        """The messages that are text."""
        return [json.loads(each) for each in self.said if isinstance(each, str)]

    @property
    def kinds(self) -> list[str]:
        """All messages by type, a binary one as ``#``."""
        return ["#" if isinstance(each, bytes) else json.loads(each)["type"] for each in self.said]


def clip_of(task: MediaTask) -> bytes:
    """Frames as bright as ten times the seed."""
    size = (task.frames, task.height, task.width, 3)
    return encode_movie(np.full(size, 10 * task.seed, np.uint8), task.frames_per_second)


class Studio(Rig):
    """Chunks are made as soon as they may be, each in a second."""

    def __init__(self, *, pictures: bool = False, fails: bool = False) -> None:
        super().__init__()
        self.chunks: list[Job] = []
        self.free = asyncio.Event()
        self.free.set()
        self._fails = fails
        self._submit = self.desk.submit
        self.desk.submit = self._made  # type: ignore[method-assign]
        self._workers: set[asyncio.Task[None]] = set()
        if pictures:
            model = self.service.models["antiphon-move"]
            able = msgspec.structs.replace(model.abilities, inputs=((), ("image",)))
            self.service.models = {
                "antiphon-move": Served("antiphon-move", DiffuserConfig(path="x"), able)
            }

    async def _made(self, new: NewJob) -> Job:
        job = await self._submit(new)
        self.chunks.append(job)
        worker = asyncio.create_task(self._work(job))
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)
        return job

    async def _work(self, job: Job) -> None:
        await self.desk.begin(job.id)
        await self.free.wait()
        await asyncio.sleep(1)
        if job.id not in self.desk.jobs or self.desk.jobs[job.id].ended:
            return
        if self._fails:
            await self.desk.fail(job.id, "out_of_memory", "the model's memory is full")
            return
        files = {"content": ("video/mp4", await asyncio.to_thread(clip_of, job.tasks[0]))}
        await self.desk.complete(job.id, files)


def levels(data: bytes) -> list[int]:
    """How bright the frames of a film are."""
    with av.open(io.BytesIO(data), "r") as container:
        return [
            round(float(frame.to_ndarray(format="rgb24").mean()))
            for frame in container.decode(video=0)
        ]


def film_of(caller: Caller) -> bytes:
    return b"".join(each for each in caller.said if isinstance(each, bytes))


def test_a_film_is_one_mp4_in_chunks() -> None:
    async def story() -> None:
        studio = Studio()
        caller = Caller(studio)
        caller.say(START)
        await caller.task
        pair = ["video.chunk_metadata", "#"]
        assert caller.kinds == ["video.start", *pair, *pair, "session.done"]
        start, first, second, done = caller.told
        assert (start["format"], start["codecs"][:5]) == ("fmp4", "avc1.")
        assert start["config"]["chunks"] == 2
        assert start["config"]["continuous"] is False
        assert {each["request_id"] for each in caller.told} == {start["request_id"]}
        binary = [each for each in caller.said if isinstance(each, bytes)]
        assert [first["byte_length"], second["byte_length"]] == [len(each) for each in binary]
        assert levels(b"".join(binary)) == pytest.approx([30] * 5 + [40] * 5, abs=2)
        assert (done["chunks"], done["stopped"], caller.code) == (2, False, 1000)
        # They are no part of any list.
        assert studio.desk.jobs == {}
        assert studio.desk.files == {}
        assert studio.service.waiting == 0

    run_simulated(story())


def test_a_model_that_takes_a_picture_goes_on_from_the_last_frame() -> None:
    async def story() -> None:
        studio = Studio(pictures=True)
        caller = Caller(studio)
        caller.say(START)
        await patiently(lambda: len(studio.chunks) == 2)
        put = list(studio.desk.stored_inputs.values())
        await caller.task
        assert [sorted(job.tasks[0].inputs) for job in studio.chunks] == [[], ["image"]]
        assert decode_picture(put[0], max_pixels=2000).mean() == pytest.approx(30, abs=2)
        # The frame that both have is shown once.
        assert levels(film_of(caller)) == pytest.approx([30] * 5 + [40] * 4, abs=2)
        assert [each["num_frames"] for each in caller.told[1:3]] == [5, 4]

    run_simulated(story())


def test_a_new_prompt_counts_from_the_next_chunk_on() -> None:
    async def story() -> None:
        studio = Studio()
        caller = Caller(studio)
        caller.say(START)
        await until(lambda: len(studio.chunks) == 1)
        change = {"event_id": "e1", "event": {"prompt": "a dog"}, "transition_chunks": 0}
        caller.say({"type": "session.interaction", "interaction": change})
        caller.say({"type": "session.ping"})
        caller.say("{")
        await caller.task
        assert [job.tasks[0].prompt for job in studio.chunks] == ["a cat", "a dog"]
        assert caller.kinds[1:4] == ["session.interaction.queued", "session.pong", "error"]
        assert [each.get("started_event_ids") for each in caller.told[4:6]] == [[], ["e1"]]

    run_simulated(story())


@pytest.mark.parametrize("leaves", [False, True])
def test_who_stops_or_leaves_stops_the_work(leaves: bool) -> None:
    async def story() -> None:
        studio = Studio()
        studio.free.clear()
        caller = Caller(studio)
        caller.say(START)
        await until(lambda: len(studio.chunks) == 1)
        if leaves:
            caller.leave()
        else:
            caller.say({"type": "session.stop"})
        await caller.task
        assert studio.desk.jobs == {}
        assert studio.service.waiting == 0
        if not leaves:
            assert caller.told[-1]["type"] == "session.done"
            assert caller.told[-1] | {"chunks": 0, "stopped": True} == caller.told[-1]
        assert caller.code == (None if leaves else 1000)

    run_simulated(story())


def test_a_chunk_that_fails_is_told() -> None:
    async def story() -> None:
        caller = Caller(Studio(fails=True))
        caller.say(START)
        await caller.task
        assert caller.told[-1]["code"] == "out_of_memory"
        assert "memory is full" in caller.told[-1]["message"]
        assert caller.code == 1011

    run_simulated(story())


@pytest.mark.parametrize("said", ["files can't be kept just now", "Files can't be kept just now."])
def test_a_chunk_that_is_refused_is_told_in_a_sentence(said: str) -> None:
    async def story() -> None:
        studio = Studio()

        async def refuse(new: NewJob) -> Job:
            raise JobRefused("store_unavailable", said)

        studio.desk.submit = refuse  # type: ignore[method-assign]
        caller = Caller(studio)
        caller.say(START)
        await caller.task
        assert caller.told[-1]["code"] == "store_unavailable"
        assert caller.told[-1]["message"] == "Files can't be kept just now."

    run_simulated(story())


def test_a_client_that_does_not_read_is_given_up() -> None:
    async def story() -> None:
        studio = Studio()
        caller = Caller(studio)
        caller.reads.clear()
        caller.say({**START, "chunks": 64})
        for _ in range(100):
            caller.say({"type": "session.ping"})
        await caller.task
        assert (caller.code, caller.said) == (1008, [])
        # What it did not read was not made.
        assert len(studio.chunks) <= 2
        assert studio.desk.jobs == {}

    run_simulated(story())


@pytest.mark.parametrize(
    ("more", "code", "param"),
    [
        ({"chunks": 65}, "invalid_value", "chunks"),
        ({"size": "33x33"}, "invalid_value", "size"),
        ({"model": "antiphon-draw"}, "invalid_value", "model"),
        ({"webhook": "https://example.com/"}, "unsupported_value", "webhook"),
        ({"input_reference": "data:,"}, "unsupported_value", "input_reference"),
    ],
)
def test_a_film_that_can_not_be_is_refused(more: Json, code: str, param: str) -> None:
    async def story() -> None:
        studio = Studio()
        caller = Caller(studio)
        caller.say({**START, **more})
        await caller.task
        (error,) = caller.told
        assert (error["code"], error["param"], caller.code) == (code, param, 1008)
        assert studio.chunks == []

    run_simulated(story())


def test_messages_are_bounded_and_the_first_comes_soon() -> None:
    async def story() -> None:
        studio = Studio()
        silent = Caller(studio)
        silent.say("[]")
        await silent.task
        assert asyncio.get_running_loop().time() == pytest.approx(START_SECONDS, abs=1)
        assert [each["code"] for each in silent.told] == ["invalid_value", "session_start_missing"]
        studio.free.clear()
        long = Caller(studio)
        long.say(START)
        await until(lambda: "video.start" in long.kinds)
        long.say(b"binary")
        long.say(" " * (CONTROL_BYTES + 1))
        await long.task
        assert [each["code"] for each in long.told[1:]] == ["invalid_value", "message_too_large"]
        assert studio.desk.jobs == {}

    run_simulated(story())


def test_who_has_no_key_or_no_place_is_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    async def denied(rig: Rig, key: str = "sk-mine") -> Any:
        caller = Caller(rig, key)
        await caller.task
        return caller.denied

    async def story() -> None:
        studio = Studio()
        assert await denied(studio, "sk-other") == 401
        monkeypatch.setattr("antiphon.web.media.live.FILMS", 1)
        first = Caller(studio)
        first.say({**START, "chunks": 1})
        await until(lambda: bool(studio.chunks))
        assert await denied(studio) == 503
        await first.task
        assert await denied_not(studio) == 1000

    async def denied_not(rig: Rig) -> Any:
        caller = Caller(rig)
        caller.say({"type": "session.stop"})
        await caller.task
        return caller.code

    run_simulated(story())
