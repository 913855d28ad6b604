"""The Python clients, as the runs know them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from .environments import PINS, PYTHON_ENVIRONMENTS
from .report import Client

HERE = Path(__file__).parent


def _pinned(environment: str, package: str) -> str:
    """The version of a package that an environment installs."""
    pins = (PINS / f"{environment}.txt").read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(package)}==(\S+)$", pins, re.MULTILINE)
    assert found, f"pins/{environment}.txt does not pin {package}"
    return found[1]


def _script(name: str, environment: str | None, *options: str) -> Callable[[], list[str]]:
    """The command line of a script; without an environment it runs in this one."""

    def command() -> list[str]:
        python = sys.executable
        if environment:
            PYTHON_ENVIRONMENTS[environment].made()
            python = str(PYTHON_ENVIRONMENTS[environment].python)
        return [python, "-m", f"clients.{name}", *options]

    return command


def _openai(script: str) -> tuple[Client, Client]:
    """Both clients of the package, by one script."""
    names = {"sync": "OpenAI (Python)", "async": "AsyncOpenAI (Python)"}
    one, other = (
        Client(
            name=name,
            package="PyPI openai",
            version=version("openai"),
            command=_script(script, None, kind),
            folder=HERE,
        )
        for kind, name in names.items()
    )
    return one, other


PYTHON_CLIENTS = (
    Client(
        name="AsyncOpenAI",
        package="PyPI openai",
        version=version("openai"),
        dialect="GA",
        turns="server VAD",
        command=_script("openai_sdk", None, "ga"),
        folder=HERE,
    ),
    Client(
        name="AsyncOpenAI (beta)",
        package="PyPI openai",
        version=version("openai"),
        dialect="beta",
        turns="server VAD",
        command=_script("openai_sdk", None, "beta"),
        folder=HERE,
    ),
    Client(
        name="RealtimeRunner",
        package="PyPI openai-agents",
        version=_pinned("openai-agents", "openai-agents"),
        dialect="GA",
        turns="semantic VAD",
        command=_script("openai_agents", "openai-agents"),
        folder=HERE,
    ),
    Client(
        name="OpenAIRealtimeLLMService",
        package="PyPI pipecat-ai",
        version=_pinned("pipecat", "pipecat-ai"),
        dialect="GA",
        turns="server VAD",
        command=_script("pipecat_openai", "pipecat"),
        folder=HERE,
    ),
    Client(
        name="RealtimeModel",
        package="PyPI livekit-plugins-openai",
        version=_pinned("livekit", "livekit-plugins-openai"),
        dialect="GA",
        turns="semantic VAD",
        command=_script("livekit_openai", "livekit"),
        folder=HERE,
    ),
)

NO_FILES = "It asks for PCM alone."
NO_EVENTS = "It reads no events."
NO_TIMES = "It gives text alone."
NO_TRANSLATION = "It does not translate."

PYTHON_SPEECH_CLIENTS = (
    *_openai("openai_speech"),
    Client(
        name="OpenAITTSService, OpenAISTTService",
        package="PyPI pipecat-ai",
        version=_pinned("pipecat", "pipecat-ai"),
        command=_script("pipecat_speech", "pipecat"),
        folder=HERE,
        lacks={
            "file formats": NO_FILES,
            "speech events": NO_EVENTS,
            "word times": NO_TIMES,
            "streamed transcript": NO_EVENTS,
            "translation": NO_TRANSLATION,
        },
    ),
    Client(
        name="openai.TTS, openai.STT",
        package="PyPI livekit-plugins-openai",
        version=_pinned("livekit", "livekit-plugins-openai"),
        command=_script("livekit_speech", "livekit"),
        folder=HERE,
        lacks={
            "word times": NO_TIMES,
            "streamed transcript": "It reads no events of transcripts.",
            "translation": NO_TRANSLATION,
        },
    ),
)

PYTHON_MEDIA_CLIENTS = _openai("openai_media")
