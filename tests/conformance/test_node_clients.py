"""Public clients for Node, unmodified, against whole servers."""

from __future__ import annotations

import pytest

from .node_clients import NODE_CLIENTS
from .report import KINDS, Client, faults
from .runs import Runs

pytestmark = [pytest.mark.models, pytest.mark.server, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", NODE_CLIENTS, ids=lambda client: client.name)
def test_node_client(client: Client, kind: str, runs: Runs) -> None:
    report = runs.of(client, kind)
    assert faults(client, kind, report) == []
