"""Stages that a deployment does without: what needs them is refused."""

from __future__ import annotations

from ..chunks import (
    CallDelta,
    Fitted,
    PcmChunk,
    Segment,
    StageError,
    TextDelta,
    Transcript,
    TranscriptDelta,
)
from ..pipeline import RecognizeRequest, TranscribeRequest
from ..stage import StageFailure, StageStream
from ..text.request import GenerateRequest

NO_RECOGNIZER = StageError("recognizer_missing", "this server has no recognizer: it hears nothing")
NO_MODEL = StageError(
    "language_model_missing", "this server has no language model: it speaks what it is given"
)


class Absent:
    """A stage that there is none of."""

    async def start(self) -> None:
        """Nothing is to be started."""

    async def close(self) -> None:
        """Nothing is to be closed."""


class AbsentRecognizer(Absent):
    """No recognizer."""

    def open(
        self, request: RecognizeRequest
    ) -> StageStream[PcmChunk, TranscriptDelta | Transcript]:
        """Refuse.

        Raises:
            StageFailure: always (``recognizer_missing``).
        """
        raise StageFailure(NO_RECOGNIZER)

    def transcribe(self, request: TranscribeRequest) -> StageStream[PcmChunk, Segment]:
        """Refuse.

        Raises:
            StageFailure: always (``recognizer_missing``).
        """
        raise StageFailure(NO_RECOGNIZER)


class AbsentAr(Absent):
    """No language model."""

    def open(self, request: GenerateRequest) -> StageStream[None, TextDelta | CallDelta | Fitted]:
        """Refuse.

        Raises:
            StageFailure: always (``language_model_missing``).
        """
        raise StageFailure(NO_MODEL)
