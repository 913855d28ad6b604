"""Voices of a whole server: each that is listed speaks; one is added, used and removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError, ConflictError, NotFoundError, OpenAI
from tests.support.piper import write_joe
from tests.support.server import Server, serving, shipped, wait_quiet, write_deployment
from tests.support.speech import Ear, word_error_rate

pytestmark = [pytest.mark.models, pytest.mark.server]

Json = dict[str, Any]

TEXT = "The light of the evening takes a longer way, and so it turns red."


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server keeps what it is given, voices among it."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    deployment = shipped("scripted")
    deployment["stages"]["talker"] = {"variation": 0}
    config = write_deployment(deployment, tmp_path_factory.mktemp("voices"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTIPHON_DATA", str(data))
        with serving(config) as each:
            yield each


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """The embedded voice as Piper exported it: graph and description."""
    graph, description = write_joe(tmp_path_factory.mktemp("exported"))
    return graph.read_bytes(), description.read_bytes()


@pytest.fixture
def client(server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as client:
        yield client


def say(client: OpenAI, voice: str) -> bytes:
    spoken = client.audio.speech.create(
        model="tts-1", voice=voice, input=TEXT, response_format="pcm"
    )
    return spoken.read()


def listed(client: OpenAI) -> Json:
    return client.get("/audio/voices", cast_to=dict[str, Any])


def add(client: OpenAI, name: str, graph: bytes, description: bytes) -> Json:
    return client.post(
        "/audio/voices",
        cast_to=dict[str, Any],
        body={"name": name},
        files={"model": ("voice.onnx", graph), "config": ("voice.onnx.json", description)},
        options={"headers": {"Content-Type": "multipart/form-data"}},
    )


def kept(data: Path) -> list[str]:
    return [each.name for each in data.rglob("*") if each.is_file() and "onnx" in each.name]


def test_every_voice_that_is_listed_speaks(client: OpenAI, ear: Ear) -> None:
    told = listed(client)
    assert "joe" in told["voices"]
    cards = {card["id"]: card for card in told["data"]}
    assert cards["joe"]["model"] == "piper-joe"
    assert cards["alloy"]["alias_of"] == told["voices"][0]
    english = [name for name in told["voices"] if cards[name]["language"] == "en"]
    for name in (*english, "alloy"):
        assert word_error_rate(TEXT, ear.hear(say(client, name))) < 0.2, name


def test_a_voice_is_added_speaks_and_is_removed(
    client: OpenAI, server: Server, data: Path, exported: tuple[bytes, bytes], ear: Ear
) -> None:
    before = listed(client)["voices"]
    card = add(client, "joe-2", *exported)
    assert (card["id"], card["language"], card["owned_by"]) == ("joe-2", "en", "user")
    assert card["created_at"] > 1_700_000_000
    assert listed(client)["voices"] == [*before, "joe-2"]
    assert kept(data)
    assert word_error_rate(TEXT, ear.hear(say(client, "joe-2"))) < 0.2
    with pytest.raises(ConflictError) as taken:
        add(client, "joe-2", *exported)
    assert taken.value.param == "name"
    gone = client.audio.voices.delete("joe-2")
    assert (gone.id, gone.deleted, gone.object) == ("joe-2", True, "audio.voice.deleted")
    assert listed(client)["voices"] == before
    assert kept(data) == []
    with pytest.raises(BadRequestError) as unknown:
        say(client, "joe-2")
    assert unknown.value.param == "voice"
    with pytest.raises(NotFoundError):
        client.audio.voices.delete("joe-2")
    wait_quiet(server)


def test_files_that_are_no_voice_are_refused(
    client: OpenAI, data: Path, exported: tuple[bytes, bytes]
) -> None:
    graph, description = exported
    before = listed(client)["voices"]
    for broken, described in (
        (graph[: len(graph) // 2], description),
        (graph, b'{"audio": {"sample_rate": 22050}}'),
    ):
        with pytest.raises(BadRequestError) as refused:
            add(client, "broken", broken, described)
        assert refused.value.code == "voice_unusable"
        assert str(data) not in refused.value.message
    assert listed(client)["voices"] == before
    assert kept(data) == []
    assert say(client, "joe")


def test_what_the_deployment_has_and_recordings_are_refused(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as fixed:
        client.audio.voices.delete("joe")
    assert fixed.value.code == "voice_fixed"
    with pytest.raises(BadRequestError) as recorded:
        client.audio.voices.create(name="me", audio_sample=("a.wav", b"RIFF"), consent="cons_1")
    assert recorded.value.param == "audio_sample"
    with pytest.raises(BadRequestError) as described:
        client.audio.voices.create(name="me", type="prompt", prompt="A deep voice.")
    assert "Piper" in described.value.message
    with pytest.raises(NotFoundError):
        client.audio.voice_consents.list()
