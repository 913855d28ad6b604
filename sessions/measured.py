"""What is told of how fast and how evenly a session answered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMeasured:
    """Extension: where the time of a spoken turn went, each in ms.

    The parts follow each other and sum to the total: work that was done ahead of time
    costs its stage nothing.
    """

    response_id: str
    endpointing_ms: float
    recognition_ms: float
    first_token_ms: float
    first_clause_ms: float
    talker_ms: float
    code2wav_ms: float
    total_ms: float
    clause_to_audio_ms: float | None
    """From the first clause known to its first audio made, also where that was ahead of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseMeasured:
    """Extension: how a spoken response reached its listener, once it is over for them.

    What was heard is what the client reported, or else the estimate.
    """

    response_id: str
    ttfa_ms: float | None
    """To the first audio written, from the end of speech, or from the creation of the
    response where no turn preceded it; ``None`` where none was written."""

    chunks_ms: tuple[float, ...]
    """Audio of each chunk as it was made, of the first 64."""

    generated_ms: float
    sent_ms: float
    played_ms: float
    unheard_ms: float
    """Generated and never heard."""

    lead_min_ms: float
    """The least that the listener had left when more was written; all of it where that came
    at once."""

    lead_max_ms: float
    """The most that the listener had to play."""

    underruns: int
    """How often they had nothing to play although more was to come."""

    gap_ms: float
    """How long that was in all."""

    continuous: bool
    """Whether that was less than 100 ms."""

    reported: bool
    """Whether the client reported its playback."""

    interrupted: bool
    """Whether it was cut before its end was heard."""

    waited_ms: float = 0.0
    """How long it was held back because the stages had no time for one more."""
