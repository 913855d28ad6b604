"""From sent to heard: the ledgers of recent responses, and what is cut from the record."""

from __future__ import annotations

from .conversation import BYTES_PER_MS
from .effects import ItemTruncated
from .errors import Refusal
from .events import ReportPlayback, TruncateItem
from .items import Item
from .playback import Spoken
from .response import Response
from .state import SessionState

SPOKEN_KEPT = 256
"""Spoken items whose word times are kept for a later truncation."""

RECENT = 16
"""Responses whose audio may still be on its way."""

TRUNCATE_TOLERANCE_MS = 100
"""Clients count what they played a little past what was sent; such a cut is clamped."""


class Delivery:
    """Knows what was heard of every spoken response."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._spoken: dict[str, Spoken] = {}
        self._recent: dict[str, Response] = {}

    def follow(self, response: Response) -> None:
        """Keep the ledger of a response from now on."""
        self._recent[response.id] = response
        while len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]

    def remember(self, response: Response) -> None:
        """Keep the word times of a response that has begun to speak."""
        item_id = response.message_id
        if item_id is not None and item_id not in self._spoken:
            self._spoken[item_id] = response.spoken
            while len(self._spoken) > SPOKEN_KEPT:
                del self._spoken[next(iter(self._spoken))]

    def written(self, response_id: str, ms: float, now: float) -> Response | None:
        """Note audio on the wire; return the response if this was its first."""
        response = self._recent.get(response_id)
        if response is None:
            return None
        first = response.spoken.ledger.sent_ms == 0
        response.spoken.ledger.send(ms, now)
        return response if first else None

    def report(self, event: ReportPlayback, now: float) -> None:
        """Take in how far a response was played; unknown responses are ignored.

        A report and the end of what it reports on may cross on the wire.
        """
        if (response := self._recent.get(event.response_id)) is not None:
            response.spoken.ledger.report(event.played_ms, now)

    def cut(self, response: Response, now: float) -> None:
        """Cut a response that is being stopped to what was heard of it."""
        if response.message_id is not None and response.audible:
            self._cut(response.message_id, response.spoken, response.spoken.ledger.stop(now))

    def heard_at(self, ended_at: float) -> float:
        """Return when all that was said will have been heard; the last ended then."""
        ends = [r.spoken.ledger.heard_at(r.ended_at) for r in self._recent.values() if r.done]
        return max([ended_at, *ends])

    def cut_played(self, now: float) -> list[Response]:
        """Cut the responses that are made but still being played; return them."""
        played = [r for r in self._recent.values() if r.done and r.spoken.ledger.playing(now)]
        for response in played:
            self.cut(response, now)
        return played

    def truncate(self, event: TruncateItem) -> None:
        """Keep of a spoken item what the client says was heard.

        Raises:
            Refusal: it is no spoken item, or shorter than it is said to have been heard.
        """
        spoken = self._truncatable(event)
        length_ms = spoken.length_ms
        if not 0 <= event.audio_end_ms <= length_ms + TRUNCATE_TOLERANCE_MS:
            raise Refusal(
                "invalid_value",
                f"Audio content of {int(length_ms)}ms is already shorter than "
                f"{event.audio_end_ms}ms",
                "audio_end_ms",
            )
        spoken.told_ms = min(event.audio_end_ms, length_ms)
        self._cut(event.item_id, spoken, event.audio_end_ms)
        self._state.conversation.cut_audio(event.item_id, event.audio_end_ms)
        self._state.emit(ItemTruncated(event.item_id, event.content_index, event.audio_end_ms))

    def forget(self, item_id: str) -> None:
        """Forget what is known of an item that is being deleted."""
        self._spoken.pop(item_id, None)

    def _truncatable(self, event: TruncateItem) -> Spoken:
        item = self._state.conversation.get(event.item_id)
        if item is None:
            raise Refusal(
                "item_truncate_invalid_item_id",
                f"Error truncating item: the item with id '{event.item_id}' does not exist.",
                "item_id",
            )
        if not item.spoken:
            raise Refusal(
                "unsupported_content_type",
                "Only model output audio messages can be truncated.",
                "item_id",
            )
        if event.content_index != 0:
            raise Refusal("invalid_value", "content_index must be 0.", "content_index")
        return self._spoken.get(item.id) or self._restored(item)

    def _restored(self, item: Item) -> Spoken:
        """Return what is known of speech that a client made, or of long ago."""
        spoken = Spoken()
        spoken.text = item.text
        spoken.ledger.generate(len(self._state.conversation.audio(item.id)) / BYTES_PER_MS)
        spoken.ledger.send(spoken.ledger.generated_ms, 0.0)
        return spoken

    def _cut(self, item_id: str, spoken: Spoken, heard_ms: float) -> None:
        spoken.cut_ms = min(heard_ms, spoken.length_ms)
        item = self._state.conversation.get(item_id)
        if item is not None:
            self._state.conversation.replace(item.with_text(spoken.heard))
