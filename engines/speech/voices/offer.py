"""A voice model that can be loaded, and the use that one request makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...pipeline import VoiceCard
from .family import VoiceDecoder, VoiceModel, VoiceTalker, family_of


@dataclass(slots=True, eq=False, weakref_slot=True)
class Offer:
    """A voice model that can be loaded."""

    name: str
    """Of the model."""

    model: VoiceModel
    folder: Path
    created_at: int | None = None
    """Unix time of when it was added; ``None`` for the deployment's."""

    gone: bool = False
    """Whether it was taken off the shelf; who speaks with it then goes on."""

    def load_talker(self, threads: int, variation: float) -> VoiceTalker:
        """As :meth:`.family.Family.load_talker`."""
        return family_of(self.model).load_talker(self.folder, threads, variation)

    def load_decoder(self, threads: int) -> VoiceDecoder:
        """As :meth:`.family.Family.load_decoder`."""
        return family_of(self.model).load_decoder(self.folder, threads)

    @property
    def cards(self) -> tuple[VoiceCard, ...]:
        """What is known of each of its voices."""
        model = self.model
        return tuple(
            VoiceCard(
                name=voice,
                language=model.language,
                summary=model.summary,
                model=self.name,
                created_at=self.created_at,
            )
            for voice in model.voices
        )


@dataclass(slots=True, eq=False)
class VoiceUse:
    """The voice of one request, whose streams share this: it stays though it be removed."""

    offer: Offer | None = None
    halves: list[object] = field(default_factory=list[object])

    def keep(self, half: object) -> None:
        """Keep something loaded as long as this is kept."""
        if half not in self.halves:
            self.halves.append(half)
