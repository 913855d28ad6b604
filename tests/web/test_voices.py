"""Voices over HTTP, in memory: the list, adding, removing, refusals, and what is left behind."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from tests.support.fakes import FakePipeline
from tests.support.waiting import until

from antiphon.engines.chunks import StageError
from antiphon.engines.deployment import parse_deployment
from antiphon.engines.pipeline import NewVoice, VoiceCard, VoiceFiles
from antiphon.engines.stage import StageFailure
from antiphon.web import uploads, voice_form
from antiphon.web.app import Server
from antiphon.web.speech_request import STOCK_SPEECH_VOICES
from antiphon.web.voices import AT_ONCE, VoiceRoutes

from .visitor import Visitor

Json = dict[str, Any]

ROUTE = "/v1/audio/voices"
GRAPH = b"\x08\x08" * 1_000_000
CONFIG = b'{"audio": {"sample_rate": 22050}}'
KEY = "sk-of-this-test-0123456789"


class Shop(FakePipeline):
    """Looks at the files of a voice while they are there, and waits to be told to go on."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.go = asyncio.Event()
        self.go.set()
        self.seen: list[tuple[bytes, bytes]] = []
        self.speakers: tuple[str, ...] = ()
        """Of one model that is added; its own name where there are none."""

        self.at_work = 0
        self.most_at_work = 0

    async def add_voice(self, new: NewVoice) -> tuple[VoiceCard, ...]:
        assert isinstance(new, VoiceFiles)
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            self.seen.append((new.graph.read_bytes(), new.description.read_bytes()))
            await self.go.wait()
            if not self.speakers:
                return await super().add_voice(new)
            self.added.append(new)
            names = tuple(f"{new.name}:{each}" for each in self.speakers)
            self.voices = (*self.voices, *names)
            return tuple(VoiceCard(name=name, language="de", created_at=1) for name in names)
        finally:
            self.at_work -= 1

    async def remove_voice(self, name: str) -> None:
        await self.go.wait()
        if self.speakers:
            self.voices = tuple(each for each in self.voices if ":" not in each)
            return
        await super().remove_voice(name)


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files lie; at the end there are none."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert is_empty(tmp_path)


def is_empty(folder: Path) -> bool:
    return not list(folder.iterdir())


@pytest.fixture
def pipeline() -> Shop:
    return Shop()


def visitor(pipeline: FakePipeline, host: str = "127.0.0.1", **access: Any) -> Visitor:
    data = {"model": "fake-model", "access": access}
    return Visitor(Server(parse_deployment(data), pipeline).app, host=host)


@pytest.fixture
def client(pipeline: Shop) -> Iterator[Visitor]:
    with visitor(pipeline) as each:
        yield each


def files_of(graph: bytes = GRAPH, config: bytes = CONFIG) -> Json:
    return {"model": ("cat.onnx", graph), "config": ("cat.onnx.json", config)}


def add(client: Visitor, name: str = "cat", files: Json | None = None, **fields: Any) -> Any:
    return client.post(ROUTE, data={"name": name, **fields}, files=files or files_of())


def refused(answer: Any, status: int = 400) -> Json:
    assert answer.status_code == status, answer.text
    error: Json = answer.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    return error


# What there is.


def test_the_list_is_that_of_openai_and_that_of_others(client: Visitor) -> None:
    told = client.get(ROUTE).json()
    assert told["object"] == "list"
    assert told["voices"] == ["ada", "bob"]
    assert told["data"][0] == {
        "id": "ada",
        "object": "audio.voice",
        "name": "ada",
        "language": "en",
        "model": "",
        "description": "",
        "created_at": 0,
        "owned_by": "antiphon",
        "source": "files",
    }
    aliases = {each["id"]: each for each in told["data"] if "alias_of" in each}
    assert set(aliases) == set(STOCK_SPEECH_VOICES)
    assert {each["alias_of"] for each in aliases.values()} == {"ada"}
    assert len(told["data"]) == 2 + len(aliases)


def test_everything_that_is_listed_can_be_had_alone_and_spoken_with(client: Visitor) -> None:
    for card in client.get(ROUTE).json()["data"]:
        assert client.get(f"{ROUTE}/{card['id']}").json() == card
        asked = {"model": "x", "input": "Hello.", "voice": card["id"], "response_format": "pcm"}
        assert client.post("/v1/audio/speech", json=asked).status_code == 200


def test_a_voice_of_ours_with_a_name_of_openais_is_no_alias() -> None:
    with visitor(Shop(voices=("ada", "alloy"))) as client:
        (alloy,) = [each for each in client.get(ROUTE).json()["data"] if each["id"] == "alloy"]
        assert "alias_of" not in alloy
        assert client.get(f"{ROUTE}/alloy").json() == alloy


def test_where_there_are_no_voices_none_has_another_name() -> None:
    with visitor(Shop(voices=())) as client:
        assert client.get(ROUTE).json() == {"object": "list", "data": [], "voices": []}
        assert refused(client.get(f"{ROUTE}/alloy"), 404)["code"] == "voice_unknown"


@pytest.mark.parametrize("name", ["eve", "ADA", "a%20b", "..%2e", "x" * 5000])
def test_an_unknown_voice_is_not_found(client: Visitor, name: str) -> None:
    for method in ("GET", "DELETE"):
        error = refused(client.request(method, f"{ROUTE}/{name}"), 404)
        assert error["code"] == "voice_unknown"
        assert len(error["message"]) < 80


@pytest.mark.parametrize("path", ["/v1/audio/voice_consents", "/v1/audio/voice_consents/cons_1"])
def test_there_are_no_consents_because_nothing_is_made_from_recordings(
    client: Visitor, path: str
) -> None:
    assert refused(client.post(path), 404)["code"] == "unknown_url"


# Adding and removing.


def test_a_voice_is_added_used_and_removed(client: Visitor, pipeline: Shop) -> None:
    answer = add(client, "cat.1_a:b+c-d")
    assert answer.status_code == 201
    card = answer.json()
    assert (card["id"], card["owned_by"], card["created_at"]) == ("cat.1_a:b+c-d", "user", 1)
    assert "voices" not in card
    assert pipeline.seen == [(GRAPH, CONFIG)]
    assert client.get(f"{ROUTE}/cat.1_a:b+c-d").json() == card
    asked = {"model": "x", "input": "Hi.", "voice": card["id"], "response_format": "pcm"}
    assert client.post("/v1/audio/speech", json=asked).status_code == 200
    told = client.delete(f"{ROUTE}/cat.1_a:b+c-d")
    assert told.status_code == 200
    assert told.json() == {"id": "cat.1_a:b+c-d", "object": "audio.voice.deleted", "deleted": True}
    assert client.get(ROUTE).json()["voices"] == ["ada", "bob"]
    assert client.post("/v1/audio/speech", json=asked).status_code == 400


def test_a_model_with_several_voices_names_them_all(client: Visitor, pipeline: Shop) -> None:
    pipeline.speakers = ("one", "two")
    card = add(client, "choir").json()
    assert card["id"] == "choir:one"
    assert card["voices"] == ["choir:one", "choir:two"]
    gone = client.delete(f"{ROUTE}/choir:two").json()
    assert (gone["id"], gone["voices"]) == ("choir:two", ["choir:one", "choir:two"])


def test_fields_that_nobody_knows_are_ignored(client: Visitor) -> None:
    assert add(client, language="de", type="").status_code == 201


@pytest.mark.parametrize("name", ["ada", "alloy", "onyx"])
def test_a_name_that_is_taken_is_refused(client: Visitor, pipeline: Shop, name: str) -> None:
    error = refused(add(client, name), 409)
    assert (error["param"], error["code"]) == ("name", "voice_exists")
    assert name in error["message"]
    assert pipeline.seen == []


@pytest.mark.parametrize(
    "name", [".cat", "-cat", "a b", "a/b", "../a", "ä", "a\n", "x" * 101, "a\u202eb", "a%"]
)
def test_other_names_are_refused(client: Visitor, pipeline: Shop, name: str) -> None:
    error = refused(add(client, name))
    assert (error["param"], error["code"]) == ("name", "invalid_value")
    assert pipeline.seen == []


@pytest.mark.parametrize("missing", ["name", "model", "config"])
def test_what_is_missing_is_named(client: Visitor, missing: str) -> None:
    files = {field: file for field, file in files_of().items() if field != missing}
    data = {} if missing == "name" else {"name": "cat"}
    error = refused(client.post(ROUTE, data=data, files=files))
    assert (error["param"], error["code"]) == (missing, "missing_required_parameter")


@pytest.mark.parametrize("field", ["model", "config"])
def test_text_in_place_of_a_file_is_refused(client: Visitor, field: str) -> None:
    files = {each: file for each, file in files_of().items() if each != field}
    error = refused(client.post(ROUTE, data={"name": "cat", field: "text"}, files=files))
    assert error["param"] == field
    assert "got text" in error["message"]


@pytest.mark.parametrize("config", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 500_000])
def test_a_description_that_is_none_is_refused(
    client: Visitor, pipeline: Shop, config: bytes
) -> None:
    assert refused(add(client, files=files_of(config=config)))["param"] == "config"
    assert pipeline.seen == []


@pytest.mark.parametrize(
    ("fields", "files", "param"),
    [
        ({"consent": "cons_1"}, {"audio_sample": ("a.wav", b"RIFF")}, "audio_sample"),
        ({"consent": "cons_1"}, files_of(), "consent"),
        ({"type": "prompt", "prompt": "A deep voice.", "model": "auto"}, {"x": ("x", b"")}, "type"),
        ({"prompt": "A deep voice."}, files_of(), "prompt"),
        ({"script_hint": "Say this."}, files_of(), "script_hint"),
    ],
)
def test_the_forms_of_openai_are_refused_by_name(
    client: Visitor, fields: Json, files: Json, param: str
) -> None:
    error = refused(add(client, files=files, **fields))
    assert error["param"] == param
    assert "not made from recordings" in error["message"]
    assert "Piper" in error["message"]


def test_a_description_in_json_is_told_what_is_served(client: Visitor) -> None:
    asked = {"type": "prompt", "name": "cat", "prompt": "A deep voice."}
    error = refused(client.post(ROUTE, json=asked))
    assert "multipart/form-data" in error["message"]
    assert "Piper" in error["message"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", ""),
        (b"name=x", "application/x-www-form-urlencoded"),
        (b"--x\r\nbroken", "multipart/form-data; boundary=x"),
    ],
)
def test_other_bodies_are_refused(client: Visitor, body: bytes, kind: str) -> None:
    refused(client.post(ROUTE, content=body, headers={"content-type": kind}))


def test_more_files_than_two_are_refused(client: Visitor) -> None:
    refused(add(client, files={**files_of(), "other": ("x", b"x")}))


def test_files_that_are_too_large_are_refused(
    client: Visitor, pipeline: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voice_form, "GRAPH_BYTES", len(GRAPH))
    monkeypatch.setattr(voice_form, "DESCRIPTION_BYTES", len(CONFIG))
    error = refused(add(client, files=files_of(GRAPH + b"x")), 413)
    assert (error["param"], error["code"]) == ("model", "request_too_large")
    error = refused(add(client, files=files_of(config=CONFIG + b" ")), 413)
    assert error["param"] == "config"
    all_of_it = files_of(GRAPH + bytes(uploads.FIELD_BYTES))
    assert refused(add(client, files=all_of_it), 413)["param"] == "model"
    assert pipeline.seen == []
    assert add(client).status_code == 201


@pytest.mark.parametrize(
    ("failure", "status", "param"),
    [
        (StageError("voice_exists", "there is such a voice"), 409, "name"),
        (StageError("voice_unusable", "it is no graph"), 400, "model"),
        (StageError("voices_full", "there are 64 voices"), 400, None),
        (StageError("voices_fixed", "no folder for voices"), 400, None),
        (StageError("package_missing", "onnx is not installed"), 501, None),
        (StageError("overloaded", "Busy.", 1500), 503, None),
        (StageError("broken", "The part is broken."), 500, None),
    ],
)
def test_what_the_pipeline_refuses_has_its_status(
    client: Visitor, pipeline: Shop, failure: StageError, status: int, param: str | None
) -> None:
    pipeline.refused["add_voice"] = failure
    answer = add(client)
    error = refused(answer, status)
    assert (error["code"], error["param"]) == (failure.code, param)
    assert error["message"].lower() == failure.message.lower().rstrip(".") + "."
    assert answer.headers.get("retry-after") == ("2" if status == 503 else None)


@pytest.mark.parametrize("name", ["ada", "alloy"])
def test_what_the_deployment_has_stays(client: Visitor, name: str) -> None:
    error = refused(client.delete(f"{ROUTE}/{name}"))
    assert error["code"] == "voice_fixed"
    assert client.get(ROUTE).json()["voices"] == ["ada", "bob"]


def test_while_models_load_it_is_refused() -> None:
    with visitor(FakePipeline(ready=False)) as client:
        for answer in (
            client.get(ROUTE),
            client.get(f"{ROUTE}/ada"),
            add(client),
            client.delete(f"{ROUTE}/ada"),
        ):
            assert refused(answer, 503)["code"] == "server_starting"
            assert answer.headers["retry-after"] == "1"


# Who may.


def test_without_keys_only_this_machine_changes_voices(pipeline: Shop) -> None:
    with visitor(pipeline, "10.0.0.7", open=True) as stranger:
        assert stranger.get(ROUTE).json()["voices"] == ["ada", "bob"]
        assert refused(add(stranger), 403)["code"] == "operator_only"
        assert refused(stranger.delete(f"{ROUTE}/ada"), 403)["code"] == "operator_only"
    assert pipeline.seen == []


def test_with_keys_any_key_changes_voices(pipeline: Shop) -> None:
    with visitor(pipeline, "10.0.0.7", keys=[KEY]) as client:
        refused(client.get(ROUTE), 401)
        refused(add(client), 401)
        client.headers["authorization"] = f"Bearer {KEY}"
        assert add(client).status_code == 201
        assert client.delete(f"{ROUTE}/cat").status_code == 200


def test_a_page_elsewhere_changes_nothing(client: Visitor, pipeline: Shop) -> None:
    client.headers["origin"] = "https://elsewhere.example"
    assert refused(add(client), 403)["code"] == "origin_not_allowed"
    assert refused(client.delete(f"{ROUTE}/ada"), 403)["code"] == "origin_not_allowed"
    assert pipeline.seen == []


# One at a time, and clients that leave.


def body_of(name: str) -> bytes:
    parts = [f'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\n{name}\r\n'.encode()]
    for field, (file, content) in files_of().items():
        head = f'--x\r\nContent-Disposition: form-data; name="{field}"; filename="{file}"\r\n\r\n'
        parts.append(head.encode() + content + b"\r\n")
    return b"".join(parts) + b"--x--\r\n"


class Caller:
    """One request at the level of ASGI, whose client can leave."""

    def __init__(self, method: str, name: str, *, whole: bool = True) -> None:
        self.sent: list[Any] = []
        self.left = asyncio.Event()
        body = body_of(name) if method == "POST" else b""
        if not whole:
            body = body[: len(body) // 2]
        self._messages = [{"type": "http.request", "body": body, "more_body": not whole}]
        self.scope = {
            "type": "http",
            "method": method,
            "path": ROUTE,
            "path_params": {"name": name},
            "query_string": b"",
            "headers": [(b"content-type", b"multipart/form-data; boundary=x")],
        }

    async def receive(self) -> Any:
        if self._messages:
            return self._messages.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def call(self, routes: VoiceRoutes) -> None:
        everything, one = routes.routes()
        route = everything if self.scope["method"] == "POST" else one
        response = await route.endpoint(Request(self.scope, self.receive, self.send))
        await response(self.scope, self.receive, self.send)

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status

    @property
    def code(self) -> str:
        told: Json = json.loads(b"".join(each.get("body", b"") for each in self.sent))
        code: str = told["error"]["code"]
        return code


def routes_of(pipeline: Shop) -> VoiceRoutes:
    return VoiceRoutes(pipeline, lambda request: True)


def test_one_is_added_at_a_time_and_few_wait() -> None:
    async def main() -> None:
        pipeline = Shop()
        pipeline.go.clear()
        routes = routes_of(pipeline)
        first = Caller("POST", "cat0")
        tasks = [asyncio.create_task(first.call(routes))]
        await until(lambda: pipeline.at_work == 1)
        waiting = [Caller("POST", f"cat{number}") for number in range(1, AT_ONCE - 1)]
        last = Caller("DELETE", "cat0")
        tasks += [asyncio.create_task(each.call(routes)) for each in (*waiting, last)]
        await until(lambda: routes.running == AT_ONCE)
        for method in ("POST", "DELETE"):
            over = Caller(method, "dog")
            await over.call(routes)
            assert (over.status, over.code) == (503, "overloaded")
            assert (b"retry-after", b"5") in over.sent[0]["headers"]
        pipeline.go.set()
        async with asyncio.timeout(30):
            await asyncio.gather(*tasks)
        assert pipeline.most_at_work == 1
        assert routes.running == 0
        assert {each.status for each in (first, *waiting)} == {201}
        assert last.status == 200
        again = Caller("POST", "dog")
        await again.call(routes)
        assert again.status == 201

    asyncio.run(main())


def test_of_two_with_one_name_one_is_added() -> None:
    async def main() -> None:
        pipeline = Shop()
        routes = routes_of(pipeline)
        callers = [Caller("POST", "cat"), Caller("POST", "cat")]
        async with asyncio.timeout(30):
            await asyncio.gather(*(each.call(routes) for each in callers))
        assert sorted(each.status for each in callers) == [201, 409]
        assert len(pipeline.seen) == 1

    asyncio.run(main())


def test_a_client_that_leaves_while_it_uploads_leaves_nothing() -> None:
    async def main() -> None:
        pipeline = Shop()
        routes = routes_of(pipeline)
        caller = Caller("POST", "cat", whole=False)
        caller.left.set()
        async with asyncio.timeout(30):
            await caller.call(routes)
        assert caller.status == 499
        assert (routes.running, pipeline.seen) == (0, [])

    asyncio.run(main())


def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "IDLE_SECONDS", 0.01)

    async def main() -> None:
        routes = routes_of(Shop())
        caller = Caller("POST", "cat", whole=False)
        async with asyncio.timeout(30):
            await caller.call(routes)
        assert caller.status == 408
        assert routes.running == 0

    asyncio.run(main())


def test_a_client_that_leaves_while_it_waits_adds_nothing() -> None:
    async def main() -> None:
        pipeline = Shop()
        pipeline.go.clear()
        routes = routes_of(pipeline)
        first, second = Caller("POST", "cat"), Caller("POST", "dog")
        works = asyncio.create_task(first.call(routes))
        await until(lambda: pipeline.at_work == 1)
        waits = asyncio.create_task(second.call(routes))
        await until(lambda: routes.running == 2)
        second.left.set()
        async with asyncio.timeout(30):
            await waits
        assert second.status == 499
        pipeline.go.set()
        async with asyncio.timeout(30):
            await works
        assert first.status == 201
        assert [each.name for each in pipeline.added] == ["cat"]

    asyncio.run(main())


@pytest.mark.parametrize("fails", [True, False])
def test_what_has_begun_is_ended_when_its_client_leaves(fails: bool, scratch: Path) -> None:
    async def main() -> None:
        pipeline = Shop()
        pipeline.go.clear()
        if fails:
            pipeline.refused["add_voice"] = StageError("voice_unusable", "it is no graph")
        routes = routes_of(pipeline)
        caller = Caller("POST", "cat")
        task = asyncio.create_task(caller.call(routes))
        await until(lambda: pipeline.at_work == 1)
        assert not is_empty(scratch)
        caller.left.set()
        for _ in range(100):
            await asyncio.sleep(0)
        assert (task.done(), routes.running) == (False, 1)
        pipeline.go.set()
        async with asyncio.timeout(30):
            await task
        assert caller.status == 499
        assert routes.running == 0
        assert ("cat" in pipeline.voices) is not fails

    asyncio.run(main())


def test_a_client_that_leaves_while_a_voice_is_removed_removes_it() -> None:
    async def main() -> None:
        pipeline = Shop()
        routes = routes_of(pipeline)
        await Caller("POST", "cat").call(routes)
        pipeline.go.clear()
        caller = Caller("DELETE", "cat")
        task = asyncio.create_task(caller.call(routes))
        await until(lambda: routes.running == 1)
        caller.left.set()
        pipeline.go.set()
        async with asyncio.timeout(30):
            await task
        assert pipeline.added == []

    asyncio.run(main())


def test_a_bug_of_a_pipeline_leaves_nothing_and_tells_nothing(scratch: Path) -> None:
    class Broken(Shop):
        async def add_voice(self, new: NewVoice) -> tuple[VoiceCard, ...]:
            assert isinstance(new, VoiceFiles)
            raise ValueError(f"a secret of {new.graph}")

    with visitor(Broken()) as client:
        answer = add(client)
        assert refused(answer, 500)["code"] == "internal_error"
        assert "secret" not in answer.text
        assert str(scratch) not in answer.text


def test_a_pipeline_may_refuse_to_remove(client: Visitor, pipeline: Shop) -> None:
    assert add(client).status_code == 201
    pipeline.refused["remove_voice"] = StageError("broken", "The part is broken.")
    assert refused(client.delete(f"{ROUTE}/cat"), 500)["code"] == "broken"
    with pytest.raises(StageFailure):
        asyncio.run(pipeline.remove_voice("cat"))
    assert client.get(f"{ROUTE}/cat").status_code == 200
