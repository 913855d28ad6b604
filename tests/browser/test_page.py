"""A person talks to the page, cuts in, and is told what is the matter when something is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import SCRIPTED_LINE, SCRIPTED_QUESTION
from tests.support.server import Server, shipped, write_deployment
from tests.support.speech import Speaker, silence

from .chromium import BINARY, Visit, microphone, visiting

pytestmark = [
    pytest.mark.models,
    pytest.mark.server,
    pytest.mark.browser,
    pytest.mark.timeout(120),
]

BEFORE_MS = 800
LISTENED_MS = 6000
"""How long the person listens to the reply before cutting in; half a second of it is the
silence by which the server tells that the question is over."""


def test_a_spoken_conversation_with_an_interruption(
    scripted_server: Server, speaker: Speaker, tmp_path: Path
) -> None:
    first = speaker.say("What is the capital of France?").pcm
    second = speaker.say("Stop, please. What about the moon?").pcm
    heard = silence(BEFORE_MS) + first + silence(LISTENED_MS) + second + silence(2000)
    with visiting(scripted_server.url, *microphone(tmp_path, heard)) as visit:
        visit.page.click("#talk")
        the_reply_is_heard(visit)
        old = visit.of_kind("response.created")[0]["response"]["id"]
        speech_cuts_it_off(visit, old)
        the_next_reply_comes(visit)
        visit.page.click("#end")
        visit.wait("window.antiphon.status === 'idle'")
        assert visit.errors == []


def the_reply_is_heard(visit: Visit) -> None:
    """It sounds, and both sides can be read, word by word as they are heard."""
    visit.wait("window.antiphon.status === 'speaking'")
    before = visit.wait("window.antiphon.playback.playedMs")
    visit.wait(f"window.antiphon.playback.playedMs > {before} + 1000")
    (user,) = visit.page.locator(".turn.user .text").all_text_contents()
    assert user == SCRIPTED_QUESTION
    (reply,) = visit.page.locator(".turn.reply .text").all_text_contents()
    assert SCRIPTED_LINE.startswith(reply.split(" ")[0])
    visit.wait("document.querySelectorAll('.turn.reply .word.heard').length > 1")
    visit.wait("document.querySelectorAll('.turn.reply .word.ahead').length > 1")
    # From the end of one's own speech; the server waits half a second for it.
    assert 500 <= visit.wait("window.antiphon.turns[0].latencyMs") <= 5000


def speech_cuts_it_off(visit: Visit, old: str) -> None:
    """The sound stops, the server is told what was heard, and the page shows it."""
    visit.wait("window.antiphon.turns[0].interrupted")
    visit.wait("window.antiphon.playback.bufferedMs === 0")
    visit.wait("document.querySelectorAll('.turn.reply .word.dropped').length > 0")
    cut_ms = visit.page.evaluate("() => window.antiphon.playback.playedMs")
    words = len(SCRIPTED_LINE.split())
    assert 0 < visit.page.evaluate("() => window.antiphon.turns[0].heardWords") < words
    assert visit.page.locator(".turn.reply[data-status=interrupted] .word.ahead").count() == 0
    assert "Cut off after" in visit.page.locator(".turn.reply .cut").inner_text()

    # What comes after the question that cut in shows that the truncation was dealt with.
    visit.wait("window.antiphon.turns.length === 2 && window.antiphon.turns[1].user !== ''")
    (truncate,) = [each for each in visit.sent if each["type"] == "conversation.item.truncate"]
    (truncated,) = visit.of_kind("conversation.item.truncated")
    assert truncated["item_id"] == truncate["item_id"]
    assert truncated["audio_end_ms"] == truncate["audio_end_ms"] == cut_ms
    began = visit.received.index(visit.of_kind("input_audio_buffer.speech_started")[1])
    (number,) = [
        each["number"]
        for each in visit.of_kind("antiphon.output_audio.started")
        if each["response_id"] == old
    ]
    late = [each for each in visit.received[began:] if each["type"] == BINARY]
    assert not [each for each in late if each["number"] == number]


def the_next_reply_comes(visit: Visit) -> None:
    """It is a turn of its own, and sounds like the first."""
    visit.wait("window.antiphon.turns[1].reply && window.antiphon.status === 'speaking'")
    assert visit.page.locator(".turn.user").count() == 2
    assert visit.page.locator(".turn.reply").count() == 2
    visit.wait("window.antiphon.turns[1].heardWords > 1")
    assert not visit.page.evaluate("() => window.antiphon.turns[1].interrupted")


def test_a_refused_microphone_is_explained_and_typing_works(scripted_server: Server) -> None:
    # Nobody answers the browser's question about the microphone, which counts as a no.
    with visiting(scripted_server.url, "--deny-permission-prompts") as visit:
        visit.page.click("#talk")
        visit.page.wait_for_selector("#notice[data-code=microphone-refused]")
        assert "microphone is blocked" in visit.page.inner_text("#notice-text")
        visit.page.fill("#message", "Why is the sky blue?")
        visit.page.press("#message", "Enter")
        visit.wait("window.antiphon.status === 'speaking'")
        visit.wait("window.antiphon.playback.playedMs > 500")
        assert visit.page.inner_text(".turn.user .text") == "Why is the sky blue?"
        visit.page.keyboard.press("Escape")
        visit.wait("window.antiphon.turns[0].interrupted")
        visit.wait("window.antiphon.playback.bufferedMs === 0")
        assert visit.errors == []


def test_a_server_that_goes_away_is_found_again(tmp_path: Path) -> None:
    config = write_deployment(shipped("scripted"), tmp_path)
    first = Server(config)
    first.start()
    second = Server(config, port=first.port)
    try:
        with visiting(first.url, *microphone(tmp_path, silence(100))) as visit:
            visit.page.click("#talk")
            visit.wait("window.antiphon.status === 'listening'")
            visit.page.fill("#message", "Why is the sky blue?")
            visit.page.press("#message", "Enter")
            visit.wait("window.antiphon.playback.playedMs > 300")
            first.kill()
            visit.page.wait_for_selector("#notice[data-code=link-lost]")
            assert "does not answer" in visit.page.inner_text("#notice-text")
            visit.wait("window.antiphon.playback.bufferedMs === 0")
            second.start()
            visit.wait("window.antiphon.status === 'listening'")
            visit.page.wait_for_selector("#notice", state="hidden")
            assert "connection was lost here" in visit.page.inner_text(".divider")
            visit.page.fill("#message", "Are you there again?")
            visit.page.press("#message", "Enter")
            visit.wait(
                "window.antiphon.turns.at(-1).reply && window.antiphon.status === 'speaking'"
            )
        second.stop()
    finally:
        first.kill()
        second.kill()
