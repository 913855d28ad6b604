"""A loudspeaker without sound: what would have been heard of the audio that arrived, and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..engines.pipeline import OUTPUT_RATE

BYTES_PER_SECOND = OUTPUT_RATE * 2


@dataclass(frozen=True, slots=True)
class Segment:
    """Audio of one response that plays without a break."""

    response_id: str
    starts_at: float
    pcm: bytes
    """s16le mono, :data:`~..engines.pipeline.OUTPUT_RATE`."""

    @property
    def ends_at(self) -> float:
        """When its last sample has sounded."""
        return self.starts_at + len(self.pcm) / BYTES_PER_SECOND

    def before(self, at: float) -> Segment:
        """The part that sounds before ``at``."""
        samples = round(max(0.0, at - self.starts_at) * OUTPUT_RATE)
        return Segment(self.response_id, self.starts_at, self.pcm[: 2 * samples])


class Playback:
    """Plays what is added at real-time speed, one piece after the other.

    Time is seconds on any one clock, given by the caller. Where a piece comes later than
    the one before it ends, there is a gap, as on a real loudspeaker.
    """

    def __init__(self) -> None:
        self._segments: list[Segment] = []

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All that was or will be heard, in order."""
        return tuple(self._segments)

    def add(self, response_id: str, pcm: bytes, now: float) -> None:
        """Queue audio that arrived at ``now``; it sounds as soon as what is ahead is over."""
        self._segments.append(Segment(response_id, max(now, self._ends_at), pcm))

    def drop(self, now: float) -> None:
        """Fall silent: what has not sounded by ``now`` never will."""
        heard = (segment.before(now) for segment in self._segments)
        self._segments = [segment for segment in heard if segment.pcm]

    def buffered_ms(self, now: float) -> float:
        """Audio that is still to be heard."""
        ahead = sum(
            segment.ends_at - max(now, segment.starts_at)
            for segment in self._segments
            if segment.ends_at > now
        )
        return 1000 * ahead

    def played_ms(self, response_id: str, now: float) -> float:
        """How much of a response was heard by ``now``."""
        played = sum(
            max(0.0, min(now, segment.ends_at) - segment.starts_at)
            for segment in self._of(response_id)
        )
        return 1000 * played

    def instant_of(self, response_id: str, ms: float) -> float | None:
        """When the position ``ms`` of a response is heard; ``None`` if it never is."""
        ahead = ms / 1000
        for segment in self._of(response_id):
            length = segment.ends_at - segment.starts_at
            if ahead <= length:
                return segment.starts_at + ahead
            ahead -= length
        return None

    def gaps(self, response_id: str) -> list[float]:
        """The breaks within a response, seconds each: the audio came too late."""
        segments = list(self._of(response_id))
        pairs = zip(segments, segments[1:], strict=False)
        return [after.starts_at - ahead.ends_at for ahead, after in pairs if _apart(ahead, after)]

    @property
    def _ends_at(self) -> float:
        return self._segments[-1].ends_at if self._segments else float("-inf")

    def _of(self, response_id: str) -> Iterator[Segment]:
        return (segment for segment in self._segments if segment.response_id == response_id)


def _apart(ahead: Segment, after: Segment) -> bool:
    return after.starts_at - ahead.ends_at > 0.5 / OUTPUT_RATE
