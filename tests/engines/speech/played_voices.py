"""Voice models without files: what a test hands over is what is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from antiphon.engines.speech.voices.family import VoiceDecoder, VoiceModel, VoiceTalker
from antiphon.engines.speech.voices.offer import Offer
from antiphon.engines.speech.voices.shelf import Shelf


def model(
    *voices: str,
    language: str = "en",
    rate: int = 24_000,
    hop: int = 240,
    channels: int = 1,
    context: int = 0,
    slow: bool = False,
) -> VoiceModel:
    """The description of a played voice: frames of 10 ms unless told otherwise."""
    return VoiceModel(
        family="played",
        voices=voices,
        language=language,
        sample_rate=rate,
        hop=hop,
        channels=channels,
        context_frames=context,
        slow=slow,
    )


class PlayedOffer(Offer):
    """A model whose halves are made by what the test says, in the thread that loads."""

    def __init__(
        self,
        described: VoiceModel,
        *,
        talker: Callable[[], object] | None = None,
        decoder: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(f"model-{described.voices[0]}", described, Path())
        self.talker = talker
        self.decoder = decoder

    def load_talker(self, threads: int, variation: float) -> VoiceTalker:
        assert self.talker is not None
        return cast("VoiceTalker", self.talker())

    def load_decoder(self, threads: int) -> VoiceDecoder:
        assert self.decoder is not None
        return cast("VoiceDecoder", self.decoder())


class PlayedShelf(Shelf):
    """Offers what it is given, the first as the default."""

    def __init__(self, *offers: Offer) -> None:
        super().__init__("played", (), Path())
        self.given = list(offers)

    def _catalogued(self) -> list[Offer]:
        return self.given

    def take_away(self, offer: Offer) -> None:
        """Remove one as if it had been added."""
        self.given.remove(offer)
        self._drop(offer)
