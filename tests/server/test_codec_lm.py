"""A whole server whose voice is a codec language model, tiny and of random weights."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.faults.test_engine_death import RESTART_SECONDS, wait_ready
from tests.server.line import line
from tests.support.decoders import SNAC_CONFIG, tiny_snac
from tests.support.server import Server, serving, shipped, wait_quiet, write_deployment
from tests.support.token_models import TinyModel, frames, write_model

from antiphon.engines.speech.tokens.layout import TokenBlock

from .test_speech_stream import stream

pytestmark = [pytest.mark.models, pytest.mark.server, pytest.mark.timeout(180)]

FIRST, SIZE = 300, 64
HOP = 512
TEXT = "The light of the evening takes a longer way, and so it turns red. "


def write_voice(folder: Path) -> None:
    """A language model with Orpheus' names, and a SNAC of its shape."""
    marks = ["<|begin_of_text|>", "<|eot_id|>"]
    names = [*marks, *(f"<custom_token_{n}>" for n in range(10 + 7 * SIZE + 6))]
    at = {name: FIRST + number for number, name in enumerate(names)}
    first = at["<custom_token_10>"]
    blocks = [TokenBlock(first + SIZE * place, SIZE) for place in range(7)]
    model = TinyModel(
        chain=frames(blocks, at["<custom_token_2>"], mean=15, temperature=0.6),
        size=FIRST + len(names),
        names={number: name for name, number in at.items()},
    )
    write_model(folder / "lm", model)
    (folder / "snac").mkdir()
    (folder / "snac" / "config.json").write_text(json.dumps(SNAC_CONFIG | {"noise": True}))
    weights = tiny_snac(dtype=torch.float32).state_dict()
    torch.save(weights, folder / "snac" / "pytorch_model.bin")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("codec-lm")
    write_voice(folder)
    deployment = shipped("scripted")
    deployment["pipeline"] = "codec-lm"
    deployment["stages"]["talker"] = {
        "use": "codec-lm",
        "family": "orpheus",
        "model": "./lm",
        "codec": "./snac",
    }
    with serving(write_deployment(deployment, folder)) as each:
        yield each


@contextmanager
def posted(server: Server, **asked: object) -> Generator[http.client.HTTPResponse]:
    """The answer to a request; the client leaves when this is left."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    with closing(connection):
        body = json.dumps(asked)
        connection.request("POST", "/v1/audio/speech", body, {"Content-Type": "application/json"})
        with connection.getresponse() as answer:
            yield answer


def test_it_speaks_over_all_three_paths(server: Server) -> None:
    with posted(server, input=TEXT, response_format="pcm", voice="leo") as answer:
        assert answer.status == 200
        pcm = answer.read()
    # Whole steps, of several frames.
    assert len(pcm) % (2 * HOP) == 0
    assert len(pcm) > 2 * HOP * 8
    assert len(set(pcm)) > 100

    async def main() -> None:
        async with stream(server) as each:
            await each.write(TEXT)
            await each.say("input.done")
            await each.until("audio.done")
            assert len(each.heard) % (2 * HOP) == 0
        async with line(server) as each:
            await each.ask("How are you?", aloud=True)
            await each.until("response.output_audio.delta")
            response = (await each.until("response.done"))["response"]
            assert response["status"] == "completed"

    asyncio.run(main())
    told = wait_quiet(server)["stages"]
    assert told["talker"]["utterances"] >= 3
    assert told["talker"]["dropped_tokens"] == 0
    assert told["talker"]["audio_seconds"] == pytest.approx(told["code2wav"]["audio_seconds"])


def test_clients_that_leave_and_many_at_once_leave_nothing(server: Server) -> None:
    with ExitStack() as stay:
        asked: Any = {"input": TEXT * 5, "response_format": "pcm"}
        leaving = ExitStack()
        leave = [leaving.enter_context(posted(server, **asked)) for _ in range(4)]
        answers = [stay.enter_context(posted(server, **asked)) for _ in range(4)]
        assert all(answer.read(1000) for answer in leave)
        leaving.close()
        assert all(len(answer.read()) % (2 * HOP) == 0 for answer in answers)
    told = wait_quiet(server)["stages"]["talker"]
    assert told["unfinished"] == 0


def test_an_engine_that_is_killed_ends_speech_to_be_tried_again(server: Server) -> None:
    children = [each for each in server.processes() if each.pid != server.pid]
    engine = max(children, key=lambda each: each.memory_info().rss)
    with posted(server, input=TEXT * 200, response_format="pcm", stream_format="sse") as answer:
        assert answer.read(100)
        engine.kill()
        *_, last = answer.read().decode().strip().split("\n\n")
    error: dict[str, Any] = json.loads(last.removeprefix("data: "))["error"]
    assert error["code"] == "engine_restarting"
    assert error["retry_after_ms"] > 0
    with posted(server, input=TEXT) as refused:
        assert refused.status == 503
        assert int(refused.headers["Retry-After"]) >= 1
    asyncio.run(wait_ready(server, RESTART_SECONDS, lambda told: bool(told["ready"])))
    with posted(server, input=TEXT, response_format="pcm") as answer:
        assert answer.read()
    assert wait_quiet(server)["stages"]["talker"]["restarts"] == 1
