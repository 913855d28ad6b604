"""A session core under simulated time, with a client and stages played by the test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from antiphon.sessions import effects as fx
from antiphon.sessions import events as ev
from antiphon.sessions import work_effects as wx
from antiphon.sessions.session import Session
from antiphon.sessions.settings import Capabilities, Settings, TurnDetection

E = TypeVar("E")

FRAME_MS = 20
FRAME = b"\x01\x00" * (24 * FRAME_MS)
"""20 ms of audio."""

NO_SPECULATION = Capabilities(voices=("ada", "bob"), speculate_ms=0)
SPECULATION = Capabilities(voices=("ada", "bob"), speculate_ms=200)


@dataclass
class Peer:
    """Feeds a session and keeps everything it asks for."""

    session: Session
    now: float = 100.0
    effects: list[fx.Effect] = field(default_factory=list[fx.Effect])

    @classmethod
    def attached(
        cls,
        can: Capabilities = NO_SPECULATION,
        turns: TurnDetection | None = None,
        **settings: object,
    ) -> Peer:
        """Return a peer whose session has begun; ``turns=None`` is push-to-talk."""
        chosen = Settings(voice="ada", turn_detection=turns, **settings)  # type: ignore[arg-type]
        peer = cls(Session("seed", chosen, can))
        peer.feed(ev.Attached(0))
        return peer

    def feed(self, *events: ev.Event) -> list[fx.Effect]:
        """Feed events; return what they caused."""
        caused: list[fx.Effect] = []
        for event in events:
            self.session.handle(event, self.now)
            caused += self._drain()
        return caused

    def wait(self, seconds: float) -> list[fx.Effect]:
        """Let time pass, waking the session at each of its deadlines."""
        until = self.now + seconds
        caused: list[fx.Effect] = []
        while (due := self.session.deadline) is not None and due.at <= until:
            self.now = max(self.now, due.at)
            self.session.handle_deadline(self.now)
            caused += self._drain()
            after = self.session.deadline
            assert after is None or after.at > self.now, "a deadline must move or go"
        self.now = until
        return caused

    def hear(self, *frames: float) -> list[fx.Effect]:
        """Send a 20 ms frame for each speech probability, in real time, scored at once."""
        caused: list[fx.Effect] = []
        for probability in frames:
            self.now += FRAME_MS / 1000
            caused += self.feed(ev.AppendAudio(FRAME))
            for feed in of(wx.FeedListening, caused[-1:]):
                score = ev.SpeechScored(feed.listen_id, (probability,), FRAME_MS)
                caused += self.feed(score)
        return caused

    def speech(self, ms: int) -> list[fx.Effect]:
        """Hear somebody speak."""
        return self.hear(*[1.0] * (ms // FRAME_MS))

    def silence(self, ms: int) -> list[fx.Effect]:
        """Hear nobody speak."""
        return self.hear(*[0.0] * (ms // FRAME_MS))

    def recognize(self, text: str) -> list[fx.Effect]:
        """Let the newest recognition end with ``text``."""
        started = self.last(wx.StartRecognition)
        return self.feed(ev.RecognitionEnded(started.recognition_id, text))

    def reply_text(self, text: str) -> list[fx.Effect]:
        """Let the newest reply write."""
        return self.feed(ev.ReplyText(*self._reply(), text))

    def reply_word(self, text: str, start_ms: float, end_ms: float) -> list[fx.Effect]:
        """Let the newest reply tell when a word sounds."""
        return self.feed(ev.ReplyWords(*self._reply(), (ev.WordTime(text, start_ms, end_ms),)))

    def reply_audio(self, ms: int) -> list[fx.Effect]:
        """Let the newest reply speak."""
        return self.feed(ev.ReplyAudio(*self._reply(), b"\x02\x00" * (24 * ms)))

    def reply_call(
        self, name: str, arguments: str, *, index: int = 0, done: bool = True
    ) -> list[fx.Effect]:
        """Let the newest reply call a function, or go on with that."""
        return self.feed(ev.ReplyCall(*self._reply(), index, name, arguments, done))

    def reply_fitted(self, dropped: int) -> list[fx.Effect]:
        """Let the newest reply tell how many messages it had no room for."""
        return self.feed(ev.ReplyFitted(*self._reply(), dropped))

    def reply_end(
        self, outcome: ev.ReplyOutcome = ev.ReplyOutcome.COMPLETED, code: str | None = None
    ) -> list[fx.Effect]:
        """Let the newest reply end."""
        return self.feed(ev.ReplyEnded(*self._reply(), outcome, code, code and "It broke."))

    def written(self, ms: float) -> list[fx.Effect]:
        """Let audio of the newest reply go onto the wire."""
        return self.feed(ev.AudioWritten(self._reply()[0], ms))

    def report(
        self, played_ms: int, buffered_ms: int, underruns: int = 0, gap_ms: int = 0
    ) -> list[fx.Effect]:
        """Let the client report its playback of the newest reply."""
        response_id = self._reply()[0]
        said = ev.ReportPlayback(response_id, played_ms, buffered_ms, underruns, gap_ms)
        return self.feed(said)

    def last(self, kind: type[E]) -> E:
        """Return the newest effect of a kind."""
        return of(kind, self.effects)[-1]

    def count(self, kind: type[E]) -> int:
        """Return how many effects of a kind there were."""
        return len(of(kind, self.effects))

    def _reply(self) -> tuple[str, int]:
        started = self.last(wx.StartReply)
        return started.response_id, started.epoch

    def _drain(self) -> list[fx.Effect]:
        caused: list[fx.Effect] = []
        while (effect := self.session.next_effect()) is not None:
            caused.append(effect)
        self.effects += caused
        return caused


def of(kind: type[E], effects: list[fx.Effect]) -> list[E]:
    """Return the effects of a kind, in order."""
    return [effect for effect in effects if isinstance(effect, kind)]


def names(effects: list[fx.Effect]) -> list[str]:
    """Return the kinds of effects, in order.

    Left out are audio fed to voice activity, the hint that a turn may end, what is left of
    the limits, which is told with every response, and what is measured and told of playback.
    """
    quiet = (
        wx.FeedListening,
        wx.ExpectTurnEnd,
        wx.ReplyPlayed,
        fx.RateLimitsUpdated,
        fx.ResponseMeasured,
    )
    return [type(e).__name__ for e in effects if not isinstance(e, quiet)]
