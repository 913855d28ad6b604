"""When all that was said has been heard, and speaking up when nobody says anything."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.peer import FRAME, NO_SPECULATION, Peer, names

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.answers import Answers
from antiphon.sessions.delivery import Delivery
from antiphon.sessions.items import Item, Part, PartKind, Role
from antiphon.sessions.measure import TurnClock
from antiphon.sessions.settings import Capabilities, Modality, SessionKind, Settings
from antiphon.sessions.state import SessionState


class Table:
    """The responses of a session whose hearing is played by the test."""

    def __init__(self, can: Capabilities = NO_SPECULATION, **settings: object) -> None:
        self.now = 100.0
        self.waiting = False
        chosen = replace(Settings(voice="ada"), **settings)  # type: ignore[arg-type]
        self.state = SessionState("seed", chosen, can)
        self.delivery = Delivery(self.state)
        self.answers = Answers(self.state, self.delivery, lambda: self.waiting)

    def quiet(self) -> float | None:
        return self.answers.quiet_since(self.now)

    def last(self) -> wx.StartReply:
        return [e for e in self.state.effects if isinstance(e, wx.StartReply)][-1]

    def begin(self, **options: bool) -> tuple[str, int]:
        self.answers.create(ev.ResponseOptions(**options), self.now)  # type: ignore[arg-type]
        return self.last().response_id, self.last().epoch

    def speak(self, key: tuple[str, int], ms: int) -> None:
        self.answers.reply(ev.ReplyAudio(*key, b"\x00\x00" * 24 * ms), self.now)

    def end(self, key: tuple[str, int]) -> None:
        self.answers.reply(ev.ReplyEnded(*key, ev.ReplyOutcome.COMPLETED), self.now)


def test_it_is_not_quiet_before_anything_was_said_nor_while_it_is() -> None:
    table = Table()
    assert table.quiet() is None
    key = table.begin()
    assert table.quiet() is None
    table.end(key)
    assert table.quiet() == 100.0


def test_a_written_answer_is_heard_when_it_ends() -> None:
    table = Table(modality=Modality.TEXT)
    key = table.begin()
    table.now = 103.0
    table.end(key)
    table.now = 110.0
    assert table.quiet() == 103.0


def test_a_spoken_answer_is_heard_once_it_was_played() -> None:
    table = Table()
    key = table.begin()
    table.speak(key, 2000)
    table.now = 101.0
    table.answers.audio_written(key[0], 2000, table.now)
    table.now = 101.5
    table.end(key)
    assert table.quiet() == pytest.approx(103.0)


def test_audio_that_is_not_on_the_wire_yet_is_still_to_be_heard() -> None:
    table = Table()
    key = table.begin()
    table.speak(key, 2000)
    table.end(key)
    assert table.quiet() == pytest.approx(102.0)
    table.answers.audio_written(key[0], 500, 104.0)
    assert table.quiet() == pytest.approx(106.0)


def test_reports_of_the_client_count_more_than_an_estimate() -> None:
    table = Table()
    key = table.begin()
    table.speak(key, 2000)
    table.answers.audio_written(key[0], 2000, 100.0)
    table.end(key)
    table.delivery.report(ev.ReportPlayback(key[0], 500, 1500), 103.0)
    assert table.quiet() == pytest.approx(104.5)


def test_what_was_cut_is_not_heard_any_more() -> None:
    table = Table()
    key = table.begin()
    table.speak(key, 9000)
    table.answers.audio_written(key[0], 9000, 100.0)
    table.end(key)
    table.now = 102.0
    table.answers.interrupt(table.now)
    assert table.quiet() == 102.0


def test_a_cancelled_answer_is_heard_when_it_is_cancelled() -> None:
    table = Table()
    key = table.begin()
    table.speak(key, 9000)
    table.answers.audio_written(key[0], 9000, 100.0)
    table.now = 101.0
    table.answers.cancel(None, table.now)
    assert table.quiet() == 101.0


def test_it_is_not_quiet_while_an_answer_is_owed() -> None:
    table = Table()
    table.begin()
    table.answers.answer_turn(TurnClock(99.0, 99.5), table.now)
    assert table.quiet() is None


def test_responses_out_of_band_do_not_break_the_quiet() -> None:
    table = Table()
    table.end(table.begin())
    table.begin(out_of_band=True)
    assert table.quiet() == 100.0


def silent_item(table: Table) -> None:
    part = Part(PartKind.INPUT_AUDIO, "")
    table.state.conversation.add_made(Item(id="silence", role=Role.USER, parts=(part,)))


def test_speaking_up_tells_the_model_that_nobody_spoke() -> None:
    table = Table(instructions="Be brief.")
    silent_item(table)
    table.answers.speak_up(6000, table.now)
    assert [(m.role, m.text) for m in table.last().messages] == [
        ("system", "Be brief."),
        ("system", "The person has said nothing for 6 seconds."),
    ]
    table.end((table.last().response_id, table.last().epoch))
    table.answers.create(ev.ResponseOptions(instructions="Go on."), table.now)
    assert [m.text for m in table.last().messages] == ["Go on."], "it was said once"


def test_nobody_speaks_up_while_an_answer_runs() -> None:
    table = Table()
    table.begin()
    told = len(table.state.effects)
    table.answers.speak_up(6000, table.now)
    assert len(table.state.effects) == told


def test_speaking_up_beyond_the_limit_fails_and_says_so() -> None:
    table = Table(replace(NO_SPECULATION, responses_per_minute=1))
    table.end(table.begin())
    table.now = 101.0
    table.answers.speak_up(6000, table.now)
    done = table.state.effects[-1]
    assert isinstance(done, fx.ResponseDone)
    assert done.response.error is not None
    assert done.response.error.code == "rate_limit_exceeded"
    assert table.quiet() == 101.0


# Sessions that only transcribe.


def test_a_session_that_transcribes_gives_no_answers_of_its_own() -> None:
    table = Table(kind=SessionKind.TRANSCRIPTION)
    table.answers.prepare("hello", table.now)
    table.answers.answer_turn(TurnClock(99.0, 99.5), table.now)
    table.answers.speak_up(6000, table.now)
    assert not table.state.effects


@pytest.mark.parametrize("aside", [False, True])
def test_a_session_that_transcribes_refuses_to_answer(aside: bool) -> None:
    peer = Peer.attached(kind=SessionKind.TRANSCRIPTION)
    asked = ev.CreateResponse(ev.ResponseOptions(out_of_band=aside), "e")
    assert names(peer.feed(asked)) == ["ErrorRaised"]
    error = peer.last(fx.ErrorRaised).error
    assert (error.type, error.event_id) == ("invalid_request_error", "e")
    assert "only transcribes" in error.message
    peer.feed(ev.AppendAudio(FRAME * 10), ev.CommitAudio())
    assert peer.count(fx.BufferCommitted) == 1


def test_a_session_that_transcribes_has_nothing_to_truncate() -> None:
    peer = Peer.attached(kind=SessionKind.TRANSCRIPTION)
    assert names(peer.feed(ev.TruncateItem("x", 0, 0, "e"))) == ["ErrorRaised"]
    assert "only transcribes" in peer.last(fx.ErrorRaised).error.message
