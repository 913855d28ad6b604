"""The voices of a codec language model: those that it knows, and those taken from recordings."""

from __future__ import annotations

from dataclasses import dataclass

from ...chunks import StageError
from ...pipeline import VoiceCard
from ...stage import StageFailure
from ..families.family import Family, PromptRequest, Reader, Reference
from ..voices.shelf import unknown
from .references import References

TRIED = "Hello."
"""Said to find out whether a model speaks without a voice being named."""


@dataclass(frozen=True, slots=True, eq=False)
class Speaking:
    """A voice as one request has it: it stays though it be removed meanwhile."""

    name: str
    language: str
    voice: str | None = None
    """As :attr:`..families.family.PromptRequest.voice`."""

    reference: Reference | None = None

    def asks(self, text: str) -> PromptRequest:
        """How to ask for a text with it."""
        return PromptRequest(
            text=text, voice=self.voice, reference=self.reference, language=self.language
        )


class Voicing:
    """Finds voices by name."""

    def __init__(self, family: Family, references: References, language: str) -> None:
        """``language``: of the model's own voices."""
        self._family = family
        self._references = references
        self._language = language
        self._own: tuple[str, ...] = family.voices

    def bind(self, reader: Reader) -> None:
        """Find out whether the model speaks where no voice is named; encodes a text, so it is
        for a thread."""
        if self._own:
            return
        try:
            reader.prompt(PromptRequest(text=TRIED, language=self._language))
        except ValueError:
            return
        self._own = (self._family.name,)

    @property
    def names(self) -> tuple[str, ...]:
        """Of all voices, the default one first."""
        return tuple(card.name for card in self.cards)

    @property
    def cards(self) -> tuple[VoiceCard, ...]:
        """What is known of each, in the same order."""
        own = (
            VoiceCard(name=name, language=self._language, model=self._family.name)
            for name in self._own
        )
        return (*own, *self._references.cards)

    def find(self, name: str | None) -> Speaking:
        """A voice; ``None`` for the default one.

        Raises:
            StageFailure: there is none of this name, or none at all (``voice_unknown``).
        """
        if not (cards := self.cards):
            what = "there is no voice yet: add a recording of one at POST /v1/audio/voices"
            raise StageFailure(StageError("voice_unknown", what))
        card = next((each for each in cards if name in (None, each.name)), None)
        if card is None:
            raise unknown(self.names)
        if card.name in self._own:
            voice = card.name if self._family.voices else None
            return Speaking(card.name, card.language, voice=voice)
        return Speaking(card.name, card.language, reference=self._references.find(card.name))
