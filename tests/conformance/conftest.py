"""Fixtures of the tests with public clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.speech import Speaker

from .node_clients import NODE_CLIENTS, NODE_MEDIA_CLIENTS, NODE_SPEECH_CLIENTS
from .python_clients import PYTHON_CLIENTS, PYTHON_MEDIA_CLIENTS, PYTHON_SPEECH_CLIENTS
from .report import KINDS, MEDIA, SPEECH, Client
from .runs import Runs

CLIENTS = (*PYTHON_CLIENTS, *NODE_CLIENTS)
SPEECH_CLIENTS = (*PYTHON_SPEECH_CLIENTS, *NODE_SPEECH_CLIENTS)
MEDIA_CLIENTS = (*PYTHON_MEDIA_CLIENTS, *NODE_MEDIA_CLIENTS)


def _wanted(items: list[pytest.Item]) -> Iterator[tuple[Client, str]]:
    """What the tests of this run ask for, by their parameters ``client`` and ``kind``."""
    for item in items:
        if "clients" in getattr(item, "fixturenames", ()):
            yield from ((client, kind) for client in CLIENTS for kind in KINDS)
            yield from ((client, SPEECH) for client in SPEECH_CLIENTS)
            yield from ((client, MEDIA) for client in MEDIA_CLIENTS)
        elif isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            client = item.callspec.params.get("client")
            if isinstance(client, Client):
                yield client, str(item.callspec.params["kind"])


@pytest.fixture(scope="session")
def clients() -> tuple[Client, ...]:
    """Every client of the protocol; a test that has this fixture asks for all reports."""
    return CLIENTS


@pytest.fixture(scope="session")
def speech_clients() -> tuple[Client, ...]:
    """Every client of the speech endpoints."""
    return SPEECH_CLIENTS


@pytest.fixture(scope="session")
def media_clients() -> tuple[Client, ...]:
    """Every client of pictures and clips."""
    return MEDIA_CLIENTS


@pytest.fixture(scope="session")
def runs(
    speaker: Speaker, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Runs:
    """Runs of clients, each done once for all tests."""
    folder = tmp_path_factory.mktemp("clients")
    return Runs(speaker, folder, request, _wanted(request.session.items))
