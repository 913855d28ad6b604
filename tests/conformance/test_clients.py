"""Public clients, unmodified, each in an environment of its own, against whole servers."""

from __future__ import annotations

import pytest

from .python_clients import PYTHON_CLIENTS, PYTHON_MEDIA_CLIENTS, PYTHON_SPEECH_CLIENTS
from .report import KINDS, MEDIA, SPEECH, TABLE, Client, faults, table
from .runs import Runs

pytestmark = [
    pytest.mark.models,
    pytest.mark.server,
    # The first test of a kind runs all clients, and may have to install them.
    pytest.mark.timeout(1800),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", PYTHON_CLIENTS, ids=lambda client: client.name)
def test_python_client(client: Client, kind: str, runs: Runs) -> None:
    assert not faults(client, kind, runs.of(client, kind))


@pytest.mark.parametrize("kind", [SPEECH])
@pytest.mark.parametrize("client", PYTHON_SPEECH_CLIENTS, ids=lambda client: client.name)
def test_python_client_of_speech(client: Client, kind: str, runs: Runs) -> None:
    assert not faults(client, kind, runs.of(client, kind))


@pytest.mark.parametrize("kind", [MEDIA])
@pytest.mark.parametrize("client", PYTHON_MEDIA_CLIENTS, ids=lambda client: client.name)
def test_python_client_of_media(client: Client, kind: str, runs: Runs) -> None:
    assert not faults(client, kind, runs.of(client, kind))


def test_the_table_says_what_was_found(
    clients: tuple[Client, ...],
    speech_clients: tuple[Client, ...],
    media_clients: tuple[Client, ...],
    runs: Runs,
) -> None:
    found = {(client.name, kind): runs.of(client, kind) for client in clients for kind in KINDS}
    found |= {(client.name, SPEECH): runs.of(client, SPEECH) for client in speech_clients}
    found |= {(client.name, MEDIA): runs.of(client, MEDIA) for client in media_clients}
    text = table(found, clients, speech_clients, media_clients)
    before = TABLE.read_text(encoding="utf-8") if TABLE.exists() else ""
    TABLE.write_text(text, encoding="utf-8")
    assert text == before, f"{TABLE} was not up to date; it is now: look at the difference"
