"""From made to heard: what is known of recent responses, told to their stages, and measured.

And what is cut from the record because it was not heard.
"""

from __future__ import annotations

from .conversation import BYTES_PER_MS
from .effects import ItemTruncated
from .errors import Refusal
from .events import ReplyAudio, ReportPlayback, TruncateItem
from .items import Item
from .measure import measure_response
from .pacing import News
from .playback import Spoken
from .response import Response
from .state import Deadline, DeadlineReason, SessionState
from .work_effects import ReplyPlayed

SPOKEN_KEPT = 256
"""Spoken items whose word times are kept for a later truncation."""

RECENT = 16
"""Responses whose audio may still be on its way: of the conversation, and as many beside it."""

TRUNCATE_TOLERANCE_MS = 100
"""Clients count what they played a little past what was sent; such a cut is clamped."""


class Delivery:
    """Knows what was heard of every spoken response."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._spoken: dict[str, Spoken] = {}
        self._recent: dict[str, Response] = {}
        self._beside: dict[str, Response] = {}
        """As many that are out of band: nothing of them is cut from the record."""

        self._unmeasured: dict[str, Response] = {}
        """Those that are spoken and not over for their listener."""

    def follow(self, response: Response, now: float) -> None:
        """Keep the ledger of a response from now on; audio of it may have been made."""
        kept = self._beside if response.plan.out_of_band else self._recent
        kept[response.id] = response
        if response.meter.chunks_ms:
            self._unmeasured[response.id] = response
        while len(kept) > RECENT:
            # Fewer can run at once: one has ended.
            oldest = next(each for each in kept.values() if each.done)
            self._measure(oldest, now)
            del kept[oldest.id]

    def remember(self, response: Response) -> None:
        """Keep the word times of a response that has begun to speak."""
        item_id = response.message_id
        if item_id is not None and item_id not in self._spoken:
            self._spoken[item_id] = response.spoken
            while len(self._spoken) > SPOKEN_KEPT:
                del self._spoken[next(iter(self._spoken))]

    def made(self, response: Response, event: ReplyAudio, now: float) -> None:
        """Note audio that was just made of a response, whether it is told of or not yet."""
        ms = len(event.pcm) / BYTES_PER_MS
        if not response.audible or ms <= 0:
            return
        response.meter.made(ms, now)
        news = response.pace.made(ms, now)
        if response.announced:
            self._unmeasured[response.id] = response
        else:
            news = response.pace.hide(now)
        self._inform(response, news)

    def written(self, response_id: str, ms: float, now: float) -> Response | None:
        """Note audio on the wire; return the response if this was its first."""
        response = self._find(response_id)
        if response is None:
            return None
        ledger = response.spoken.ledger
        before_ms = ledger.sent_ms
        left_ms = before_ms - ledger.seems_played_ms(now)
        ledger.send(ms, now)
        if ledger.sent_ms == before_ms:
            return None
        left_now_ms = left_ms + ledger.sent_ms - before_ms
        response.meter.wrote(left_ms if before_ms > 0 else None, left_now_ms)
        self._inform(response, response.pace.wrote(now))
        return response if before_ms == 0 else None

    def report(self, event: ReportPlayback, now: float) -> None:
        """Take in how far a response was played; unknown responses are ignored.

        A report and the end of what it reports on may cross on the wire.
        """
        response = self._find(event.response_id)
        if response is not None and response.spoken.ledger.report(event, now):
            self._inform(response, response.pace.reported(now))

    def cut(self, response: Response, now: float) -> None:
        """Cut a response that is being stopped to what was heard of it."""
        if response.message_id is not None and response.audible:
            self._cut(response.message_id, response.spoken, response.spoken.ledger.stop(now))
        self._measure(response, now)

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

    # Time and the end.

    @property
    def deadline(self) -> Deadline | None:
        """When the first of those that are made will have been heard."""
        first: float | None = None
        for response in self._unmeasured.values():
            if response.done and (first is None or self._over_at(response) < first):
                first = self._over_at(response)
        return None if first is None else Deadline(first, DeadlineReason.MEASURE)

    def handle_deadline(self, now: float) -> None:
        """Measure those that were heard to their end."""
        for response in list(self._unmeasured.values()):
            if response.done and now >= self._over_at(response):
                self._measure(response, now)

    def close(self, now: float) -> None:
        """Measure what is left: nothing more of it will be heard."""
        for response in list(self._unmeasured.values()):
            if response.spoken.ledger.playing(now):
                response.spoken.ledger.stop(now)
            self._measure(response, now)

    # What a client cuts.

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

    def _find(self, response_id: str) -> Response | None:
        return self._recent.get(response_id) or self._beside.get(response_id)

    def _inform(self, response: Response, news: News | None) -> None:
        if news is not None and response.works:
            self._state.emit(ReplyPlayed(response.id, response.epoch, *news))

    def _over_at(self, response: Response) -> float:
        ledger = response.spoken.ledger
        waited_at = ledger.moved_at(response.ended_at) + self._state.can.max_paused_s
        return min(ledger.over_at(), waited_at)

    def _measure(self, response: Response, now: float) -> None:
        if self._unmeasured.pop(response.id, None) is not None:
            measured = measure_response(
                response.id,
                response.asked_at,
                response.meter,
                response.spoken,
                now,
                timed=response.timed,
            )
            self._state.emit(measured)

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
