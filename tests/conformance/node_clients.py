"""The clients of Node, as the runs know them."""

from __future__ import annotations

from functools import partial

import msgspec

from .node_environment import HERE, command
from .report import Client


class _Package(msgspec.Struct):
    dependencies: dict[str, str]


VERSIONS = msgspec.json.decode((HERE / "package.json").read_bytes(), type=_Package).dependencies
"""Exact versions, by package."""


def _client(
    name: str,
    package: str,
    script: str,
    *,
    dialect: str = "GA",
    turns: str = "server VAD",
    secure: bool = False,
) -> Client:
    return Client(
        name=name,
        package=f"npm {package}",
        version=VERSIONS[package],
        dialect=dialect,
        turns=turns,
        command=partial(command, script),
        folder=HERE,
        secure=secure,
    )


NODE_CLIENTS = (
    _client(
        "RealtimeSession",
        "@openai/agents-realtime",
        "agents_realtime.mjs",
        turns="semantic VAD",
    ),
    _client("OpenAIRealtimeWS", "openai", "openai_ws.mjs", secure=True),
    _client("OpenAIRealtimeWebSocket", "openai", "openai_websocket.mjs", secure=True),
    _client("OpenAIRealtimeWS (beta)", "openai", "openai_beta_ws.mjs", dialect="beta", secure=True),
    # A port of @openai/realtime-api-beta, which its makers published on GitHub only.
    _client("RealtimeClient", "openai-realtime-api", "realtime_api_beta.mjs", dialect="beta"),
)


def _openai(script: str) -> Client:
    return Client(
        name="OpenAI (Node)",
        package="npm openai",
        version=VERSIONS["openai"],
        command=partial(command, script),
        folder=HERE,
    )


NODE_SPEECH_CLIENTS = (_openai("openai_speech.mjs"),)
NODE_MEDIA_CLIENTS = (_openai("openai_media.mjs"),)
