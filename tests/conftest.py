"""Fixtures of the whole suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings
from tests.support.models import fetched
from tests.support.server import Server, serving, shipped, write_deployment
from tests.support.speech import Ear, Speaker, hearing, speaking

from antiphon.engines.chunks import Samples

# How long an example takes is the machine's matter.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

SCRIPTED_LINE = (
    "Certainly. The sky is blue because air scatters blue light more than red light. "
    "In the evening the light takes a longer way, and it turns red."
)
"""What the scripted server answers to everything: about 9 s of speech."""

SCRIPTED_QUESTION = "Tell me something about the sky."
"""What the scripted server hears, whatever was said."""

SCRIPTED_TOKENS_PER_SECOND = 12
"""Slow, so that a reply is still being made for two seconds after it has begun to sound."""

MULTILINGUAL = "whisper-base"
"""A recognizer that is in no deployment that ships."""


@pytest.fixture(scope="session")
def speaker() -> Iterator[Speaker]:
    """The voice of the default deployment."""
    with speaking() as each:
        yield each


@pytest.fixture(scope="session")
def ear() -> Iterator[Ear]:
    """The recognizer of the default deployment."""
    with hearing() as each:
        yield each


@pytest.fixture(scope="session")
def spoken(speaker: Speaker) -> Callable[[str], Samples]:
    """A function that says a text: float32 samples at 24 kHz."""
    return speaker.samples


@pytest.fixture(scope="session")
def scripted_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a real voice, and given lines for recognizer and language model.

    It says the same line the same way every time.
    """
    deployment = shipped("scripted")
    stages = deployment["stages"]
    stages["recognizer"]["lines"] = [SCRIPTED_QUESTION]
    stages["ar"]["lines"] = [SCRIPTED_LINE]
    stages["ar"]["tokens_per_second"] = SCRIPTED_TOKENS_PER_SECOND
    stages["talker"] = {"variation": 0}
    with serving(write_deployment(deployment, tmp_path_factory.mktemp("scripted"))) as server:
        yield server


@pytest.fixture(scope="session")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the default deployment, which answers the same question the same way."""
    deployment = shipped("embedded")
    deployment["stages"]["ar"]["temperature"] = 0
    deployment["stages"]["talker"]["variation"] = 0
    with serving(write_deployment(deployment, tmp_path_factory.mktemp("embedded"))) as server:
        yield server


@pytest.fixture(scope="session")
def multilingual_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a real voice, a recognizer of many languages, and given lines."""
    fetched(MULTILINGUAL)
    deployment = shipped("scripted")
    stages = deployment["stages"]
    stages["recognizer"] = {"use": "whisper", "model": MULTILINGUAL}
    stages["talker"] = {"variation": 0}
    with serving(write_deployment(deployment, tmp_path_factory.mktemp("multilingual"))) as server:
        yield server
