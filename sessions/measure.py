"""Where the time of a spoken turn went."""

from __future__ import annotations

from dataclasses import dataclass

from .effects import TurnMeasured
from .events import ReplyTimed


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


def _between_ms(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else round((end - begin) * 1000, 1)
