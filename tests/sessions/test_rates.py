"""Limits on how much a session may ask for in a minute."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.peer import NO_SPECULATION, SPECULATION, Peer, names, of

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.rates import Bucket
from antiphon.sessions.settings import TurnDetection

VAD = TurnDetection(silence_duration_ms=300)
TWO = replace(NO_SPECULATION, responses_per_minute=2)
FEW_TOKENS = replace(NO_SPECULATION, tokens_per_minute=100)


def test_a_bucket_gives_all_at_once_and_then_what_has_drained() -> None:
    bucket = Bucket("requests", 60)
    for _ in range(60):
        assert bucket.wait_s(1000.0) == 0
        bucket.take(1, 1000.0)
    assert bucket.wait_s(1000.0) == pytest.approx(1.0)
    assert bucket.view(1000.0) == fx.RateLimit("requests", 60, 0, 60.0)
    assert bucket.wait_s(1001.0) == 0
    assert bucket.view(1030.0) == fx.RateLimit("requests", 60, 30, 30.0)
    assert bucket.view(5000.0) == fx.RateLimit("requests", 60, 60, 0.0)


def test_what_goes_beyond_a_bucket_is_paid_back_first() -> None:
    bucket = Bucket("tokens", 60)
    bucket.take(120, 0.0)
    assert bucket.view(0.0).remaining == 0
    assert bucket.wait_s(0.0) == pytest.approx(61.0)
    assert bucket.wait_s(61.0) == 0


def ask(peer: Peer) -> list[fx.Effect]:
    told = peer.feed(ev.CreateResponse(event_id="e"))
    if peer.count(fx.ResponseCreated) > peer.count(fx.ResponseDone):
        peer.reply_end()
    return told


def test_what_is_left_is_told_where_a_response_begins() -> None:
    peer = Peer.attached(TWO)
    told = ask(peer)
    assert [type(each) for each in told[:2]] == [fx.ResponseCreated, fx.RateLimitsUpdated]
    requests, tokens = of(fx.RateLimitsUpdated, told)[0].limits
    assert requests == fx.RateLimit("requests", 2, 1, 30.0)
    assert tokens == fx.RateLimit("tokens", 1_000_000, 1_000_000, 0.0)


def test_a_response_beyond_the_limit_is_refused_until_it_may_be() -> None:
    peer = Peer.attached(TWO)
    ask(peer)
    ask(peer)
    assert names(ask(peer)) == ["ErrorRaised"]
    error = peer.last(fx.ErrorRaised).error
    assert (error.code, error.type) == ("rate_limit_exceeded", "rate_limit_error")
    assert error.event_id == "e"
    assert error.retry_after_ms is not None
    assert 29_000 < error.retry_after_ms <= 30_001
    peer.wait(error.retry_after_ms / 1000)
    assert names(ask(peer)) == ["ResponseCreated", "StartReply"]


def test_responses_out_of_band_count_too() -> None:
    peer = Peer.attached(TWO)
    aside = ev.CreateResponse(ev.ResponseOptions(out_of_band=True))
    peer.feed(aside, aside)
    assert names(ask(peer)) == ["ErrorRaised"]
    assert names(peer.feed(aside)) == ["ErrorRaised"]


def test_tokens_count_once_they_are_known() -> None:
    peer = Peer.attached(FEW_TOKENS)
    peer.feed(ev.CreateResponse())
    started = peer.last(wx.StartReply)
    key = (started.response_id, started.epoch)
    ended = ev.ReplyEnded(
        *key, ev.ReplyOutcome.COMPLETED, input_tokens=90, cached_tokens=50, output_tokens=20
    )
    peer.feed(ended)
    assert names(ask(peer)) == ["ErrorRaised"]
    peer.wait(10)
    assert names(ask(peer)) == ["ResponseCreated", "StartReply"]
    assert peer.last(fx.RateLimitsUpdated).limits[1].remaining < 10


def turn(peer: Peer) -> list[fx.Effect]:
    peer.speech(600)
    return peer.silence(300) + peer.recognize("hello")


def test_a_spoken_turn_beyond_the_limit_has_a_response_that_says_so() -> None:
    peer = Peer.attached(TWO, VAD)
    ask(peer)
    ask(peer)
    told = turn(peer)
    assert (len(of(fx.ResponseCreated, told)), len(of(fx.ResponseDone, told))) == (1, 1)
    done = peer.last(fx.ResponseDone).response
    assert done.status is fx.ResponseStatus.FAILED
    assert done.error is not None
    assert (done.error.code, done.error.type) == ("rate_limit_exceeded", "rate_limit_error")
    assert done.usage is not None
    peer.wait(31)
    told = turn(peer)
    assert "StartReply" in names(told), "what was refused cost nothing"


def test_a_draft_that_is_not_used_costs_nothing() -> None:
    peer = Peer.attached(replace(SPECULATION, responses_per_minute=1), VAD)
    for _ in range(3):
        peer.speech(200)
        peer.silence(200)
        peer.recognize("hello")
    assert peer.count(wx.StartReply) == 3
    peer.silence(300)
    assert peer.last(fx.ResponseCreated).response.id == peer.last(wx.StartReply).response_id
    assert peer.count(fx.ResponseDone) == 0


def test_nothing_is_prepared_that_might_not_be_given() -> None:
    peer = Peer.attached(replace(SPECULATION, responses_per_minute=1), VAD)
    ask(peer)
    peer.speech(600)
    peer.silence(200)
    assert peer.recognize("hello") == []
    peer.silence(100)
    assert peer.last(fx.ResponseDone).response.status is fx.ResponseStatus.FAILED


def test_a_draft_that_may_not_be_given_any_more_is_dropped() -> None:
    peer = Peer.attached(replace(SPECULATION, responses_per_minute=1), VAD)
    peer.speech(600)
    peer.silence(200)
    peer.recognize("hello")
    peer.feed(ev.CreateResponse(ev.ResponseOptions(out_of_band=True)))
    told = peer.silence(100)
    assert names(told)[-3:] == ["AbortReply", "ResponseCreated", "ResponseDone"]
