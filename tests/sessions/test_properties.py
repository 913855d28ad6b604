"""Whatever comes, in whatever order: what holds of a session at every step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)
from tests.sessions.watcher import Reply, Watcher
from tests.support.peer import FRAME, FRAME_MS, Peer, of

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.errors import ErrorInfo
from antiphon.sessions.items import ItemKind, NewItem, Part, PartKind, Role
from antiphon.sessions.session import Session
from antiphon.sessions.settings import (
    AudioFormat,
    Capabilities,
    Modality,
    Settings,
    SettingsPatch,
    TranscriptionPatch,
    Truncation,
    TruncationMode,
    TurnDetection,
    TurnDetectionPatch,
)
from antiphon.sessions.tools import Tool, ToolChoice, ToolMode

T = TypeVar("T")

PICK = st.integers(0, 7)
"""Which of the ids there are; the last ones are of nothing there is."""

OFTEN_NEWEST = st.sampled_from([0, 0, 0, 0, 1, 2, 7])

CAPABILITIES = st.sampled_from(
    [
        Capabilities(voices=("ada", "bob")),
        Capabilities(voices=("ada", "bob"), speculate_ms=0, stage_timeout_s=0.5, max_paused_s=3.0),
        Capabilities(
            voices=("ada", "bob"),
            # As many as one response writes here at most, and one more.
            max_items=7,
            max_input_ms=1500,
            max_retained_ms=800,
            max_text_chars=20,
            max_session_s=30.0,
            stage_timeout_s=2.0,
            responses_per_minute=6,
            tokens_per_minute=300,
        ),
    ]
)
TEXTS = st.sampled_from(["", " ", "yes", "well then", "a text that is much too long"])
SCRIPTS = st.sampled_from(["s", "sss", "sss..", "sss......", "..", "....", "sss...sss......"])
"""Speech and silence, 100 ms a letter."""

HELLO = (Part(PartKind.INPUT_TEXT, "hello"),)

PROBABILITIES = st.lists(st.floats(0, 1) | st.just(float("nan")), max_size=20).map(tuple)

VALUES: dict[str, list[Any]] = {
    "instructions": ["", "Be brief.", "far more instructions than are allowed" * 6000],
    "modality": list(Modality),
    "input_format": list(AudioFormat),
    "voice": ["ada", "bob", "eve"],
    "speed": [0.25, 1.5, float("nan"), 9.0],
    "transcription": [None, TranscriptionPatch(), TranscriptionPatch(language="en")],
    "max_output_tokens": [None, 1, 4096, 0],
    "extensions": [True, False],
    "tools": [(), (Tool(name="f"),), (Tool(name="f"), Tool(name="f"))],
    "tool_choice": [ToolChoice(), ToolChoice(mode=ToolMode.REQUIRED)],
    "truncation": [Truncation(mode=mode) for mode in TruncationMode],
    "turn_detection": [None, TurnDetectionPatch(), TurnDetectionPatch()],
}
TURN_VALUES: dict[str, list[Any]] = {
    "threshold": [0.1, 0.9, 2.0],
    "prefix_padding_ms": [0, 5000, -1],
    "silence_duration_ms": [20, 260, 800, 10**6],
    "create_response": [True, True, False],
    "interrupt_response": [True, False],
}


def one_of_each(values: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy of one member with one of its values."""
    return st.sampled_from([{name: value} for name, those in values.items() for value in those])


PATCHES = one_of_each(VALUES).map(lambda one: SettingsPatch(**one)) | one_of_each(TURN_VALUES).map(
    lambda one: SettingsPatch(turn_detection=TurnDetectionPatch(**one))
)
INPUTS = st.none() | st.lists(
    st.builds(
        NewItem,
        role=st.sampled_from(Role),
        parts=st.builds(Part, st.just(PartKind.INPUT_TEXT), TEXTS).map(lambda part: (part,)),
    ),
    max_size=3,
).map(tuple)
OPTIONS = st.builds(
    ev.ResponseOptions,
    instructions=st.none() | TEXTS,
    modality=st.none() | st.sampled_from(Modality),
    voice=st.sampled_from([None, None, None, "bob", "eve"]),
    max_output_tokens=st.sampled_from([None, None, None, 5, 5000]),
    tools=st.sampled_from([None, None, (), (Tool(name="g"),)]),
    tool_choice=st.sampled_from([None, None, None, ToolChoice(mode=ToolMode.REQUIRED)]),
    out_of_band=st.booleans(),
    input=INPUTS,
)
"""What a response is asked to be; with references to items, see the rule."""


def pick(there: list[T], number: int, otherwise: T) -> T:
    """Return one of the newest, or something that is none of them."""
    return there[-1 - number] if number < len(there) else otherwise


class SessionMachine(RuleBasedStateMachine):
    """A client, the stages and a shell, none of which can be trusted."""

    @initialize(can=CAPABILITIES, turns=st.sampled_from([None, TurnDetection()]))
    def attach(self, can: Capabilities, turns: TurnDetection | None) -> None:
        self.can = can
        self.first = Settings(voice="ada", turn_detection=turns)
        self.session = Session("seed", self.first, can)
        self.watcher = Watcher(can.max_items)
        self.now = 50.0
        self.done: list[tuple[float, ev.Event | None]] = []
        self.effects: list[fx.Effect] = []
        self.word = 0
        self.feed(ev.Attached(0))

    # A shell.

    def feed(self, event: ev.Event, now: float | None = None) -> None:
        now = self.now if now is None else now
        self.done.append((now, event))
        self.watcher.event(event)
        self.session.handle(event, now)
        self.drain()

    def wake(self) -> None:
        self.done.append((self.now, None))
        self.session.handle_deadline(self.now)
        self.drain()

    def drain(self) -> None:
        while (effect := self.session.next_effect()) is not None:
            self.effects.append(effect)
            self.watcher.effect(effect)

    def reply(self, number: int) -> Reply | None:
        started = [r for r in self.watcher.replies.values() if r.epoch is not None]
        return started[-1 - number] if number < len(started) else None

    # Time.

    @rule(seconds=st.sampled_from([0.02, 0.3, 1.6, 5.0]))
    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := self.session.deadline) is not None and due.at <= until:
            self.now = max(self.now, due.at)
            self.wake()
            after = self.session.deadline
            assert after is None or after.at > self.now, "a deadline must move or go"
        self.now = until

    @rule(seconds=st.sampled_from([0.0, 2.5]))
    def oversleep(self, seconds: float) -> None:
        self.now += seconds
        self.wake()

    # A client that talks.

    @rule(script=SCRIPTS, lag=st.booleans())
    def talk(self, script: str, lag: bool) -> None:
        scores = [float(speech == "s") for speech in script for _ in range(5)]
        for score in scores:
            self.now += FRAME_MS / 1000
            self.feed(ev.AppendAudio(FRAME))
            if not lag:
                self.score((score,))
        if lag:
            self.score(tuple(scores))

    @rule(text=TEXTS, words=st.integers(0, 3))
    def talk_and_be_answered(self, text: str, words: int) -> None:
        self.talk("sss..", lag=False)
        self.recognize(0, text)
        for _ in range(words):
            self.say_words(0, 0.5)
        self.talk("....", lag=False)

    def score(self, probabilities: tuple[float, ...], back: int = 0) -> None:
        listen_id = pick(self.watcher.listens, back, 99)
        self.feed(ev.SpeechScored(listen_id, probabilities, FRAME_MS))

    @rule(samples=st.integers(0, 24 * 400), odd=st.booleans())
    def append(self, samples: int, odd: bool) -> None:
        self.feed(ev.AppendAudio(b"\x03\x00" * samples + b"\x00" * odd, "e"))

    @rule(probabilities=PROBABILITIES, back=PICK)
    def score_anything(self, probabilities: tuple[float, ...], back: int) -> None:
        self.score(probabilities, back)

    @rule(event=st.sampled_from([ev.CommitAudio("e"), ev.ClearAudio("e")]), late=st.booleans())
    def ask(self, event: ev.Event, late: bool) -> None:
        self.feed(event, self.now - 10.0 * late)

    @rule(patch=PATCHES)
    def update(self, patch: SettingsPatch) -> None:
        self.feed(ev.UpdateSession(patch, "e"))

    @rule(
        role=st.sampled_from(Role),
        text=TEXTS,
        audio=st.booleans(),
        own=st.integers(0, 9),
        after=st.sampled_from([None, "root", 0, 2, 9]),
    )
    def create_item(
        self, role: Role, text: str, audio: bool, own: int, after: str | int | None
    ) -> None:
        if role is Role.ASSISTANT:
            kind = PartKind.OUTPUT_AUDIO if audio else PartKind.OUTPUT_TEXT
        else:
            kind = PartKind.INPUT_AUDIO if audio else PartKind.INPUT_TEXT
        choices = [None, None, None, "x", "y", self.watcher.promised]
        item = NewItem(
            role=role,
            parts=(Part(kind, text or None),),
            id=pick([*choices, *self.watcher.items[-2:]], own, "z"),
            audio=FRAME * 3 if audio else b"",
        )
        previous = pick(self.watcher.items, after, "none") if isinstance(after, int) else after
        self.feed(ev.CreateItem(item, previous, "e"))

    @rule(
        number=OFTEN_NEWEST,
        spoken=st.booleans(),
        index=st.sampled_from([0, 0, 0, 1]),
        ms=st.sampled_from([0, 40, 150, 300, 9999]),
    )
    def truncate(self, number: int, spoken: bool, index: int, ms: int) -> None:
        spoke = [i for i in self.watcher.items if self.watcher.known[i].role is Role.ASSISTANT]
        item_id = pick(spoke if spoken else self.watcher.items, number, "none")
        self.feed(ev.TruncateItem(item_id, index, ms, "e"))

    @rule(number=OFTEN_NEWEST, drop=st.booleans())
    def touch(self, number: int, drop: bool) -> None:
        item_id = pick(self.watcher.items, number, "none")
        self.feed(ev.DeleteItem(item_id, "e") if drop else ev.RetrieveItem(item_id, "e"))

    @rule(
        kind=st.sampled_from([ItemKind.FUNCTION_CALL, ItemKind.FUNCTION_OUTPUT]),
        name=st.sampled_from(["f", None]),
        text=TEXTS,
        number=PICK,
        own=st.booleans(),
    )
    def create_function_item(
        self, kind: ItemKind, name: str | None, text: str, number: int, own: bool
    ) -> None:
        calls = [item.call_id for item in self.watcher.known.values() if item.call_id]
        item = NewItem(
            kind=kind,
            call_id="mine" if own else pick([None, *calls], number, None),
            name=name,
            arguments=text,
            output=text,
        )
        self.feed(ev.CreateItem(item, None, "e"))

    @rule(options=OPTIONS, plain=st.booleans(), refer=st.sampled_from([None, None, 0, 1, 7]))
    def create_response(self, options: ev.ResponseOptions, plain: bool, refer: int | None) -> None:
        if plain:
            options = ev.ResponseOptions(out_of_band=options.out_of_band)
        if refer is not None:
            reference = ev.ItemReference(pick(self.watcher.items, refer, "none"))
            options = replace(options, input=((options.input or ())[:2]) + (reference,))
        self.feed(ev.CreateResponse(options, "e"))

    @rule(
        aside=st.booleans(),
        script=st.lists(st.sampled_from(["say", "call", "piece", "fitted"]), max_size=5),
        ends=st.sampled_from(["not", "cancelled", "cut", *ev.ReplyOutcome]),
        gave=st.booleans(),
    )
    def be_answered(
        self, aside: bool, script: list[str], ends: str | ev.ReplyOutcome, gave: bool
    ) -> None:
        self.feed(ev.CreateItem(NewItem(role=Role.USER, parts=HELLO)))
        self.feed(ev.CreateResponse(ev.ResponseOptions(out_of_band=aside)))
        reply = self.reply(0)
        if reply is None:
            return
        for number, what in enumerate(script):
            match what:
                case "say":
                    self.say_words(0, 0.5)
                case "fitted":
                    self.feed(ev.ReplyFitted(reply.id, reply.epoch or 0, number))
                case _:
                    self.call(0, 0, number, '{"a":1}', what == "call")
        match ends:
            case ev.ReplyOutcome():
                self.end_reply(0, 0, ends)
            case "cancelled":
                self.feed(ev.CancelResponse(reply.id))
            case "cut":
                self.talk("ss", lag=False)
            case _:
                pass
        for item in [output.item for output in reply.outputs if output.called and gave]:
            output = NewItem(kind=ItemKind.FUNCTION_OUTPUT, call_id=item.call_id, output="2")
            self.feed(ev.CreateItem(output))

    @rule(named=st.booleans(), number=OFTEN_NEWEST)
    def cancel(self, named: bool, number: int) -> None:
        response_id = pick(list(self.watcher.replies), number, "none") if named else None
        self.feed(ev.CancelResponse(response_id, "e"))

    @rule(
        number=OFTEN_NEWEST,
        ms=st.integers(-50, 3000),
        ahead=st.sampled_from([0, 40, 500, 9999]),
        gaps=st.sampled_from([(0, 0), (0, 0), (1, 120), (9999, 10**9), (-1, 0), (0, -1)]),
    )
    def report(self, number: int, ms: int, ahead: int, gaps: tuple[int, int]) -> None:
        response_id = pick(list(self.watcher.replies), number, "none")
        self.feed(ev.ReportPlayback(response_id, ms, ahead, *gaps))

    @rule(written=st.sampled_from([0, 700, 1500]), reported=st.booleans())
    def listen_and_pause(self, written: int, reported: bool) -> None:
        self.feed(ev.CreateResponse(ev.ResponseOptions(instructions="Talk.")))
        reply = self.reply(0)
        if reply is None or not reply.spoken:
            return
        reply.wild = True
        self.feed(ev.ReplyAudio(reply.id, reply.epoch or 0, b"\x09\x00" * 24 * 1500))
        self.write(0, written)
        for _ in range(2 * reported):
            self.report(0, 100, written, (0, 0))
        self.wait(5.0)

    @rule()
    def babble(self) -> None:
        self.feed(ev.RejectMessage(ErrorInfo("invalid_value", "What?")))

    # Stages, also late and wrong.

    @rule(number=st.sampled_from([0, 1, 7, 7]))
    def stop_listening(self, number: int) -> None:
        self.feed(ev.ListeningFailed(pick(self.watcher.listens, number, 99), "gone"))

    @rule(number=OFTEN_NEWEST, text=st.none() | TEXTS)
    def recognize(self, number: int, text: str | None) -> None:
        recognition_id = pick(sorted(self.watcher.recognitions), number, 99)
        self.feed(ev.RecognitionEnded(recognition_id, text, None if text else "down"))

    @rule(number=OFTEN_NEWEST, written=st.sampled_from([0.0, 0.5, 1.0]))
    def say_words(self, number: int, written: float) -> None:
        reply = self.reply(number)
        if reply is None or reply.epoch is None:
            return
        self.word += 1
        start_ms = sum(word.end_ms - word.start_ms for word in reply.words)
        word = ev.WordTime(f"w{self.word}", start_ms, start_ms + 100)
        key = (reply.id, reply.epoch)
        reply.words.append(word)
        self.feed(ev.ReplyText(*key, f" {word.text}"))
        if reply.spoken:
            self.feed(ev.ReplyWords(*key, (word,)))
            self.feed(ev.ReplyAudio(*key, b"\x05\x00" * 2400))
            self.write(number, 100 * written)

    @rule(number=OFTEN_NEWEST, ms=st.integers(0, 400))
    def write(self, number: int, ms: float) -> None:
        reply = self.reply(number)
        response_id = "none" if reply is None else reply.id
        left_ms = 0.0 if reply is None else reply.audio_ms - reply.written_ms
        self.feed(ev.AudioWritten(response_id, min(ms, left_ms)))

    @rule(
        number=PICK,
        stale=st.sampled_from([0, 0, 0, 1]),
        kind=st.sampled_from(["text", "words", "audio", "timed", "fitted"]),
        size=st.integers(0, 400),
    )
    def say_anything(self, number: int, stale: int, kind: str, size: int) -> None:
        reply = self.reply(number)
        key = ("none", 0) if reply is None else (reply.id, (reply.epoch or 0) + stale)
        if reply is not None:
            reply.wild = True
        match kind:
            case "text":
                self.feed(ev.ReplyText(*key, "t" * (size % 3) + " " * (size % 2)))
            case "words":
                self.feed(ev.ReplyWords(*key, (ev.WordTime("v", size, size + 9.5),)))
            case "fitted":
                self.feed(ev.ReplyFitted(*key, size % 6))
            case "audio":
                # Up to 2 s: more than a listener has to have left.
                self.feed(ev.ReplyAudio(*key, b"\x07\x00" * 24 * 5 * size))
            case _:
                self.feed(ev.ReplyTimed(*key, self.now - 1, None, self.now, self.now))

    @rule(
        number=OFTEN_NEWEST,
        stale=st.sampled_from([0, 0, 0, 1]),
        index=st.integers(0, 2),
        arguments=TEXTS,
        done=st.booleans(),
    )
    def call(self, number: int, stale: int, index: int, arguments: str, done: bool) -> None:
        reply = self.reply(number)
        key = ("none", 0) if reply is None else (reply.id, (reply.epoch or 0) + stale)
        self.feed(ev.ReplyCall(*key, index, f"f{index}", arguments, done))

    @rule(
        number=OFTEN_NEWEST,
        stale=st.sampled_from([0, 0, 0, 1]),
        outcome=st.sampled_from(ev.ReplyOutcome),
    )
    def end_reply(self, number: int, stale: int, outcome: ev.ReplyOutcome) -> None:
        reply = self.reply(number)
        key = ("none", 0) if reply is None else (reply.id, (reply.epoch or 0) + stale)
        self.feed(ev.ReplyEnded(*key, outcome, input_tokens=40, output_tokens=20))

    # What always holds.

    @invariant()
    def settings_are_within_their_bounds(self) -> None:
        now = self.session.settings
        assert now.voice in self.can.voices
        assert 0.25 <= now.speed <= 1.5
        assert len(now.instructions) <= self.can.max_text_chars
        assert now.max_output_tokens is None or 1 <= now.max_output_tokens <= 4096
        turns = now.turn_detection
        if turns is not None:
            assert 0 <= turns.threshold <= 1
            assert 0 <= turns.prefix_padding_ms <= 5000
            assert 20 <= turns.silence_duration_ms <= 10_000

    def teardown(self) -> None:
        if not hasattr(self, "session"):
            return
        self.feed(ev.Detached())
        assert self.session.deadline is None
        self.watcher.settled()
        told = len(self.effects)
        self.feed(ev.CreateResponse())
        self.wake()
        assert len(self.effects) == told
        assert self.replayed() == self.effects

    def replayed(self) -> list[fx.Effect]:
        again = Session("seed", self.first, self.can)
        effects: list[fx.Effect] = []
        for now, event in self.done:
            if event is None:
                again.handle_deadline(now)
            else:
                again.handle(event, now)
            effects += iter(again.next_effect, None)
        return effects


SessionMachine.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestAnySequenceOfEvents = SessionMachine.TestCase


# How audio is cut into appends.

Block: TypeAlias = tuple[list[float], int, ev.Event | None]
"""Scores of frames, how often they are repeated, and what follows."""

BLOCKS: st.SearchStrategy[list[Block]] = st.lists(
    st.tuples(
        st.lists(st.sampled_from([0.0, 0.0, 1.0, 1.0, 1.0]), min_size=1, max_size=12),
        st.integers(1, 3),
        st.sampled_from([None, None, None, ev.CommitAudio(), ev.ClearAudio()]),
    ),
    max_size=12,
)
CUTS = st.lists(st.integers(0, 24 * FRAME_MS * 12), max_size=5)


def heard(blocks: list[Block], cuts: list[int]) -> list[fx.Effect]:
    """Return what blocks of audio cause, each cut into appends at some samples."""
    peer = Peer.attached(Capabilities(voices=("ada",)), TurnDetection(silence_duration_ms=260))
    for number, (scores, repeat, event) in enumerate(blocks):
        frames = scores * repeat
        peer.now += len(frames) * FRAME_MS / 1000
        pcm = bytes((number + 1, 0)) * (24 * FRAME_MS * len(frames))
        ends = [2 * cut for cut in sorted(cuts) if 2 * cut < len(pcm)]
        for start, end in zip([0, *ends], [*ends, len(pcm)], strict=True):
            peer.feed(ev.AppendAudio(pcm[start:end]))
        peer.feed(ev.SpeechScored(1, tuple(frames), FRAME_MS))
        if event is not None:
            peer.feed(event)
    return peer.effects


@settings(deadline=None, max_examples=60)
@given(BLOCKS, CUTS)
def test_it_does_not_matter_how_audio_is_cut_into_appends(
    blocks: list[Block], cuts: list[int]
) -> None:
    whole, cut = heard(blocks, []), heard(blocks, cuts)
    fed = [b"".join(f.pcm for f in of(wx.FeedListening, effects)) for effects in (whole, cut)]
    assert fed[0] == fed[1]
    told = [[e for e in effects if not isinstance(e, wx.FeedListening)] for effects in (whole, cut)]
    assert told[0] == told[1]
