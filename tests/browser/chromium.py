"""A real Chromium with a made-up microphone, on the page that the server serves."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from playwright.sync_api import ConsoleMessage, Page, WebSocket, sync_playwright
from tests.support.speech import RATE

from antiphon.codecs.wav import write_wav
from antiphon.realtime.binary import unpack

CHROMIUM = "/usr/bin/chromium"

WAIT_MS = 20_000
"""Longest wait for anything on the page."""

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--use-fake-device-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
)

_WAIT = """(limit) => new Promise((resolve) => {
  const end = performance.now() + limit;
  const look = () => {
    const value = CONDITION;
    if (value || performance.now() > end) resolve([value, window.antiphon.state]);
    else setTimeout(look, 10);
  };
  look();
})"""

Event = dict[str, Any]

T = TypeVar("T")

BINARY = "binary"
"""The type under which a binary frame is noted, with its header's fields and ``bytes``."""


@dataclass
class Visit:
    """One page, and what went over its socket."""

    page: Page
    sent: list[Event] = field(default_factory=list[Event])
    received: list[Event] = field(default_factory=list[Event])
    errors: list[str] = field(default_factory=list[str])

    def wait(self, condition: str) -> Any:
        """Return once a JavaScript expression is true; what it then is."""
        # Playwright's own wait evaluates a string time and again, which the page forbids.
        script = _WAIT.replace("CONDITION", condition)
        value, state = self.page.evaluate(script, WAIT_MS)
        assert value, f"never came true: {condition}\n{state}"
        return value

    def of_kind(self, kind: str) -> list[Event]:
        """Return the events of a kind that the server has sent so far; see :data:`BINARY`."""
        return [event for event in self.received if event["type"] == kind]

    def until(self, look: Callable[[], T], what: str) -> T:
        """Return what ``look`` sees among the events, once that is true."""
        end = time.monotonic() + WAIT_MS / 1000
        while not (seen := look()):
            assert time.monotonic() < end, f"never came: {what}"
            # Events are noted while the page is waited for.
            self.page.wait_for_timeout(20)
        return seen

    def until_received(self, kind: str) -> list[Event]:
        """Return the server's events of a kind, once there is one."""
        return self.until(lambda: self.of_kind(kind), kind)

    def sent_of_kind(self, kind: str) -> list[Event]:
        """Return the events of a kind that the page has sent so far."""
        return [event for event in self.sent if event["type"] == kind]


def microphone(folder: Path, pcm: bytes) -> tuple[str, ...]:
    """Return the flags of a microphone that hears ``pcm`` once, from when it is opened."""
    path = folder / "microphone.wav"
    path.write_bytes(write_wav(pcm, RATE))
    return ("--use-fake-ui-for-media-stream", f"--use-file-for-fake-audio-capture={path}%noloop")


@contextmanager
def visiting(
    url: str, *flags: str, query: str = "", prepare: Callable[[Page], None] = lambda page: None
) -> Generator[Visit, None, None]:
    """Open the page in a browser of its own, at an address with ``query``.

    ``prepare`` is called before anything is loaded.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *flags])
        try:
            visit = Visit(browser.new_page())
            visit.page.set_default_timeout(WAIT_MS)
            _watch(visit)
            prepare(visit.page)
            visit.page.goto(f"{url}/{query}")
            visit.wait("window.antiphon.status === 'idle'")
            yield visit
        finally:
            browser.close()


def _watch(visit: Visit) -> None:
    def note_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            visit.errors.append(message.text)

    def note_socket(socket: WebSocket) -> None:
        socket.on("framesent", lambda frame: visit.sent.append(_event(frame)))
        socket.on("framereceived", lambda frame: visit.received.append(_event(frame)))

    visit.page.on("console", note_console)
    visit.page.on("pageerror", lambda error: visit.errors.append(str(error)))
    visit.page.on("websocket", note_socket)


def _event(frame: str | bytes) -> Event:
    if isinstance(frame, bytes):
        return {"type": BINARY, **_facts(frame)}
    event: Event = json.loads(frame)
    # Audio is told by its length: there are thousands of such frames.
    for name in ("audio", "delta"):
        if "audio" in event["type"] and isinstance(event.get(name), str):
            event[name] = len(event[name])
    return event


def _facts(data: bytes) -> Event:
    frame = unpack(data)
    return {
        "kind": frame.kind,
        "last": frame.last,
        "epoch": frame.epoch,
        "number": frame.number,
        "position_ms": frame.position_ms,
        "bytes": len(frame.payload),
    }
