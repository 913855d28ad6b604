"""How far a client's listener is: playback modelled in real time or read from a device.

:class:`Player` does the arithmetic and is given the time; :class:`Listener` feeds it with
the events of a connection and reports to the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field

from .client import Event, RealtimeClient, audio_of

REPORT_SECONDS = 0.2
"""Between two reports on what is being played."""

TICK_SECONDS = 0.01
"""The end of a response is noticed so much later at most."""

RECENT = 16
"""Responses that are remembered; audio of older ones is forgotten."""

_SAMPLE_MS = 1 / 24
"""Playback has reached the end when less than a sample is left."""


@dataclass(frozen=True, slots=True)
class Report:
    """How far a response was played; the last two are counted from its start."""

    response_id: str
    played_ms: float
    buffered_ms: float
    """Audio of it that was received and not yet played."""

    underruns: int
    """How often there was nothing to play although more of it came."""

    gap_ms: float
    """How long that was in all."""


@dataclass(slots=True)
class _Sound:
    response_id: str
    spans: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """Where its audio lies in all that is played, ms; one that follows another is joined."""

    underruns: int = 0
    gap_ms: float = 0.0
    ended: bool = False
    cut: bool = False
    told: bool = False
    """Whether the last report on it was made."""

    @property
    def total_ms(self) -> float:
        return sum(end - start for start, end in self.spans)

    def played_ms(self, position: float) -> float:
        return sum(max(0.0, min(end, position) - start) for start, end in self.spans)

    def add(self, start: float, end: float) -> None:
        if self.spans and self.spans[-1][1] == start:
            start = self.spans.pop()[0]
        self.spans.append((start, end))

    def clip(self, position: float) -> None:
        self.spans = [(start, min(end, position)) for start, end in self.spans if start < position]


class Player:
    """Plays the audio of responses one after the other, as a loudspeaker does.

    Time is seconds on any one clock, given by the caller and never going back. Audio that
    comes after what is ahead of it was played, within a response, is an underrun.
    """

    def __init__(
        self, *, cushion_ms: float = 0.0, position_ms: Callable[[], float] | None = None
    ) -> None:
        """Begin in silence.

        Args:
            cushion_ms: How long the first audio of a response is held back where nothing
                else is playing, so that what comes a little late is no underrun.
            position_ms: For a real device: returns how much of all that was added has
                sounded. ``None`` plays in real time.
        """
        self._cushion_s = cushion_ms / 1000
        self._device = position_ms
        self._sounds: dict[str, _Sound] = {}
        self._added = 0.0
        """All that was added and not dropped, ms."""

        self._heard = 0.0
        self._ends_at = float("-inf")
        """When all that was added will have sounded."""

    def add(self, response_id: str, ms: float, now: float) -> bool:
        """Queue audio that arrived at ``now``; false where its response was cut before."""
        sound = self._sounds.get(response_id) or self._begin(response_id)
        if sound.cut:
            return False
        position = self._position(now)
        if self._added - position < _SAMPLE_MS:
            self._from_silence(sound, now)
        sound.add(self._added, self._added + ms)
        self._added += ms
        self._ends_at = max(self._ends_at, now) + ms / 1000
        self._observe(now)
        return True

    def end(self, response_id: str) -> None:
        """Note that no more audio of a response will come."""
        if (sound := self._sounds.get(response_id)) is not None:
            sound.ended = True

    def cut(self, now: float, response_id: str | None = None) -> bool:
        """Stop playing everything, or one response: what has not sounded by ``now`` never will.

        A response that is followed by another is not dropped, only not added to. Returns
        whether anything was dropped.
        """
        position = self._position(now)
        going = [each for each in self._sounds.values() if not self._over(each, position)]
        stopped = [each for each in going if response_id in (None, each.response_id)]
        for sound in stopped:
            sound.cut = True
        last = going[-1] if going else None
        if response_id is not None and (last is None or last.response_id != response_id):
            return False
        kept = max((s.spans[-1][1] for s in going if not s.cut and s.spans), default=position)
        before, self._added = self._added, min(self._added, max(position, kept))
        for sound in stopped:
            sound.clip(self._added)
        self._ends_at = now + (self._added - position) / 1000
        return self._added < before

    def played_ms(self, response_id: str, now: float) -> float:
        """How much of a response was heard by ``now``."""
        sound = self._sounds.get(response_id)
        return 0.0 if sound is None else sound.played_ms(self._position(now))

    def buffered_ms(self, now: float) -> float:
        """Audio that was added and is still to be heard."""
        return self._added - self._position(now)

    def report(self, response_id: str, now: float) -> Report | None:
        """Return how far a response is; ``None`` if nothing of it was ever added."""
        sound = self._sounds.get(response_id)
        return None if sound is None else self._report(sound, self._position(now))

    def going(self, now: float) -> list[Report]:
        """Return reports on what is playing, or will go on to."""
        position = self._position(now)
        sounds = [each for each in self._sounds.values() if not self._over(each, position)]
        return [self._report(each, position) for each in sounds]

    def finished(self, now: float) -> list[Report]:
        """Return the last report on each response that is over; each is returned once."""
        position = self._position(now)
        over = [
            each for each in self._sounds.values() if not each.told and self._over(each, position)
        ]
        for sound in over:
            sound.told = True
        return [self._report(each, position) for each in over]

    def _begin(self, response_id: str) -> _Sound:
        sound = self._sounds[response_id] = _Sound(response_id)
        while len(self._sounds) > RECENT:
            del self._sounds[next(iter(self._sounds))]
        return sound

    def _from_silence(self, sound: _Sound, now: float) -> None:
        late_ms = (now - self._ends_at) * 1000
        if sound.spans:
            if late_ms >= _SAMPLE_MS:
                sound.underruns += 1
                sound.gap_ms += late_ms
        else:
            self._ends_at = now + (self._cushion_s if self._device is None else 0.0)

    def _position(self, now: float) -> float:
        """Return how much of all that was added has sounded; never goes back."""
        if self._device is None:
            there = self._added - max(0.0, self._ends_at - now) * 1000
        else:
            there = self._device()
        self._heard = min(self._added, max(self._heard, there))
        self._observe(now)
        return self._heard

    def _observe(self, now: float) -> None:
        if self._device is not None and self._added - self._heard >= _SAMPLE_MS:
            # It may have paused; from here on it is expected to go on in real time.
            self._ends_at = now + (self._added - self._heard) / 1000

    def _over(self, sound: _Sound, position: float) -> bool:
        if sound.cut:
            return True
        left = sound.total_ms - sound.played_ms(position)
        return sound.ended and left < _SAMPLE_MS

    def _report(self, sound: _Sound, position: float) -> Report:
        played = sound.played_ms(position)
        left = max(0.0, sound.total_ms - played)
        return Report(sound.response_id, played, left, sound.underruns, sound.gap_ms)


class Listener:
    """Plays the audio of a connection's events, and reports how far it is.

    The reports are sent by :meth:`run`: every 200 ms while something plays, and once when a
    response is over or cut. It needs a connection with extensions.
    """

    def __init__(
        self,
        client: RealtimeClient,
        player: Player | None = None,
        *,
        clock: Callable[[], float] | None = None,
        stops_on_speech: bool = True,
        bytes_per_ms: int = 48,
        on_cut: Callable[[], None] | None = None,
    ) -> None:
        """Join a player to a connection.

        Args:
            client: Whom to report through.
            player: What plays; one that plays in real time by default.
            clock: Seconds; the running loop's by default.
            stops_on_speech: Whether playback is cut as soon as the person speaks; switch it
                off for sessions with ``interrupt_response: false``.
            bytes_per_ms: Of the audio of deltas: 8 for G.711 in JSON.
            on_cut: Is called when playback was cut: a real device has to drop what it holds.
        """
        self.player = Player() if player is None else player
        self._client = client
        self._clock = clock or asyncio.get_running_loop().time
        self._stops = stops_on_speech
        self._bytes_per_ms = bytes_per_ms
        self._on_cut = on_cut
        self._changed = asyncio.Event()

    def take(self, event: Event) -> None:
        """Take in any event of the connection, as soon as it is received."""
        now = self._clock()
        match event["type"]:
            case "response.output_audio.delta":
                ms = len(audio_of(event)) / self._bytes_per_ms
                self.player.add(event["response_id"], ms, now)
            case "response.output_audio.done":
                self.player.end(event["response_id"])
            case "input_audio_buffer.speech_started" if self._stops:
                self._cut(now)
            case "response.done":
                response = event["response"]
                if response["status"] == "cancelled":
                    self._cut(now, response["id"])
                else:
                    self.player.end(response["id"])
            case _:
                return
        self._changed.set()

    async def run(self) -> None:
        """Report until cancelled.

        Raises:
            websockets.exceptions.ConnectionClosed: nobody can be reported to any more.
        """
        next_at = float("-inf")
        while True:
            self._changed.clear()
            now = self._clock()
            reports = self.player.finished(now)
            going = self.player.going(now)
            if now >= next_at:
                reports += going
                next_at = now + REPORT_SECONDS
            for report in reports:
                await self._client.send("antiphon.playback.report", **asdict(report))
            await self._wait(next_at if going else None)

    def _cut(self, now: float, response_id: str | None = None) -> None:
        if self.player.cut(now, response_id) and self._on_cut is not None:
            self._on_cut()

    async def _wait(self, next_at: float | None) -> None:
        """Return when something has changed, is over, or is to be reported; not too often."""
        if next_at is None:
            await self._changed.wait()
            return
        now = self._clock()
        left = min(next_at - now, self.player.buffered_ms(now) / 1000 or REPORT_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(left, TICK_SECONDS)):
                await self._changed.wait()
