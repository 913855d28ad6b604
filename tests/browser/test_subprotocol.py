"""An app in a browser, which can set no headers, names its key and dialect in subprotocols."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.server import Server

from .chromium import Visit, visiting

pytestmark = [
    pytest.mark.models,
    pytest.mark.server,
    pytest.mark.browser,
]

KEY = "openai-insecure-api-key.k"

_OPEN = """([url, protocols]) => new Promise((resolve) => {
  const socket = new WebSocket(url, protocols);
  const events = [];
  let chosen = null;
  socket.onopen = () => { chosen = socket.protocol; };
  socket.onmessage = ({ data }) => {
    events.push(JSON.parse(data));
    if (events.length === 1)
      socket.send(JSON.stringify({ type: "session.update", session: { type: "realtime" } }));
    if (events.length === 2) socket.close(1000);
  };
  socket.onclose = ({ code }) => resolve({ chosen, events, code });
})"""
"""Opens a socket, changes nothing of the session, and closes after the second event."""


def opened(visit: Visit, server: Server, *protocols: str) -> dict[str, Any]:
    """Return what a socket with these subprotocols met."""
    met: dict[str, Any] = visit.page.evaluate(_OPEN, [server.ws_url, list(protocols)])
    return met


def test_the_key_comes_in_a_subprotocol(scripted_server: Server) -> None:
    with visiting(scripted_server.url) as visit:
        met = opened(visit, scripted_server, "realtime", KEY)
        assert met["chosen"] == "realtime"
        assert [event["type"] for event in met["events"]] == ["session.created", "session.updated"]
        assert met["events"][0]["session"]["output_modalities"] == ["audio"]
        assert met["code"] == 1000
        assert visit.errors == []


def test_the_beta_dialect_is_asked_for_in_another(scripted_server: Server) -> None:
    with visiting(scripted_server.url) as visit:
        met = opened(visit, scripted_server, "realtime", KEY, "openai-beta.realtime-v1")
        assert met["chosen"] == "realtime"
        created = met["events"][0]
        assert created["type"] == "session.created"
        assert created["session"]["modalities"] == ["text", "audio"]
        assert met["code"] == 1000
        assert visit.errors == []
