"""A whole application over jobs in memory, and two clients of it who don't see each other's."""

from __future__ import annotations

from typing import Any

from starlette.requests import HTTPConnection
from tests.support.fake_desk import FakeDesk
from tests.support.fakes import FakePipeline
from tests.web.visitor import Visitor

from antiphon.engines.deployment import parse_deployment
from antiphon.web.app import Jobs, Server
from antiphon.web.media.service import MediaService

MINE, YOURS = "sk-mine", "sk-yours"
"""Two keys."""

PLACED = {
    "antiphon-draw": {"path": "placeholder-image"},
    "antiphon-move": {"path": "placeholder-video"},
}
"""Models of many sizes and lengths under the names of those that are shipped."""

Json = dict[str, Any]


class Rig:
    """A server whose jobs the test moves on."""

    def __init__(self, *, hooks: bool = False, queue_limit: int = 1000, **media: object) -> None:
        """``media`` as a deployment has it; by default the placeholder models."""
        self.desk = FakeDesk(queue_limit=queue_limit)
        deployment = parse_deployment(
            {
                "model": "fake-model",
                "media": {"models": PLACED, **media},
                "access": {"keys": [MINE, YOURS]},
            }
        )
        self.server = Server(deployment, FakePipeline(), jobs=Jobs(self.desk, hooks=hooks))
        assert self.server.media is not None
        self.service: MediaService = self.server.media
        self.app = self.server.app

    def owner(self, key: str = MINE) -> str:
        """How jobs name whom a key belongs to."""
        headers = [(b"authorization", f"Bearer {key}".encode())]
        return self.service.owner(HTTPConnection({"type": "http", "headers": headers}))

    def visitor(self, key: str = MINE) -> Visitor:
        """A client for whole answers and sockets; each request has a loop of its own."""
        client = Visitor(self.app)
        client.headers["Authorization"] = f"Bearer {key}"
        return client
