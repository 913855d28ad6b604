"""What is counted of responses and turns while they pass: histograms and sums, no exposition."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from ..realtime.connection import Measured
from ..sessions.effects import ResponseDone, ResponseMeasured, ResponseStatus, TurnMeasured

DELAYS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Bounds of delays, seconds: finest where a conversation is judged."""

CHUNKS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.0)
"""Of the audio of one chunk, seconds."""

LEADS = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 10.0)
"""Of what a listener has left, seconds."""

LAGS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Of the lateness of the event loop, seconds."""

PARTS = (
    "endpointing",
    "recognition",
    "first_token",
    "first_clause",
    "talker",
    "code2wav",
    "total",
    "clause_to_audio",
)
"""Of a spoken turn, as :class:`~..sessions.effects.TurnMeasured` names them."""


class Histogram:
    """How many values were how large."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """``bounds``: upper ones, ascending; what is larger has a place of its own."""
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self.total = 0.0
        """Sum of all values."""

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[float, int]]:
        """Each bound, last infinity, with the number of values up to it."""
        passed, found = 0, list[tuple[float, int]]()
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            passed += count
            found.append((bound, passed))
        return found


@dataclass(slots=True)
class Listening:
    """How continuous the audio of spoken responses was."""

    responses: int = 0
    continuous: int = 0
    """With gaps of less than 100 ms in all."""

    underruns: int = 0
    gap_seconds: float = 0.0


class Measures:
    """Counts every response and turn of the server since its start."""

    def __init__(self) -> None:
        self.outcomes = {
            each.value: 0 for each in ResponseStatus if each is not ResponseStatus.IN_PROGRESS
        }
        self.first_audio = Histogram(DELAYS)
        self.parts = {part: Histogram(DELAYS) for part in PARTS}
        self.chunks = Histogram(CHUNKS)
        self.lead_min = Histogram(LEADS)
        self.lead_max = Histogram(LEADS)
        self.listening = {"report": Listening(), "estimate": Listening()}
        """By what is known of the playback."""

        self.seconds = {"generated": 0.0, "sent": 0.0, "played": 0.0}
        self.unheard = {"interrupted": 0.0, "ended": 0.0}
        """Seconds generated and never heard, by how the response ended."""

    def note(self, measured: Measured) -> None:
        """Count something that was measured, or the end of a response."""
        match measured:
            case ResponseDone(response=response):
                self.outcomes[response.status.value] += 1
            case TurnMeasured():
                self._note_turn(measured)
            case ResponseMeasured():
                self._note_response(measured)

    def _note_turn(self, turn: TurnMeasured) -> None:
        for part, histogram in self.parts.items():
            ms: float | None = getattr(turn, f"{part}_ms")
            if ms is not None:
                histogram.observe(ms / 1000)

    def _note_response(self, response: ResponseMeasured) -> None:
        if response.ttfa_ms is not None:
            self.first_audio.observe(response.ttfa_ms / 1000)
        for ms in response.chunks_ms:
            self.chunks.observe(ms / 1000)
        self.lead_min.observe(response.lead_min_ms / 1000)
        self.lead_max.observe(response.lead_max_ms / 1000)
        heard = self.listening["report" if response.reported else "estimate"]
        heard.responses += 1
        heard.continuous += response.continuous
        heard.underruns += response.underruns
        heard.gap_seconds += response.gap_ms / 1000
        self.seconds["generated"] += response.generated_ms / 1000
        self.seconds["sent"] += response.sent_ms / 1000
        self.seconds["played"] += response.played_ms / 1000
        ended = "interrupted" if response.interrupted else "ended"
        self.unheard[ended] += response.unheard_ms / 1000
