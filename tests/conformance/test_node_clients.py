"""Public clients for Node, unmodified, against whole servers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest
from tests.support.certificates import self_signed

from .node_clients import NODE_CLIENTS, NODE_MEDIA_CLIENTS, NODE_SPEECH_CLIENTS
from .node_environment import command
from .report import KINDS, MEDIA, OK, SPEECH, Client, Report, faults, read_report
from .runs import Runs
from .servers import scripted

pytestmark = [
    pytest.mark.models,
    pytest.mark.server,
    # The first test of a kind runs all clients, and may have to install them.
    pytest.mark.timeout(1800),
]

TLS_SECONDS = 60.0
"""Longest run of the script that only connects."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", NODE_CLIENTS, ids=lambda client: client.name)
def test_node_client(client: Client, kind: str, runs: Runs) -> None:
    assert not faults(client, kind, runs.of(client, kind))


@pytest.mark.parametrize("kind", [SPEECH])
@pytest.mark.parametrize("client", NODE_SPEECH_CLIENTS, ids=lambda client: client.name)
def test_node_client_of_speech(client: Client, kind: str, runs: Runs) -> None:
    assert not faults(client, kind, runs.of(client, kind))


@pytest.mark.parametrize("kind", [MEDIA])
@pytest.mark.parametrize("client", NODE_MEDIA_CLIENTS, ids=lambda client: client.name)
def test_node_client_of_media(client: Client, kind: str, runs: Runs) -> None:
    assert not faults(client, kind, runs.of(client, kind))


def test_the_servers_certificate_is_checked(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    with scripted(tmp_path, certificate) as url:
        trusted = connected(url, {"NODE_EXTRA_CA_CERTS": str(certificate.certificate)})
        assert set(trusted.features.values()) == {OK}, trusted
        assert trusted.errors == []
        stranger = connected(url, {})
        assert OK not in stranger.features.values()


def connected(url: str, trust: dict[str, str]) -> Report:
    """Return what the clients that speak TLS only report of connecting."""
    job = {"url": url, "model": "antiphon"}
    done = subprocess.run(
        [*command("tls.mjs"), msgspec.json.encode(job).decode()],
        stdout=subprocess.PIPE,
        encoding="utf-8",
        timeout=TLS_SECONDS,
        env={**{name: os.environ[name] for name in ("PATH", "HOME")}, **trust},
    )
    return read_report(done.stdout)
