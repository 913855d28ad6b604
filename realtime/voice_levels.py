"""How loud each voice is by itself: measured when somebody first wants to know, then kept."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from itertools import count

from ..codecs.loudness import UNKNOWN_LEVEL, VoiceLevel, measure_voice
from ..engines.chunks import End, EndReason, PcmChunk, StageError
from ..engines.pipeline import Pipeline, SpeakRequest, VoiceCard
from ..engines.stage import StageFailure

logger = logging.getLogger(__name__)

SAMPLES = {
    "ja": "朝の野原は霧の中にありますが、お昼には日が差してきます。少し歩くのは、体にいいことです。"
}
"""In other languages than English, by which all else is measured too."""

SAMPLE = (
    "In the morning the fields lie under fog, and by noon the sun has found its way through. "
    "A short walk does everybody good."
)
"""What a voice says to be measured: about six seconds."""

SAMPLE_BYTES = 20 * 48_000
"""Of speech that is listened to, at most: 20 s."""

SECONDS = 30.0
"""For measuring a voice; then the speech that waits for it goes on without."""

_SPOKEN = (EndReason.COMPLETED, EndReason.LENGTH)

KEPT = 64
"""Voices whose level is kept; beyond that the first that was measured is measured again."""


class VoiceLevels:
    """The levels of a pipeline's voices. One is measured at a time."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        # A voice that was removed and added again is another one: its card says when.
        self._known: OrderedDict[VoiceCard, VoiceLevel] = OrderedDict()
        self._one = asyncio.Lock()
        self._numbers = count(1)

    async def of(self, voice: str | None) -> VoiceLevel:
        """Return the level of a voice, ``None`` for the default one.

        The first time it speaks a few sentences for that. One that can't be measured now has
        :data:`~..codecs.loudness.UNKNOWN_LEVEL`, and is tried again the next time.
        """
        card = self._card(voice)
        if card is None:
            return UNKNOWN_LEVEL
        if card not in self._known:
            async with self._one:
                if card not in self._known:
                    return await self._measure(card)
        return self._known[card]

    def _card(self, voice: str | None) -> VoiceCard | None:
        cards = self._pipeline.voice_cards
        name = cards[0].name if voice is None and cards else voice
        return next((card for card in cards if card.name == name), None)

    async def _measure(self, card: VoiceCard) -> VoiceLevel:
        try:
            async with asyncio.timeout(SECONDS):
                pcm = await self._say(card)
        except (StageFailure, TimeoutError) as error:
            logger.warning("a voice could not be measured: %s", type(error).__name__)
            return UNKNOWN_LEVEL
        level = await asyncio.to_thread(measure_voice, pcm)
        while len(self._known) >= KEPT:
            self._known.popitem(last=False)
        self._known[card] = level
        return level

    async def _say(self, card: VoiceCard) -> bytes:
        request_id = f"voice-level-{next(self._numbers)}"
        speech = self._pipeline.speak(SpeakRequest(request_id=request_id, voice=card.name))
        pcm = bytearray()
        try:
            await speech.send(SAMPLES.get(card.language, SAMPLE))
            await speech.end()
            async for item in speech:
                if isinstance(item, PcmChunk):
                    pcm += item.pcm[: SAMPLE_BYTES - len(pcm)]
                elif isinstance(item, End) and item.reason not in _SPOKEN:
                    raise StageFailure(item.error or StageError("stage_stopped", "It stopped."))
                if len(pcm) >= SAMPLE_BYTES:
                    break
        finally:
            speech.cancel()
        return bytes(pcm)
