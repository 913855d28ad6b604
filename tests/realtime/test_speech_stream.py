"""The core of a speech stream: what it answers, in which order, whatever comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.realtime import speech_events as sp
from antiphon.realtime.speech_stream import SpeechBounds, SpeechStream
from antiphon.sessions.errors import ErrorInfo

ADA = sp.SpeechSettings("ada")
BOUNDS = SpeechBounds(chars=40, whole_bytes=100, idle_s=300, stage_timeout_s=60)
BROKEN = ErrorInfo("broken", "It is broken.", type="server_error")
NOT_JSON = ErrorInfo("invalid_json", "The message is not valid JSON.")

EffectT = TypeVar("EffectT", bound=sp.Effect)


class Rig:
    """A core, and everything that it wanted done."""

    def __init__(self, begins: sp.SpeechSettings = ADA) -> None:
        self.now = 0.0
        self.core = SpeechStream(begins, BOUNDS, self.now)
        self.done: list[sp.Effect] = []
        self.drain()

    def tell(self, *events: sp.Event) -> list[sp.Effect]:
        """Hand events to the core; return what came of them."""
        before = len(self.done)
        for event in events:
            self.core.handle(event, self.now)
            self.drain()
        return self.done[before:]

    def wait(self, seconds: float) -> list[sp.Effect]:
        self.now += seconds
        before = len(self.done)
        self.core.handle_deadline(self.now)
        self.drain()
        return self.done[before:]

    def drain(self) -> None:
        while (effect := self.core.next_effect()) is not None:
            self.done.append(effect)

    def of(self, kind: type[EffectT]) -> list[EffectT]:
        return [effect for effect in self.done if isinstance(effect, kind)]


def text(words: str) -> sp.AddText:
    return sp.AddText(words)


def made(index: int = 0, data: bytes = b"12", until_ms: float = 10) -> sp.AudioMade:
    return sp.AudioMade(index, data, until_ms)


# One utterance.


def test_an_utterance_from_its_first_text_to_its_end() -> None:
    rig = Rig()
    assert rig.done == [sp.Ready(ADA)]
    assert rig.tell(text("Hello ")) == [sp.StartSpeaking(0, ADA), sp.HandText(0, "Hello ")]
    assert rig.tell(made()) == [sp.AudioStarted(0, ADA), sp.SendAudio(0, b"12")]
    assert rig.tell(text("there.")) == [sp.HandText(0, "there.")]
    assert rig.tell(sp.Flush()) == [sp.EndText(0)]
    assert rig.tell(made(data=b"3456", until_ms=30)) == [sp.SendAudio(0, b"3456")]
    # It is not over before all of it has gone out.
    assert rig.tell(sp.AudioWritten(0), sp.WorkEnded(0)) == []
    assert rig.tell(sp.AudioWritten(0)) == [
        sp.AudioDone(0, 6, 30, failed=False),
        sp.UtteranceDone(0, 1, sp.Status.COMPLETED),
    ]


@pytest.mark.parametrize("words", [[], [""], [" ", "\n\t"]])
def test_nothing_to_say_is_done_at_once(words: list[str]) -> None:
    rig = Rig()
    assert rig.tell(*map(text, words)) == []
    assert rig.tell(sp.Flush()) == [sp.UtteranceDone(0, 0, sp.Status.COMPLETED)]
    assert rig.tell(sp.Flush()) == [sp.UtteranceDone(1, 0, sp.Status.COMPLETED)]


def test_white_space_ahead_of_the_first_word_is_handed_on_with_it() -> None:
    rig = Rig()
    assert rig.tell(text(" "), text("\n"), text("Hi")) == [
        sp.StartSpeaking(0, ADA),
        sp.HandText(0, " \nHi"),
    ]


def test_text_without_a_sound_has_no_audio() -> None:
    rig = Rig()
    assert rig.tell(text("..."), sp.Flush(), sp.WorkEnded(0))[-1:] == [
        sp.UtteranceDone(0, 0, sp.Status.COMPLETED)
    ]
    assert not rig.of(sp.AudioStarted)


def test_too_much_text_is_not_taken_and_the_rest_is_spoken() -> None:
    rig = Rig()
    rig.tell(text("a" * 30))
    (refused,) = rig.tell(text("b" * 11))
    assert isinstance(refused, sp.Complained)
    assert (refused.error.code, refused.error.param) == ("string_above_max_length", "text")
    assert rig.tell(text("c" * 10)) == [sp.HandText(0, "c" * 10)]
    rig.tell(sp.Flush(), sp.WorkEnded(0))
    assert rig.tell(text("d" * 40))[-1] == sp.HandText(1, "d" * 40)


# Words, and audio in one piece.


def test_words_come_with_the_audio_in_which_they_begin() -> None:
    timed = sp.SpeechSettings("ada", word_timestamps=True)
    rig = Rig(timed)
    one, two, three = (sp.WordTime(w, at, at + 90) for w, at in (("a", 0), ("b", 90), ("c", 250)))
    rig.tell(text("a b c"), sp.Flush(), sp.WordsKnown(0, (one, two, three)))
    assert rig.tell(made(data=b"", until_ms=100)) == []
    assert rig.tell(made(until_ms=200))[-1] == sp.SendChunk(0, 0, b"12", 0, 200, (one, two))
    assert rig.tell(made(until_ms=250)) == [sp.SendChunk(0, 1, b"12", 200, 250, ())]
    # What lies behind the audio comes in a chunk of its own.
    assert rig.tell(sp.WorkEnded(0)) == [sp.SendChunk(0, 2, b"", 250, 250, (three,))]
    assert len(rig.tell(*[sp.AudioWritten(0)] * 3)) == 2


def test_words_are_left_out_where_nobody_asked() -> None:
    rig = Rig()
    rig.tell(text("a"), sp.Flush(), sp.WordsKnown(0, (sp.WordTime("a", 0, 9),)), made())
    assert rig.tell(sp.WorkEnded(0), sp.AudioWritten(0))[-1] == sp.UtteranceDone(
        0, 1, sp.Status.COMPLETED
    )


def test_audio_in_one_piece() -> None:
    whole = sp.SpeechSettings("ada", stream_audio=False)
    rig = Rig(whole)
    rig.tell(text("a"), sp.Flush())
    assert rig.tell(made(), made(data=b"34", until_ms=20)) == []
    assert rig.tell(sp.WorkEnded(0)) == [sp.AudioStarted(0, whole), sp.SendAudio(0, b"1234")]
    assert rig.tell(sp.AudioWritten(0))[0] == sp.AudioDone(0, 4, 20, failed=False)


def test_audio_in_one_piece_is_bounded() -> None:
    rig = Rig(sp.SpeechSettings("ada", stream_audio=False))
    rig.tell(text("a"), sp.Flush())
    stopped, refused, done = rig.tell(made(data=bytes(60)), made(data=bytes(60)))
    assert stopped == sp.StopSpeaking(0)
    assert isinstance(refused, sp.Complained)
    assert (refused.error.code, refused.index) == ("audio_too_long", 0)
    assert done == sp.UtteranceDone(0, 0, sp.Status.FAILED)


# Several utterances.


def test_the_next_text_may_come_while_the_first_still_sounds() -> None:
    rig = Rig()
    rig.tell(text("One."), sp.Flush(), made())
    assert rig.tell(text("Two "), text("three.")) == []
    assert rig.tell(sp.WorkEnded(0)) == []
    assert rig.tell(sp.AudioWritten(0))[-2:] == [
        sp.StartSpeaking(1, ADA),
        sp.HandText(1, "Two three."),
    ]
    assert rig.tell(sp.Flush()) == [sp.EndText(1)]


def test_there_is_no_room_for_a_third() -> None:
    rig = Rig()
    rig.tell(text("One."), sp.Flush(), text("Two."))
    assert rig.core.has_room(sp.Flush())
    rig.tell(sp.Flush())
    for waits in (text("Three."), sp.Flush()):
        assert not rig.core.has_room(waits)
    for event in (sp.Cancel(), sp.Close(), sp.Configure(ADA), sp.Reject(NOT_JSON)):
        assert rig.core.has_room(event)
    rig.tell(sp.WorkEnded(0))
    assert rig.core.has_room(text("Three."))
    assert rig.of(sp.EndText)[-1] == sp.EndText(1)


def test_settings_hold_from_the_next_utterance_on() -> None:
    rig = Rig()
    bob = sp.SpeechSettings("bob", "mp3")
    rig.tell(text("One."), sp.Flush())
    assert rig.tell(sp.Configure(bob)) == [sp.Ready(bob)]
    assert rig.tell(made())[0] == sp.AudioStarted(0, ADA)
    rig.tell(text("Two."), sp.WorkEnded(0), sp.AudioWritten(0))
    assert rig.of(sp.StartSpeaking)[-1] == sp.StartSpeaking(1, bob)


@pytest.mark.parametrize("begun", ["Hello", " "])
def test_settings_are_refused_while_an_utterance_has_begun(begun: str) -> None:
    rig = Rig()
    rig.tell(text(begun))
    (refused,) = rig.tell(sp.Configure(sp.SpeechSettings("bob"), "event_1"))
    assert isinstance(refused, sp.Complained)
    assert (refused.error.code, refused.error.event_id) == ("utterance_begun", "event_1")
    assert rig.core.settings == ADA
    rig.tell(sp.Cancel())
    assert rig.tell(sp.Configure(ADA)) == [sp.Ready(ADA)]


# Cancelling.


def test_a_cancel_stops_everything_that_is_not_over() -> None:
    rig = Rig()
    rig.tell(text("One."), sp.Flush(), made(), text("Two."))
    assert rig.tell(sp.Cancel()) == [
        sp.StopSpeaking(0),
        sp.Cancelled(0),
        sp.UtteranceDone(0, 1, sp.Status.CANCELLED),
        sp.Cancelled(1),
        sp.UtteranceDone(1, 0, sp.Status.CANCELLED),
    ]
    late = (made(), sp.WorkEnded(0), sp.AudioWritten(0), sp.WordsKnown(0, ()))
    assert rig.tell(*late) == []
    assert rig.tell(text("Three."))[0] == sp.StartSpeaking(2, ADA)


def test_audio_that_is_made_and_not_yet_out_is_cancelled_too() -> None:
    rig = Rig()
    rig.tell(text("One."), sp.Flush(), made(), sp.WorkEnded(0))
    assert rig.tell(sp.Cancel())[0] == sp.StopSpeaking(0)


def test_a_cancel_is_answered_where_there_is_nothing() -> None:
    assert Rig().tell(sp.Cancel()) == [sp.Cancelled(None)]


# Failures.


def test_a_failure_is_told_at_once_and_its_end_when_it_is_flushed() -> None:
    rig = Rig()
    rig.tell(text("One "), made())
    assert rig.tell(sp.WorkEnded(0, BROKEN)) == [sp.Complained(BROKEN, 0)]
    # The rest of its text does not become an utterance of its own.
    assert rig.tell(sp.AudioWritten(0), text("two.")) == []
    assert rig.tell(sp.Flush()) == [
        sp.AudioDone(0, 2, 10, failed=True),
        sp.UtteranceDone(0, 1, sp.Status.FAILED),
    ]
    assert rig.tell(text("Three."))[0] == sp.StartSpeaking(1, ADA)


def test_speech_that_ends_before_its_text_has_failed() -> None:
    rig = Rig()
    rig.tell(text("One "))
    (told,) = rig.tell(sp.WorkEnded(0))
    assert isinstance(told, sp.Complained)
    assert told.error.code == "stage_stopped"


def test_what_cannot_be_understood_changes_nothing() -> None:
    rig = Rig()
    rig.tell(text("One "))
    assert rig.tell(sp.Reject(NOT_JSON)) == [sp.Complained(NOT_JSON)]
    assert rig.tell(text("two."))[-1] == sp.HandText(0, "two.")


# Time, and the end.


def test_a_stage_that_says_nothing_has_failed() -> None:
    rig = Rig()
    rig.tell(text("One."))
    rig.wait(200)
    rig.tell(sp.Flush(), text("Two."))
    assert rig.wait(59) == []
    rig.tell(made(data=b""))
    assert rig.wait(59) == []
    stopped, told, done, *begun = rig.wait(1)
    assert stopped == sp.StopSpeaking(0)
    assert isinstance(told, sp.Complained)
    assert told.error.code == "response_timeout"
    assert done == sp.UtteranceDone(0, 0, sp.Status.FAILED)
    assert begun == [sp.StartSpeaking(1, ADA), sp.HandText(1, "Two.")]


@pytest.mark.parametrize(
    "said", [[sp.Reject(NOT_JSON)], [text("Left alone")], [text("x"), sp.Flush()]]
)
def test_a_quiet_client_is_sent_away(said: list[sp.Event]) -> None:
    rig = Rig()
    rig.wait(100)
    rig.tell(*said)
    if sp.Flush() in said:
        rig.tell(sp.WorkEnded(0))
    assert rig.wait(299.9) == []
    assert rig.wait(1)[-1] == sp.CloseConnection(1000, "idle")
    assert rig.core.deadline is None
    assert rig.tell(text("Too late."), sp.Cancel()) == []


def test_nobody_is_idle_while_it_still_sounds() -> None:
    rig = Rig()
    rig.tell(text("One."), sp.Flush())
    for _ in range(20):
        rig.wait(50)
        rig.tell(made())
    rig.tell(sp.WorkEnded(0))
    # The last of it is on its way; a write that stalls is the connection's matter.
    assert rig.core.deadline is None
    rig.tell(*[sp.AudioWritten(0)] * 20)
    assert rig.core.deadline == rig.now + 300


def test_a_close_waits_for_what_was_flushed() -> None:
    rig = Rig()
    rig.tell(text("One."), sp.Flush(), text("Tw"))
    assert rig.tell(sp.Close(), text("o"), sp.Flush(), sp.Reject(NOT_JSON)) == []
    assert rig.core.has_room(text("x"))
    assert rig.tell(sp.WorkEnded(0)) == [
        sp.UtteranceDone(0, 0, sp.Status.COMPLETED),
        sp.Cancelled(1),
        sp.UtteranceDone(1, 0, sp.Status.CANCELLED),
        sp.CloseConnection(1000, ""),
    ]


def test_a_close_with_nothing_flushed_is_at_once() -> None:
    assert Rig().tell(sp.Close()) == [sp.CloseConnection(1000, "")]
    rig = Rig()
    rig.tell(text("Half a"))
    assert rig.tell(sp.Close()) == [
        sp.StopSpeaking(0),
        sp.Cancelled(0),
        sp.UtteranceDone(0, 0, sp.Status.CANCELLED),
        sp.CloseConnection(1000, ""),
    ]


def test_a_cancel_hurries_a_close() -> None:
    rig = Rig()
    rig.tell(text("One."), sp.Flush(), sp.Close())
    assert rig.tell(sp.Cancel())[-1] == sp.CloseConnection(1000, "")


# Whatever comes.

FORMS = st.builds(
    sp.SpeechSettings,
    st.sampled_from(["ada", "bob"]),
    word_timestamps=st.booleans(),
    stream_audio=st.booleans(),
).filter(lambda each: each.stream_audio or not each.word_timestamps)
INDEXES = st.integers(0, 2)
TEXTS = st.one_of(st.text(" ab.", max_size=4), st.just("x" * 30))
EVENTS: st.SearchStrategy[sp.Event | float] = st.one_of(
    st.builds(sp.AddText, TEXTS),
    st.just(sp.Flush()),
    st.builds(made, INDEXES, st.binary(max_size=60), st.floats(0, 1000)),
    st.builds(sp.WorkEnded, INDEXES, st.sampled_from([None, None, BROKEN])),
    st.builds(sp.AudioWritten, INDEXES),
    st.builds(
        sp.WordsKnown, INDEXES, st.just((sp.WordTime("a", 0, 1), sp.WordTime("b", 500, 600)))
    ),
    st.just(sp.Cancel()),
    st.builds(sp.Configure, FORMS),
    st.just(sp.Reject(NOT_JSON)),
    st.floats(0, 400),
    st.just(sp.Close()),
)


class Judge:
    """Sees that every effect may come where it comes."""

    def __init__(self) -> None:
        self.ended: list[int] = []
        self.opened: set[int] = set()
        self.stopped: set[int] = set()
        self.sounding: set[int] = set()
        self.silenced: set[int] = set()
        self.closed = False

    def see(self, effects: Sequence[sp.Effect]) -> None:
        for effect in effects:
            assert not self.closed
            index = getattr(effect, "index", None)
            assert index is None or index not in self.ended
            self._see(effect)

    def _see(self, effect: sp.Effect) -> None:
        match effect:
            case sp.StartSpeaking(index=index):
                # One at a time, in order, each once.
                assert index == len(self.ended)
                self.opened.add(index)
            case sp.HandText(index=index) | sp.EndText(index=index):
                assert index in self.opened - self.stopped
            case sp.StopSpeaking(index=index):
                assert index in self.opened
                self.stopped.add(index)
            case sp.AudioStarted(index=index):
                assert index in self.opened - self.sounding
                self.sounding.add(index)
            case sp.SendAudio(index=index) | sp.SendChunk(index=index):
                assert index in self.sounding - self.silenced - self.stopped
            case sp.AudioDone(index=index):
                assert index in self.sounding - self.silenced
                self.silenced.add(index)
            case sp.Cancelled(index=int() as index):
                assert index not in self.silenced
                self.silenced.add(index)
            case sp.UtteranceDone(index=index, sentences=sentences):
                assert index == len(self.ended)
                assert bool(sentences) == (index in self.sounding)
                assert not sentences or index in self.silenced
                self.ended.append(index)
            case sp.CloseConnection():
                self.closed = True
            case _:
                pass


@settings(max_examples=400)
@given(st.lists(EVENTS, max_size=60))
def test_whatever_comes_every_utterance_ends_once_and_in_order(
    events: list[sp.Event | float],
) -> None:
    rig, judge = Rig(), Judge()
    given_text: Counter[str] = Counter()
    flushes = 0
    for event in events:
        if isinstance(event, (int, float)):
            judge.see(rig.wait(event))
            continue
        if isinstance(event, (sp.AddText, sp.Flush)) and not rig.core.has_room(event):
            continue
        flushes += isinstance(event, sp.Flush)
        if isinstance(event, sp.AddText):
            given_text.update(event.text)
        judge.see(rig.tell(event))
    handed = Counter("".join(each.text for each in rig.of(sp.HandText)))
    assert handed <= given_text
    judge.see(rig.tell(sp.Close(), sp.Cancel()))
    assert judge.closed
    assert len(judge.ended) <= flushes + len(rig.of(sp.Cancelled))
    assert judge.opened <= set(judge.ended)
    # Nothing is at work any more: what was not stopped had ended by itself.
    assert rig.core.deadline is None


@settings(max_examples=200)
@given(
    st.lists(st.text(" ab.", max_size=5), min_size=1, max_size=8),
    st.lists(st.binary(max_size=20), max_size=8),
    st.booleans(),
)
def test_text_and_audio_are_handed_on_whole(
    pieces: list[str], audio: list[bytes], streamed: bool
) -> None:
    rig = Rig(sp.SpeechSettings("ada", stream_audio=streamed))
    rig.tell(*(text(piece) for piece in pieces if piece), sp.Flush())
    if not "".join(pieces).strip():
        assert not rig.of(sp.StartSpeaking)
        assert len(rig.of(sp.UtteranceDone)) == 1
        return
    assert "".join(each.text for each in rig.of(sp.HandText)) == "".join(pieces)
    whole = b"".join(audio)[: BOUNDS.whole_bytes]
    sizes = [len(each) for each in audio]
    at = 0
    for size in sizes:
        rig.tell(made(data=whole[at : at + size], until_ms=at + size))
        at += size
    rig.tell(sp.WorkEnded(0))
    sent = rig.of(sp.SendAudio)
    assert b"".join(each.data for each in sent) == whole
    rig.tell(*[sp.AudioWritten(0)] * len(sent))
    assert rig.of(sp.UtteranceDone) == [sp.UtteranceDone(0, int(bool(whole)), sp.Status.COMPLETED)]
