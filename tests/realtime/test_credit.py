"""Stages, session and client together: how far ahead audio is made, and that it never ends there.

The stages are as quick as they are let; what they believe of the listener is what the
session tells them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from tests.support.peer import Peer, of

from antiphon.engines.scheduling.listener import Listener
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.effects import Effect, ResponseMeasured

LEAD_MS = 4000
CHUNK_MS = 200
TICK_MS = 20
REPORT_MS = 200


@dataclass
class Scene:
    """One reply under simulated time."""

    link: float = float("inf")
    """Seconds of audio that can be written in a second."""

    reports: bool = False
    paused: tuple[float, float] = (0.0, 0.0)
    """From when to when the client stands still, seconds from its start."""

    total_ms: int = 30_000
    peer: Peer = field(default_factory=Peer.attached)
    made_ms: int = 0
    written_ms: float = 0.0
    played_ms: float = 0.0
    ahead_ms: float = 0.0
    """The most that was made and not heard."""

    gap_ms: int = 0
    told: int = 0
    done_at: float | None = None

    def __post_init__(self) -> None:
        self.peer.feed(ev.CreateResponse(ev.ResponseOptions(instructions="Talk.")))
        self.started = self.peer.now
        self.listener = Listener(lead_ms=LEAD_MS, first_due=self.peer.now)

    @property
    def elapsed(self) -> float:
        return self.peer.now - self.started

    def run(self, seconds: float) -> Scene:
        for _ in range(round(seconds * 1000 / TICK_MS)):
            self._note(self.peer.wait(TICK_MS / 1000))
            self._play()
            self._make()
            self._write()
            self.ahead_ms = max(self.ahead_ms, self.made_ms - self.played_ms)
            if self.reports and round(self.elapsed * 1000) % REPORT_MS < TICK_MS:
                buffered = int(self.written_ms) - int(self.played_ms)
                self._note(self.peer.report(int(self.played_ms), buffered))
        return self

    def _make(self) -> None:
        now = self.peer.now
        while self.made_ms < self.total_ms and self.listener.room_at(now) <= now:
            self.listener.made(CHUNK_MS, now)
            self.made_ms += CHUNK_MS
            self._note(self.peer.reply_audio(CHUNK_MS))
            if self.made_ms == self.total_ms:
                self.done_at = self.elapsed
                self._note(self.peer.reply_end())

    def _write(self) -> None:
        room = min(self.made_ms - self.written_ms, self.link * TICK_MS)
        if room > 0:
            self.written_ms += room
            self._note(self.peer.written(room))

    def _play(self) -> None:
        begin, end = self.paused
        if self.written_ms and not begin <= self.elapsed < end:
            step = min(TICK_MS, self.written_ms - self.played_ms)
            self.played_ms += step
            self.gap_ms += int(TICK_MS - step) if self.written_ms < self.total_ms else 0

    def _note(self, effects: list[Effect]) -> None:
        for effect in of(wx.ReplyPlayed, effects):
            self.told += 1
            self.listener.played(effect.played_ms, effect.until_ms, self.peer.now)


@pytest.mark.parametrize("reports", [False, True])
def test_audio_is_made_as_far_ahead_as_is_allowed_and_to_its_end(reports: bool) -> None:
    scene = Scene(reports=reports).run(31)
    assert LEAD_MS <= scene.ahead_ms <= LEAD_MS + CHUNK_MS
    assert scene.gap_ms == 0
    assert scene.done_at is not None
    assert scene.done_at == pytest.approx((scene.total_ms - LEAD_MS) / 1000, abs=0.5)
    measured = scene.peer.last(ResponseMeasured)
    assert (measured.played_ms, measured.underruns) == (scene.total_ms, 0)


def test_where_nothing_is_out_of_the_ordinary_nothing_is_told() -> None:
    assert Scene().run(31).told == 0


@pytest.mark.parametrize("reports", [False, True])
def test_for_a_client_that_never_reads_no_more_than_the_lead_is_made(reports: bool) -> None:
    scene = Scene(link=0.0, reports=reports).run(60)
    assert scene.made_ms <= LEAD_MS + 4 * CHUNK_MS
    assert scene.told < 3 + 60 * 5 * reports


@pytest.mark.parametrize("reports", [False, True])
def test_a_slow_link_is_followed(reports: bool) -> None:
    # What arrives at 0.8 of real time is heard with gaps, and made no faster.
    scene = Scene(link=0.8, reports=reports).run(38)
    assert scene.ahead_ms <= LEAD_MS + 4 * CHUNK_MS
    assert scene.written_ms == pytest.approx(scene.total_ms, abs=1)
    assert scene.done_at is not None
    assert scene.done_at == pytest.approx((scene.total_ms - LEAD_MS) / 800, abs=1.5)


def test_a_link_that_recovers_is_made_for_as_before() -> None:
    scene = Scene(link=0.0).run(5)
    scene.link = float("inf")
    scene.run(31)
    assert scene.gap_ms == 0
    assert scene.done_at is not None
    assert scene.told < 20


def test_for_a_client_that_pauses_no_more_than_the_lead_is_made_and_it_goes_on() -> None:
    scene = Scene(reports=True, paused=(3.0, 13.0)).run(12.9)
    assert scene.ahead_ms <= LEAD_MS + 4 * CHUNK_MS
    made_ms = scene.made_ms
    scene.run(29)
    assert scene.made_ms > made_ms
    assert scene.gap_ms == 0
    assert scene.done_at == pytest.approx((scene.total_ms - LEAD_MS) / 1000 + 10, abs=1)
    assert scene.peer.last(ResponseMeasured).played_ms == scene.total_ms
