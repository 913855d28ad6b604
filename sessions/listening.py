"""The voice activity stream, and the detector that judges what it says."""

from __future__ import annotations

from .effects import ErrorRaised
from .errors import ErrorInfo
from .settings import TurnDetection
from .state import SessionState
from .turns import TurnDetector
from .work_effects import FeedListening, StartListening, StopListening

LISTENING_RETRIES = 3
"""How often a failed voice activity stream is opened again in one session."""


class Listening:
    """Open while there is turn detection; each stream has an id of its own."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._id = 0
        self._failures = 0
        self.detector: TurnDetector | None = None
        """``None`` while nobody tells turns: push-to-talk, or voice activity has failed."""

    def start(self, settings: TurnDetection, position_ms: int) -> None:
        """Open a stream; audio from ``position_ms`` on will be fed."""
        self._id += 1
        self.detector = TurnDetector(settings, self._state.can.speculate_ms, position_ms)
        self._state.emit(StartListening(self._id))

    def stop(self) -> None:
        """End the stream, if one is open."""
        if self.detector is not None:
            self.detector = None
            self._state.emit(StopListening(self._id))

    def feed(self, pcm: bytes) -> None:
        """Pass audio to the stream, if one is open."""
        if self.detector is not None:
            self._state.emit(FeedListening(self._id, pcm))

    def of(self, listen_id: int) -> TurnDetector | None:
        """Return the detector of a stream; ``None`` when that is no longer the open one."""
        return self.detector if listen_id == self._id else None

    def failed(self, message: str, position_ms: int) -> None:
        """Open a stream again after the open one failed, a few times; then go on without."""
        detector, self.detector = self.detector, None
        self._failures += 1
        if detector is not None and self._failures <= LISTENING_RETRIES:
            self.start(detector.settings, position_ms)
            return
        error = ErrorInfo("turn_detection_failed", message, type="server_error")
        self._state.emit(ErrorRaised(error))
