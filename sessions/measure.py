"""Where the time of a spoken turn went, and how evenly its answer reached the listener."""

from __future__ import annotations

from dataclasses import dataclass

from .effects import ResponseMeasured, TurnMeasured
from .events import ReplyTimed
from .playback import TAIL_MS, Spoken

CHUNKS_TOLD = 64
"""Chunks of a response whose lengths are told, the first ones."""

CONTINUOUS_MS = 100
"""Gaps below this in all leave a response continuous."""


@dataclass(frozen=True, slots=True)
class TurnClock:
    """Instants of a spoken turn, seconds on the session's clock."""

    speech_end_at: float
    """The last of the speech had arrived."""

    ended_at: float
    """The turn was found to be over."""

    recognized_at: float | None = None


def measure_turn(
    response_id: str, clock: TurnClock, timed: ReplyTimed, written_at: float
) -> TurnMeasured:
    """Split the time from the end of speech to the first audio written."""
    parts: list[float] = []
    reached = clock.speech_end_at
    for instant in (
        clock.ended_at,
        clock.recognized_at,
        timed.first_token_at,
        timed.first_clause_at,
        timed.talker_at,
        # The last part runs on to the wire, so that the parts leave nothing out.
        written_at,
    ):
        ahead = max(0.0, (reached if instant is None else instant) - reached)
        parts.append(round(ahead * 1000, 1))
        reached += ahead
    return TurnMeasured(
        response_id=response_id,
        endpointing_ms=parts[0],
        recognition_ms=parts[1],
        first_token_ms=parts[2],
        first_clause_ms=parts[3],
        talker_ms=parts[4],
        code2wav_ms=parts[5],
        clause_to_audio_ms=_between_ms(timed.first_clause_at, timed.code2wav_at),
        total_ms=round(max(0.0, written_at - clock.speech_end_at) * 1000, 1),
    )


class Meter:
    """What is noted of a spoken response while it is made and written."""

    def __init__(self) -> None:
        self.made_at = 0.0
        """When its first audio was made; meaningless while there is none."""

        self.chunks_ms: list[float] = []
        """Of the first chunks."""

        self.lead_min_ms: float | None = None
        self.lead_max_ms = 0.0

    def made(self, ms: float, now: float) -> None:
        """Note a chunk of audio."""
        if not self.chunks_ms:
            self.made_at = now
        if len(self.chunks_ms) < CHUNKS_TOLD:
            self.chunks_ms.append(round(ms, 1))

    def wrote(self, before_ms: float | None, after_ms: float) -> None:
        """Note what the listener had to play before and after audio was written.

        ``before_ms`` is ``None`` at the first.
        """
        if before_ms is not None:
            least_ms = before_ms if self.lead_min_ms is None else self.lead_min_ms
            self.lead_min_ms = min(least_ms, before_ms)
        self.lead_max_ms = max(self.lead_max_ms, after_ms)


def measure_response(
    response_id: str,
    asked_at: float,
    meter: Meter,
    spoken: Spoken,
    now: float,
    *,
    timed: ReplyTimed | None = None,
) -> ResponseMeasured:
    """Sum up a spoken response that is over for its listener.

    ``asked_at`` is when the person had spoken, or the response was asked for; ``timed``
    when it passed the stages, as far as that is known.
    """
    ledger = spoken.ledger
    generated_ms = round(ledger.generated_ms, 1)
    heard_ms = ledger.seems_played_ms(now)
    cut = ledger.stopped or spoken.told_ms is not None
    if spoken.told_ms is not None:
        heard_ms = min(heard_ms, spoken.told_ms)
    elif not cut and ledger.sent_ms - heard_ms <= TAIL_MS:
        heard_ms = ledger.sent_ms
    played_ms = min(generated_ms, round(heard_ms, 1))
    first_at = ledger.first_sent_at
    lead_min_ms = ledger.sent_ms if meter.lead_min_ms is None else meter.lead_min_ms
    return ResponseMeasured(
        response_id=response_id,
        ttfa_ms=None if first_at is None else round(max(0.0, first_at - asked_at) * 1000, 1),
        chunks_ms=tuple(meter.chunks_ms),
        generated_ms=generated_ms,
        sent_ms=round(ledger.sent_ms, 1),
        played_ms=played_ms,
        unheard_ms=round(generated_ms - played_ms, 1),
        lead_min_ms=round(lead_min_ms, 1),
        lead_max_ms=round(meter.lead_max_ms, 1),
        underruns=ledger.underruns,
        gap_ms=round(ledger.gap_ms, 1),
        continuous=ledger.gap_ms < CONTINUOUS_MS,
        reported=ledger.reported is not None,
        interrupted=cut and generated_ms - played_ms > TAIL_MS,
        waited_ms=(_between_ms(timed.first_clause_at, timed.admitted_at) or 0.0) if timed else 0.0,
    )


def _between_ms(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else round((end - begin) * 1000, 1)
