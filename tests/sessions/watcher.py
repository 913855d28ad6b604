"""Watches everything a session asks for, and fails when a client or a stage would be misled."""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.aside import MAX_ASIDES
from antiphon.sessions.items import Item, ItemKind, ItemStatus, NewItem

TAIL_AUDIO = [fx.AudioDone, fx.TranscriptDone, fx.ContentPartDone, fx.ItemDone, fx.OutputItemDone]
TAIL_TEXT = [fx.TextDone, fx.ContentPartDone, fx.ItemDone, fx.OutputItemDone]
HEAD = [fx.OutputItemAdded, fx.ItemAdded, fx.ContentPartAdded]
CALL_HEAD = [fx.OutputItemAdded, fx.ItemAdded]
CALL_TAIL = [fx.CallDone, fx.ItemDone, fx.OutputItemDone]
OF_CONVERSATION = (fx.ItemAdded, fx.ItemDone)


@dataclass
class Output:
    """An item of a response."""

    item: Item
    told: list[type] = field(default_factory=list[type])
    """Kinds of its events, deltas left out."""

    text: str = ""
    """What its deltas say: of a message its text, of a call its arguments."""

    @property
    def called(self) -> bool:
        return self.item.kind is ItemKind.FUNCTION_CALL


@dataclass
class Reply:
    """A response as a client and its stages see it."""

    id: str
    epoch: int | None = None
    """Set once its stages were started."""

    working: bool = False
    created: bool = False
    aborted: bool = False
    done: bool = False
    spoken: bool = True
    aside: bool = False
    outputs: list[Output] = field(default_factory=list[Output])
    words: list[ev.WordTime] = field(default_factory=list[ev.WordTime])
    wild: bool = False
    """Whether its words, text and audio do not fit each other."""

    audio_ms: float = 0.0
    chunks_ms: list[float] = field(default_factory=list[float])
    written_ms: float = 0.0
    measured: bool = False
    cut_ms: float | None = None
    told_ms: float | None = None
    """Where the client first cut it."""

    @property
    def message(self) -> Output | None:
        return next((each for each in self.outputs if not each.called), None)

    @property
    def item_id(self) -> str | None:
        return self.message.item.id if self.message else None

    @property
    def text(self) -> str:
        return self.message.text if self.message else ""

    def expected(self, kinds: list[type]) -> list[type]:
        """Return the events of an item that this response has at all."""
        return [kind for kind in kinds if not (self.aside and kind in OF_CONVERSATION)]


class Watcher:
    """Takes in every event and effect in order; asserts what must always hold."""

    def __init__(self, max_items: int) -> None:
        self.max_items = max_items
        self.items: list[str] = []
        self.known: dict[str, Item] = {}
        self.open_items: set[str] = set()
        self.replies: dict[str, Reply] = {}
        self.ids: set[str] = set()
        self.running: str | None = None
        self.recognizing: set[int] = set()
        self.recognitions: dict[int, bytes] = {}
        self.listening: set[int] = set()
        self.listens: list[int] = []
        self.promised: str | None = None
        self.brought: set[str] = set()
        """Texts that a client gave as the input of a response."""

        self.limits_due = False
        self.effects = 0

    # Events.

    def event(self, event: ev.Event) -> None:
        match event:
            case ev.ListeningFailed(listen_id=listen_id):
                self.listening.discard(listen_id)
            case ev.RecognitionEnded(recognition_id=recognition_id):
                self.recognizing.discard(recognition_id)
            case ev.CreateResponse(options=options):
                for each in options.input or ():
                    if isinstance(each, NewItem):
                        self.brought.update(part.text or "" for part in each.parts)
            case ev.AudioWritten(response_id=response_id, ms=ms):
                if (reply := self.replies.get(response_id)) is not None and not reply.aborted:
                    reply.written_ms += ms
            case ev.ReplyEnded(response_id=response_id, epoch=epoch):
                if (reply := self.replies.get(response_id)) is not None and reply.epoch == epoch:
                    reply.working = False
            case _:
                pass

    def settled(self) -> None:
        """The session has ended: nothing may be left behind."""
        assert self.running is None
        assert not self.open_items
        assert not self.recognizing
        assert not self.listening
        for reply in self.replies.values():
            assert not reply.working, "a reply was neither ended nor aborted"
            assert reply.done == reply.created
            assert reply.measured == (reply.audio_ms > 0), "not measured exactly once"

    # Effects.

    def effect(self, effect: fx.Effect) -> None:
        self.effects += 1
        assert isinstance(effect, fx.SessionCreated) == (self.effects == 1)
        assert isinstance(effect, fx.RateLimitsUpdated) == self.limits_due
        self.limits_due = isinstance(effect, fx.ResponseCreated)
        match effect:
            case (
                fx.ItemAdded()
                | fx.ItemDone()
                | fx.ItemDeleted()
                | fx.ItemTruncated()
                | fx.TranscriptionDone()
                | fx.TranscriptionFailed()
            ):
                self._item(effect)
            case fx.SpeechStarted() | fx.SpeechStopped() | fx.BufferCommitted():
                self._turn(effect)
            case fx.BufferCleared():
                self.promised = None
            case wx.StartListening() | wx.StopListening() | wx.FeedListening():
                self._listening(effect)
            case wx.StartRecognition(recognition_id=recognition_id):
                assert recognition_id not in self.recognitions
                self.recognitions[recognition_id] = effect.pcm
                self.recognizing.add(recognition_id)
            case wx.CancelRecognition(recognition_id=recognition_id):
                self.recognizing.remove(recognition_id)
            case wx.StartReply() | wx.AbortReply():
                self._work(effect)
            case wx.ReplyPlayed():
                self._played(effect)
            case fx.ResponseMeasured():
                self._measured(effect)
            case _:
                self._response(effect)

    def _item(
        self,
        effect: fx.ItemAdded
        | fx.ItemDone
        | fx.ItemDeleted
        | fx.ItemTruncated
        | fx.TranscriptionDone
        | fx.TranscriptionFailed,
    ) -> None:
        match effect:
            case fx.ItemAdded(item=item, previous_item_id=previous):
                self._item_added(item, previous)
            case fx.ItemDone(item=item, previous_item_id=previous):
                assert previous is None or previous in self.items
                self.open_items.remove(item.id)
                self._of_reply(effect, item.id)
            case fx.ItemDeleted(item_id=item_id):
                assert item_id not in self.open_items
                self.items.remove(item_id)
            case fx.ItemTruncated(item_id=item_id, audio_end_ms=end_ms):
                for reply in self.replies.values():
                    if reply.item_id == item_id:
                        # The client knows better than an estimate made before.
                        reply.told_ms = end_ms if reply.told_ms is None else reply.told_ms
                        reply.cut_ms = min(end_ms, reply.told_ms)
            case fx.TranscriptionDone(item_id=item_id) | fx.TranscriptionFailed(item_id=item_id):
                assert item_id in self.items

    def _item_added(self, item: Item, previous: str | None) -> None:
        assert item.id not in self.items
        assert previous is None or previous in self.items
        at = 0 if previous is None else self.items.index(previous) + 1
        self.items.insert(at, item.id)
        assert len(self.items) <= self.max_items
        self.known[item.id] = item
        self.open_items.add(item.id)
        self._of_reply(fx.ItemAdded(item, previous), item.id)

    def _of_reply(self, effect: fx.ItemAdded | fx.ItemDone, item_id: str) -> None:
        for reply in self.replies.values():
            for output in reply.outputs:
                if output.item.id == item_id:
                    assert not reply.aside, "an item out of band joined the conversation"
                    output.item = effect.item
                    output.told.append(type(effect))
        self.known[item_id] = effect.item

    def _turn(self, effect: fx.SpeechStarted | fx.SpeechStopped | fx.BufferCommitted) -> None:
        match effect:
            case fx.SpeechStarted(item_id=item_id):
                assert item_id not in self.ids
                self.ids.add(item_id)
                self.promised = item_id
            case fx.SpeechStopped(item_id=item_id):
                assert item_id == self.promised
            case fx.BufferCommitted(item_id=item_id, previous_item_id=previous):
                assert previous is None or previous in self.items
                assert self.promised in (None, item_id)
                self.promised = None

    def _listening(self, effect: wx.StartListening | wx.StopListening | wx.FeedListening) -> None:
        match effect:
            case wx.StartListening(listen_id=listen_id):
                assert not self.listening
                assert listen_id not in self.listens
                self.listens.append(listen_id)
                self.listening.add(listen_id)
            case wx.StopListening(listen_id=listen_id):
                self.listening.remove(listen_id)
                # The client switched it off; what it was told of stays in the buffer.
                self.promised = None
            case wx.FeedListening(listen_id=listen_id):
                assert listen_id in self.listening

    def _work(self, effect: wx.StartReply | wx.AbortReply) -> None:
        match effect:
            case wx.StartReply():
                reply = self.replies.setdefault(effect.response_id, Reply(effect.response_id))
                assert not reply.aborted
                assert not reply.done
                assert reply.epoch is None
                reply.epoch, reply.working, reply.spoken = effect.epoch, True, effect.speak
                self._check_context(effect.messages)
            case wx.AbortReply(response_id=response_id, epoch=epoch):
                reply = self.replies[response_id]
                assert reply.epoch in (None, epoch)
                assert not reply.aborted
                reply.aborted, reply.working = True, False
                cut_ms = reply.written_ms
                reply.cut_ms = cut_ms if reply.cut_ms is None else min(reply.cut_ms, cut_ms)

    def _played(self, effect: wx.ReplyPlayed) -> None:
        reply = self.replies[effect.response_id]
        assert reply.working, "stages that are gone were told of playback"
        assert reply.epoch == effect.epoch
        assert 0 <= effect.played_ms <= effect.until_ms
        assert effect.played_ms <= reply.written_ms + 1e-6

    def _measured(self, effect: fx.ResponseMeasured) -> None:
        reply = self.replies[effect.response_id]
        assert reply.done
        assert not reply.measured
        reply.measured = True
        assert effect.generated_ms == round(reply.audio_ms, 1)
        assert effect.chunks_ms == tuple(reply.chunks_ms[:64])
        assert effect.generated_ms >= effect.sent_ms >= effect.played_ms >= 0
        assert abs(effect.played_ms + effect.unheard_ms - effect.generated_ms) < 0.01
        assert effect.sent_ms <= round(reply.written_ms, 1)
        assert (effect.ttfa_ms is None) == (effect.sent_ms == 0)
        assert 0 <= effect.lead_min_ms <= effect.lead_max_ms <= effect.sent_ms
        assert effect.continuous == (effect.gap_ms < 100)
        assert not effect.interrupted or effect.unheard_ms > 40

    def _check_context(self, messages: tuple[wx.ContextMessage, ...]) -> None:
        said = [message for message in messages if message.role != "system"]
        mine = {r.item_id: r for r in self.replies.values() if r.item_id is not None}
        allowed = [i for i in self.items if i in mine]
        called: set[str] = set()
        for message in said:
            if message.role == "tool":
                assert message.call_id in called
                continue
            assert message.text.strip() or message.calls
            called.update(call.call_id for call in message.calls)
            if message.role != "assistant" or not message.text:
                continue
            fits = any(self._may_say(mine[i], message.text) for i in allowed)
            known = [self.known[i].text for i in self.items]
            brought = any(text.startswith(message.text) for text in [*known, *self.brought])
            assert fits or brought, f"{message.text!r} is of no item there is"
        # A client may bring a call under the id of one that was cut short.
        given = {item.call_id for item in self.known.values() if item.response_id is None}
        for item in self.known.values():
            if item.response_id is not None and item.status is not ItemStatus.COMPLETED:
                assert item.call_id is None or item.call_id not in called - given
        assert len(said) <= max(len(self.items) + 1, 3)

    def _may_say(self, reply: Reply, text: str) -> bool:
        if not reply.text.strip().startswith(text):
            return False
        if reply.wild or reply.cut_ms is None or not reply.spoken:
            return True
        count = len(text.split())
        return all(word.end_ms <= reply.cut_ms for word in reply.words[:count])

    def _response(self, effect: fx.Effect) -> None:
        match effect:
            case fx.ResponseCreated(response=view):
                self._created(self.replies.setdefault(view.id, Reply(view.id)), view)
            case fx.ResponseDone(response=view):
                self._done(self._visible(view.id), view)
            case fx.OutputItemAdded(response_id=response_id, output_index=index, item=item):
                reply = self._visible(response_id)
                assert not reply.aborted
                assert index == len(reply.outputs)
                assert item.id not in self.ids
                self.ids.add(item.id)
                reply.outputs.append(Output(item, [type(effect)]))
                assert sum(not each.called for each in reply.outputs) <= 1
            case fx.OutputItemDone(response_id=response_id, output_index=index, item=item):
                output = self._visible(response_id).outputs[index]
                assert output.item.id == item.id
                output.item = item
                output.told.append(type(effect))
            case (
                fx.ContentPartAdded(at=at)
                | fx.ContentPartDone(at=at)
                | fx.AudioDone(at=at)
                | fx.TranscriptDone(at=at)
                | fx.TextDone(at=at)
                | fx.CallDone(at=at)
            ):
                self._output(at).told.append(type(effect))
            case (
                fx.TextDelta(at=at)
                | fx.TranscriptDelta(at=at)
                | fx.AudioDelta(at=at)
                | fx.WordSpoken(at=at)
                | fx.CallDelta(at=at)
            ):
                self._delta(self._visible(at.response_id), self._output(at), effect)
            case _:
                pass

    def _visible(self, response_id: str) -> Reply:
        reply = self.replies[response_id]
        assert reply.created, "a draft was told of"
        assert not reply.done
        return reply

    def _output(self, at: fx.PartAt) -> Output:
        output = self._visible(at.response_id).outputs[at.output_index]
        assert output.item.id == at.item_id
        return output

    def _delta(self, reply: Reply, output: Output, effect: fx.Effect) -> None:
        assert output.told == reply.expected(CALL_HEAD if output.called else HEAD)
        assert not reply.aborted
        match effect:
            case fx.AudioDelta(epoch=epoch, pcm=pcm):
                assert epoch == reply.epoch
                assert reply.spoken
                reply.audio_ms += len(pcm) / 48
                reply.chunks_ms += [round(len(pcm) / 48, 1)] if pcm else []
            case fx.TextDelta(text=text) | fx.TranscriptDelta(text=text) | fx.CallDelta(text=text):
                output.text += text
            case _:
                pass

    def _created(self, reply: Reply, view: fx.ResponseView) -> None:
        assert not reply.created
        assert not reply.aborted
        assert view.output == ()
        reply.created, reply.aside = True, view.out_of_band
        if reply.aside:
            asides = [r for r in self.replies.values() if r.aside and not r.done]
            assert len(asides) <= MAX_ASIDES
        else:
            assert self.running is None
            self.running = view.id

    def _done(self, reply: Reply, view: fx.ResponseView) -> None:
        assert [each.item.id for each in reply.outputs] == [item.id for item in view.output]
        for output, item in zip(reply.outputs, view.output, strict=True):
            whole = item.status is ItemStatus.COMPLETED
            assert item.status is not ItemStatus.IN_PROGRESS
            if output.called:
                tail = CALL_TAIL if whole else CALL_TAIL[1:]
                assert output.told == reply.expected(CALL_HEAD + tail)
                assert item.arguments == output.text
            else:
                tail = TAIL_AUDIO if fx.AudioDone in output.told else TAIL_TEXT
                assert output.told == reply.expected(HEAD + tail)
                assert item.parts[0].text == output.text
                assert whole == (view.status is fx.ResponseStatus.COMPLETED)
        assert view.status is not fx.ResponseStatus.IN_PROGRESS
        assert view.out_of_band == reply.aside
        assert view.usage is not None
        assert view.usage.output_audio_tokens == -(-round(reply.audio_ms * 48) // 2400)
        reply.done = True
        if not reply.aside:
            self.running = None
