"""Hearing under whatever comes: late, doubled, failing and contradicting recognitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.peer import FRAME, FRAME_MS, Peer, of

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.agreement import words
from antiphon.sessions.partials import LOOK_MAX_MS
from antiphon.sessions.session import Session
from antiphon.sessions.settings import (
    Capabilities,
    Eagerness,
    SessionKind,
    Settings,
    SettingsPatch,
    Transcription,
    TranscriptionPatch,
    TurnDetection,
    TurnDetectionPatch,
    TurnKind,
)

CAN = Capabilities(voices=("ada",))
TOLD = Transcription(model="whisper-1")
SERVER = TurnDetection(silence_duration_ms=260)
SEMANTIC = TurnDetection(kind=TurnKind.SEMANTIC_VAD, eagerness=Eagerness.HIGH)


def keys(text: str) -> list[str]:
    return [word.key for word in words(text)]


class Listener:
    """A client and a recognizer's owner that check all they are told."""

    def __init__(self, can: Capabilities, first: Settings) -> None:
        self.peer = Peer(Session("seed", first, can))
        self.can = can
        self.first = first
        self.done: list[tuple[float, ev.Event | None]] = []
        self.running: dict[int, bool] = {}
        """Recognitions under way, and whether each is a look at an open turn."""

        self.all: list[fx.Effect] = []
        self.started: list[wx.StartRecognition] = []
        self.open: str | None = None
        self.items: set[str] = set()
        self.ended: set[str] = set()
        self.said: dict[str, str] = {}
        self.transcripts: dict[str, str] = {}
        self.feed(ev.Attached(0))

    def feed(self, event: ev.Event) -> None:
        if isinstance(event, ev.RecognitionEnded):
            self.running.pop(event.recognition_id, None)
        self.done.append((self.peer.now, event))
        self.see(self.peer.feed(event))

    def wake(self) -> None:
        self.done.append((self.peer.now, None))
        self.peer.session.handle_deadline(self.peer.now)
        self.see(list(iter(self.peer.session.next_effect, None)))

    def wait(self, seconds: float) -> None:
        until = self.peer.now + seconds
        while (due := self.peer.session.deadline) is not None and due.at <= until:
            self.peer.now = max(self.peer.now, due.at)
            self.wake()
            after = self.peer.session.deadline
            assert after is None or after.at > self.peer.now, "a deadline must move or go"
        self.peer.now = until

    def hear(self, scores: tuple[float, ...], lag: bool) -> None:
        for score in scores:
            self.peer.now += FRAME_MS / 1000
            self.feed(ev.AppendAudio(FRAME))
            if not lag:
                self.score((score,))
        if lag:
            self.score(scores)

    def score(self, scores: tuple[float, ...]) -> None:
        streams = of(wx.StartListening, self.all)
        listen_id = streams[-1].listen_id if streams else 0
        self.feed(ev.SpeechScored(listen_id, scores, FRAME_MS))

    def see(self, effects: list[fx.Effect]) -> None:
        self.all += effects
        for effect in effects:
            self.check_work(effect)
            self.check_turn(effect)
            self.check_words(effect)

    def check_work(self, effect: fx.Effect) -> None:
        match effect:
            case wx.StartRecognition(recognition_id=recognition_id, partial=partial):
                assert recognition_id not in [start.recognition_id for start in self.started]
                assert not (partial and any(self.running.values())), "two looks at once"
                if partial:
                    assert self.first.kind is SessionKind.TRANSCRIPTION
                    assert self.open is not None
                    assert 0 < len(effect.pcm) <= 48 * LOOK_MAX_MS
                self.running[recognition_id] = partial
                self.started.append(effect)
            case wx.CancelRecognition(recognition_id=recognition_id):
                del self.running[recognition_id]
            case _:
                pass

    def check_turn(self, effect: fx.Effect) -> None:
        match effect:
            case fx.SpeechStarted(item_id=item_id):
                assert self.open is None
                self.open = item_id
            case fx.SpeechStopped(item_id=item_id):
                assert item_id == self.open
                assert not any(self.running.values()), "a look outlived its turn"
            case fx.BufferCommitted(item_id=item_id):
                self.items.add(item_id)
                self.open = None
            case fx.BufferCleared() | wx.StopListening():
                self.open = None
            case fx.ItemDeleted(item_id=item_id):
                self.ended.add(item_id)
            case fx.IdleTimedOut():
                assert self.open is None
                assert 0 <= effect.audio_start_ms <= effect.audio_end_ms
            case _:
                pass

    def check_words(self, effect: fx.Effect) -> None:
        match effect:
            case fx.TranscriptionDelta(item_id=item_id, text=text):
                assert text
                assert item_id not in self.ended
                assert item_id == self.open or item_id in self.items
                if item_id == self.open:
                    assert self.first.kind is SessionKind.TRANSCRIPTION
                self.said[item_id] = self.said.get(item_id, "") + text
            case fx.TranscriptionDone(item_id=item_id, transcript=transcript):
                assert item_id in self.items
                assert item_id not in self.ended
                self.ended.add(item_id)
                self.transcripts[item_id] = transcript
            case fx.TranscriptionFailed(item_id=item_id):
                assert item_id in self.items
                assert item_id not in self.ended
                self.ended.add(item_id)
            case _:
                pass

    def close(self) -> None:
        self.feed(ev.Detached())
        assert not self.running, "a recognition was neither ended nor cancelled"
        assert self.peer.session.deadline is None
        again = Session("seed", self.first, self.can)
        effects: list[fx.Effect] = []
        for now, event in self.done:
            if event is None:
                again.handle_deadline(now)
            else:
                again.handle(event, now)
            effects += iter(again.next_effect, None)
        assert effects == self.all


# Anything at all.

Step: TypeAlias = Callable[[Listener], None]

TEXTS = st.sampled_from(
    [
        None,
        "",
        " ",
        "...",
        "Yes.",
        "I would like to",
        "the cat",
        "The cat sat",
        "the cat sat on the mat.",
        "a cat sat on the mat, and",
        "今日は",
        "five five 5",
    ]
)
PATCHES: list[dict[str, Any]] = [
    {"transcription": None},
    {"transcription": TranscriptionPatch(language="de")},
    {"turn_detection": None},
    {"turn_detection": TurnDetectionPatch(kind=TurnKind.SERVER_VAD)},
    {"turn_detection": TurnDetectionPatch(kind=TurnKind.SEMANTIC_VAD)},
    {"turn_detection": TurnDetectionPatch(create_response=False)},
    {"turn_detection": TurnDetectionPatch(silence_duration_ms=100)},
    {"turn_detection": TurnDetectionPatch(eagerness=Eagerness.LOW)},
    {"turn_detection": TurnDetectionPatch(idle_timeout_ms=5000)},
    {"logprobs": True},
]


def hearing(script: str, lag: bool) -> Step:
    scores = tuple(float(letter == "s") for letter in script for _ in range(5))
    return lambda listener: listener.hear(scores, lag)


def recognizing(back: int, text: str | None) -> Step:
    def step(listener: Listener) -> None:
        there = listener.started
        recognition_id = there[-1 - back].recognition_id if back < len(there) else 99
        listener.feed(ev.RecognitionEnded(recognition_id, text))

    return step


def deleting(listener: Listener) -> None:
    listener.feed(ev.DeleteItem(sorted(listener.items)[0] if listener.items else "none"))


def replying(listener: Listener) -> None:
    for start in of(wx.StartReply, listener.all)[-1:]:
        listener.feed(ev.ReplyText(start.response_id, start.epoch, "Well."))
        listener.feed(ev.ReplyEnded(start.response_id, start.epoch, ev.ReplyOutcome.COMPLETED))


def feeding(event: ev.Event) -> Step:
    return lambda listener: listener.feed(event)


def waiting(seconds: float) -> Step:
    return lambda listener: listener.wait(seconds)


EVENTS: list[ev.Event] = [
    ev.CommitAudio("e"),
    ev.ClearAudio("e"),
    ev.CreateResponse(event_id="e"),
    ev.ListeningFailed(1, "gone"),
    ev.ListeningFailed(2, "gone"),
    *(ev.UpdateSession(SettingsPatch(**patch), "e") for patch in PATCHES),
]


STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(
        hearing,
        st.sampled_from(["s", "sss", "ssssssssssss", "sss..", "...", "......", "sss..sss..sss..."]),
        st.booleans(),
    ),
    st.builds(recognizing, st.sampled_from([0, 0, 0, 1, 2, 50]), TEXTS),
    st.builds(waiting, st.sampled_from([0.02, 0.5, 6.0])),
    st.builds(feeding, st.sampled_from(EVENTS)),
    st.builds(feeding, st.sampled_from(EVENTS[:3])),
    st.sampled_from([deleting, replying]),
)


@settings(deadline=None, max_examples=80)
@given(
    st.sampled_from(SessionKind),
    st.sampled_from([None, SERVER, SEMANTIC, replace(SERVER, idle_timeout_ms=5000)]),
    st.sampled_from(
        [CAN, replace(CAN, speculate_ms=0), replace(CAN, stage_timeout_s=0.7, max_input_ms=3000)]
    ),
    st.lists(STEPS, max_size=30),
)
def test_nothing_is_lost_doubled_or_left_running(
    kind: SessionKind, turns: TurnDetection | None, can: Capabilities, steps: list[Step]
) -> None:
    first = Settings(kind=kind, voice="ada", turn_detection=turns, transcription=TOLD)
    listener = Listener(can, first)
    for step in steps:
        step(listener)
    if kind is SessionKind.TRANSCRIPTION:
        assert not of(wx.StartReply, listener.all)
        assert not of(fx.ResponseCreated, listener.all)
    listener.close()


# A recognizer that errs only at the end of what it hears.

SPEECH = (
    "Well, I think that we should, as far as I can see, go home now. It is late; the others "
    "have left already! What do you say? Or perhaps not."
).split(" ")
WORD_MS = 250


def heard(pcm: bytes, cut: str) -> str:
    """Return what is said in audio: a word for each 250 ms, the last one as ``cut`` says."""
    count = len(pcm) // (48 * WORD_MS)
    said: list[str] = list(SPEECH[: min(count, len(SPEECH))])
    if cut == "wrong" and said:
        said[-1] = f"wrong{count}"
    elif cut == "stopped" and said:
        said[-1] = said[-1].strip(".,;!?") + "."
    elif cut == "lower":
        said = [word.lower() for word in said]
    return " ".join(said)


Turn: TypeAlias = list[tuple[int, str, bool]]
"""How long is spoken, ms; how the recognizer errs; whether there is a pause then."""

TURNS: st.SearchStrategy[Turn] = st.lists(
    st.tuples(
        st.sampled_from([200, 500, 1000, 1500]),
        st.sampled_from(["right", "wrong", "stopped", "lower"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=50)
@given(st.lists(TURNS, min_size=1, max_size=3), st.sampled_from([0, 200]))
def test_words_told_while_speaking_concatenate_to_the_transcript(
    turns: list[Turn], speculate_ms: int
) -> None:
    first = Settings(
        kind=SessionKind.TRANSCRIPTION,
        voice="ada",
        turn_detection=TurnDetection(silence_duration_ms=500, prefix_padding_ms=0),
        transcription=TOLD,
    )
    listener = Listener(replace(CAN, speculate_ms=speculate_ms), first)

    def recognize(cut: str) -> None:
        for start in listener.started:
            if start.recognition_id in listener.running:
                text = heard(start.pcm, cut if start.partial else "right")
                listener.feed(ev.RecognitionEnded(start.recognition_id, text))

    for turn in turns:
        for ms, cut, pauses in turn:
            listener.hear((1.0,) * (ms // FRAME_MS), lag=False)
            recognize(cut)
            if pauses:
                listener.hear((0.0,) * 10, lag=False)
                recognize(cut)
        listener.hear((0.0,) * 30, lag=False)
        recognize("right")
    for item_id, transcript in listener.transcripts.items():
        said = listener.said.get(item_id, "")
        assert keys(said) == keys(transcript)
        assert said == said.strip()
        assert len(said.split()) == len(transcript.split())
    assert listener.items == set(listener.transcripts)
    listener.close()
