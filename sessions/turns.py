"""Endpointing: from speech probabilities to the start, the pauses and the end of a turn.

All time here is media time: ms of audio since the session began. What the clock on the
wall says does not matter, so audio that comes late or in bursts is judged the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .settings import TurnDetection

MIN_SPEECH_MS = 96
"""Speech shorter than this does not start a turn: a click, a cough, a key.

The threshold that turn detectors of the field agree on; five frames of 20 ms.
"""

RESUME_MS = 60
"""Speech in a pause shorter than this does not end the pause: breath, a door."""


@dataclass(frozen=True, slots=True)
class SpeechBegan:
    """A turn began; its audio starts at ``start_ms``, prefix padding included."""

    start_ms: int


NOTICE_MS = 100
"""A pause so long is noticed: longer than the stops within a word, and early enough for
models to be made ready before they are asked."""


@dataclass(frozen=True, slots=True)
class PauseNoticed:
    """A pause is long enough that the turn may be about to end."""


@dataclass(frozen=True, slots=True)
class PauseLasted:
    """A pause reached the length at which it is worth preparing an answer."""

    speech_end_ms: int
    heard_ms: int
    """Where the audio judged so far ends."""


@dataclass(frozen=True, slots=True)
class SpeechResumed:
    """The pause was not the end of the turn."""


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over."""

    speech_end_ms: int
    end_ms: int
    """End of the turn's audio, the silence that ended it included."""


TurnChange: TypeAlias = SpeechBegan | PauseNoticed | PauseLasted | SpeechResumed | TurnEnded


class TurnDetector:
    """Judges one frame after the other."""

    def __init__(self, settings: TurnDetection, speculate_ms: int, position_ms: int) -> None:
        self.settings = settings
        self._speculate_ms = speculate_ms
        self._position_ms = position_ms
        self._floor_ms = position_ms
        self._reset()

    @property
    def position_ms(self) -> int:
        """End of the audio judged so far."""
        return self._position_ms

    @property
    def speech_end_ms(self) -> int:
        """End of the last frame of speech."""
        return self._speech_end_ms

    def configure(self, settings: TurnDetection) -> None:
        """Judge what follows by other settings; a turn that is open stays open."""
        self.settings = settings

    def restart(self, position_ms: int) -> None:
        """Forget the open turn; audio before ``position_ms`` belongs to no later one."""
        self._floor_ms = position_ms
        self._reset()

    def judge(self, probability: float, frame_ms: int) -> TurnChange | None:
        """Take in the next frame; return what it changed."""
        start_ms = self._position_ms
        self._position_ms += frame_ms
        if start_ms < self._floor_ms:
            return None
        speech = probability >= self.settings.threshold
        if not self._in_turn:
            return self._await_speech(speech, start_ms, frame_ms)
        return self._await_silence(speech, frame_ms)

    def _reset(self) -> None:
        self._in_turn = False
        self._run_ms = 0
        self._run_start_ms = 0
        self._speech_end_ms = 0
        self._pause_noticed = False
        self._pause_told = False

    def _await_speech(self, speech: bool, start_ms: int, frame_ms: int) -> TurnChange | None:
        if speech:
            if self._run_ms == 0:
                self._run_start_ms = start_ms
            self._run_ms += frame_ms
        else:
            # A gap only takes back its own length, so that speech with a weak frame
            # in it still counts.
            self._run_ms = max(0, self._run_ms - frame_ms)
        if self._run_ms < MIN_SPEECH_MS:
            return None
        self._in_turn = True
        self._run_ms = 0
        self._speech_end_ms = self._position_ms
        padded = self._run_start_ms - self.settings.prefix_padding_ms
        return SpeechBegan(max(self._floor_ms, padded))

    def _await_silence(self, speech: bool, frame_ms: int) -> TurnChange | None:
        self._run_ms = self._run_ms + frame_ms if speech else 0
        pause_ms = self._position_ms - self._speech_end_ms
        if speech and (self._run_ms >= RESUME_MS or pause_ms <= frame_ms):
            return self._resume()
        if pause_ms >= self.settings.silence_duration_ms:
            return self._finish()
        if speech:
            return None
        if not self._pause_told and 0 < self._speculate_ms <= pause_ms:
            self._pause_told = True
            return PauseLasted(self._speech_end_ms, self._position_ms)
        if not self._pause_noticed and pause_ms >= NOTICE_MS:
            self._pause_noticed = True
            return PauseNoticed()
        return None

    def _resume(self) -> SpeechResumed | None:
        self._speech_end_ms = self._position_ms
        self._pause_noticed = False
        told, self._pause_told = self._pause_told, False
        return SpeechResumed() if told else None

    def _finish(self) -> TurnEnded:
        # What was judged may run past the silence by part of a frame.
        end_ms = self._speech_end_ms + self.settings.silence_duration_ms
        ended = TurnEnded(self._speech_end_ms, end_ms)
        self.restart(end_ms)
        return ended
