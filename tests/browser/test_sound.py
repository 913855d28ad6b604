"""How sound travels between page and server: binary, as Opus, and in JSON where it must."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute
from tests.support.server import Server
from tests.support.speech import Speaker, silence

from antiphon.codecs.opus import PRE_SKIP
from antiphon.realtime.binary import Kind

from .chromium import BINARY, Event, Visit, microphone, visiting

pytestmark = [
    pytest.mark.models,
    pytest.mark.server,
    pytest.mark.browser,
    pytest.mark.timeout(120),
]

DELTA = "response.output_audio.delta"
APPEND = "input_audio_buffer.append"
REPORT = "antiphon.playback.report"

PACKET_MS = 20

MOST_AHEAD_MS = 600
"""How long after a report the server takes playback to go on."""


def ask_by_voice(visit: Visit) -> None:
    """Start talking, and return once the answer sounds."""
    visit.page.click("#talk")
    visit.wait("window.antiphon.turns.length && window.antiphon.turns[0].reply")
    visit.wait("window.antiphon.playback.playedMs > 600")


def ask_in_writing(visit: Visit) -> None:
    """Type a question, and return once the answer sounds."""
    visit.page.fill("#message", "Why is the sky blue?")
    visit.page.press("#message", "Enter")
    visit.wait("window.antiphon.playback.playedMs > 600")


def frames_of(kind: Kind, events: list[Event]) -> list[Event]:
    """Return the binary frames among ``events``, all of which must be of this kind."""
    frames = [event for event in events if event["type"] == BINARY]
    assert {frame["kind"] for frame in frames} == {kind}
    return frames


def test_sound_goes_in_binary_frames_both_ways(
    scripted_server: Server, speaker: Speaker, tmp_path: Path
) -> None:
    heard = silence(600) + speaker.say("What is the capital of France?").pcm + silence(20_000)
    with visiting(scripted_server.url, *microphone(tmp_path, heard)) as visit:
        ask_by_voice(visit)
        assert frames_of(Kind.PCM16, visit.received)
        sent = frames_of(Kind.PCM16, visit.sent)
        assert {frame["bytes"] for frame in sent} == {2 * 24 * PACKET_MS}
        assert not visit.of_kind(DELTA)
        # Until the server has agreed, some of the silence before the question goes in JSON.
        agreed = visit.sent.index(sent[0])
        assert not [each for each in visit.sent[agreed:] if each["type"] == APPEND]
        assert visit.errors == []


def test_playback_is_reported_and_the_server_counts_by_it(scripted_server: Server) -> None:
    with visiting(scripted_server.url, "--deny-permission-prompts") as visit:
        ask_in_writing(visit)
        visit.wait("window.antiphon.playback.playedMs > 1200")
        visit.page.click("#interrupt")
        visit.until(lambda: visit.sent_of_kind("conversation.item.truncate"), "the cut")
        reports = visit.sent_of_kind(REPORT)
        assert len(reports) >= 3
        for name in ("played_ms", "underruns", "gap_ms"):
            values = [report[name] for report in reports]
            assert values == sorted(values)
        assert reports[-1]["buffered_ms"] == 0
        (measured,) = visit.until_received("antiphon.response.metrics")
        assert measured["reported"]
        # The last report may come after the end, and between reports playback is taken to go on.
        assert abs(measured["played_ms"] - reports[-1]["played_ms"]) <= MOST_AHEAD_MS
        assert measured["underruns"] in [report["underruns"] for report in reports]
        assert visit.errors == []


def test_a_suspended_sound_is_reported_as_standing_still(scripted_server: Server) -> None:
    def keep_context(page: Page) -> None:
        # The page lets nobody at its context; a browser may suspend one at any time.
        page.add_init_script(
            "window.AudioContext = class extends AudioContext {"
            " constructor(...all) { super(...all); window.soundContext = this; } };"
        )

    flags = "--deny-permission-prompts"
    with visiting(scripted_server.url, flags, prepare=keep_context) as visit:
        ask_in_writing(visit)
        visit.page.evaluate("() => window.soundContext.suspend()")
        visit.wait("window.soundContext.state === 'suspended'")
        told = len(visit.sent_of_kind(REPORT))
        visit.until(lambda: len(visit.sent_of_kind(REPORT)) >= told + 2, "reports of standing")
        *_, first, second = visit.sent_of_kind(REPORT)
        assert first == second
        assert second["buffered_ms"] > 0
        visit.page.evaluate("() => window.soundContext.resume()")
        before = second["played_ms"]
        visit.wait(f"window.antiphon.playback.playedMs > {before} + 300")


def test_opus_carries_both_voices(
    scripted_server: Server, speaker: Speaker, tmp_path: Path
) -> None:
    heard = silence(600) + speaker.say("What is the capital of France?").pcm + silence(20_000)
    flags = microphone(tmp_path, heard)
    with visiting(scripted_server.url, *flags, query="?audio=opus") as visit:
        ask_by_voice(visit)
        received = frames_of(Kind.OPUS, visit.received)
        sent = frames_of(Kind.OPUS, visit.sent)
        # 32 kbit/s is 80 bytes a packet; samples would be 960.
        assert sum(frame["bytes"] for frame in received) / len(received) < 200
        assert sum(frame["bytes"] for frame in sent) / len(sent) < 200
        visit.until_received("response.output_audio.done")
        packets = [each for each in frames_of(Kind.OPUS, visit.received) if each["number"] == 1]
        assert packets[-1]["last"]
        # All that was sent is there to be heard, less what the encoder looked ahead.
        expected = len(packets) * PACKET_MS - PRE_SKIP / 24
        given = "window.antiphon.playback.playedMs + window.antiphon.playback.bufferedMs"
        visit.wait(f"{given} > {expected - 3}")
        assert visit.page.evaluate(f"() => {given}") < expected + 3
        assert visit.errors == []


def test_when_the_browser_s_opus_breaks_samples_take_over(scripted_server: Server) -> None:
    def break_opus(page: Page) -> None:
        page.add_init_script(
            "AudioDecoder.prototype.decode = () => { throw new TypeError('broken'); };"
        )

    flags = "--deny-permission-prompts"
    with visiting(scripted_server.url, flags, query="?audio=opus", prepare=break_opus) as visit:
        visit.page.click("#talk")
        visit.wait("window.antiphon.status === 'listening'")
        visit.page.fill("#message", "Why is the sky blue?")
        visit.page.press("#message", "Enter")
        visit.wait("window.antiphon.state.session.antiphon.binary_format === 'pcm16'")
        visit.page.click("#interrupt")
        visit.page.fill("#message", "And now?")
        visit.page.press("#message", "Enter")
        visit.wait("window.antiphon.playback.playedMs > 300")
        formats = [each["format"] for each in visit.of_kind("antiphon.output_audio.started")]
        assert (formats[0], formats[-1]) == ("opus", "pcm16")
        assert not visit.page.is_visible("#notice[data-code=server-error]")


class StockServer:
    """Answers like a server that knows nothing of ours: one reply, a second of a tone."""

    def __init__(self) -> None:
        self.taken: list[Any] = []

    def serve(self, page: Page) -> None:
        """Stand in for the server's socket."""
        page.route_web_socket("**/v1/realtime?*", self._opened)

    def _opened(self, route: WebSocketRoute) -> None:
        say = self._speaker(route)
        route.on_message(lambda message: self._take(message, say))
        say("session.created", session={"type": "realtime", "id": "sess_1", "audio": {}})

    def _speaker(self, route: WebSocketRoute) -> Callable[..., None]:
        def say(kind: str, **fields: object) -> None:
            route.send(json.dumps({"type": kind, **fields}))

        return say

    def _take(self, message: str | bytes, say: Callable[..., None]) -> None:
        assert isinstance(message, str), "a binary frame for a server that never offered any"
        event = json.loads(message)
        self.taken.append(event)
        if event["type"] == "session.update":
            say("session.updated", session={"type": "realtime", "audio": {}})
        elif event["type"] == "response.create":
            self._reply(say)

    def _reply(self, say: Callable[..., None]) -> None:
        at = {"response_id": "resp_1", "item_id": "item_1", "output_index": 0, "content_index": 0}
        item = {"id": "item_1", "type": "message", "role": "assistant"}
        pcm = b"\x00\x10" * 24_000
        say("response.created", response={"id": "resp_1", "status": "in_progress", "output": []})
        say("response.output_item.added", response_id="resp_1", output_index=0, item=item)
        say("response.output_audio_transcript.delta", **at, delta="A tone.")
        for start in range(0, len(pcm), 9_600):
            piece = base64.b64encode(pcm[start : start + 9_600]).decode()
            say(DELTA, **at, delta=piece)
        say("response.output_audio.done", **at)
        say("response.done", response={"id": "resp_1", "status": "completed", "output": [item]})


def test_a_server_without_our_extension_is_spoken_to_in_json(
    scripted_server: Server, tmp_path: Path
) -> None:
    stock = StockServer()
    flags = microphone(tmp_path, silence(5000))
    with visiting(scripted_server.url, *flags, prepare=stock.serve) as visit:
        visit.page.click("#talk")
        visit.wait("window.antiphon.status === 'listening'")
        visit.page.fill("#message", "A tone, please.")
        visit.page.press("#message", "Enter")
        visit.wait("window.antiphon.status === 'speaking'")
        visit.wait("window.antiphon.status === 'listening'")
        assert visit.page.evaluate("() => window.antiphon.playback.playedMs") == 1000
        assert visit.page.evaluate("() => window.antiphon.turns[0].heardWords") == 2
        kinds = [event["type"] for event in stock.taken]
        assert APPEND in kinds
        assert not [kind for kind in kinds if kind.startswith("antiphon.")]
        assert not [e for e in stock.taken if "antiphon" in e.get("session", {})]
        assert visit.errors == []
