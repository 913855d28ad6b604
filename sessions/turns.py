"""Endpointing: from speech probabilities to the start, the pauses and the end of a turn.

All time here is media time: ms of audio since the session began. What the clock on the
wall says does not matter, so audio that comes late or in bursts is judged the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .finished import longest_silence_ms
from .settings import TurnDetection, TurnKind

MIN_SPEECH_MS = 96
"""Speech shorter than this does not start a turn: a click, a cough, a key.

The threshold that turn detectors of the field agree on; five frames of 20 ms.
"""

RESUME_MS = 60
"""Speech in a pause shorter than this does not end the pause: breath, a door."""

NOTICE_MS = 100
"""A pause so long is noticed: longer than the stops within a word, and early enough for
models to be made ready before they are asked."""

LOOK_MS = 200
"""With ``semantic_vad``, what was said is looked at in a pause so long, or sooner."""


@dataclass(frozen=True, slots=True)
class SpeechBegan:
    """A turn began; its audio starts at ``start_ms``, prefix padding included."""

    start_ms: int


@dataclass(frozen=True, slots=True)
class PauseNoticed:
    """A pause is long enough that the turn may be about to end."""


@dataclass(frozen=True, slots=True)
class PauseLasted:
    """A pause reached the length at which it is worth to find out what was said so far."""

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
        self._judged_ms: int | None = None
        """Silence that the words of this pause need behind them, once it is known."""

        self._reset()

    @property
    def position_ms(self) -> int:
        """End of the audio judged so far."""
        return self._position_ms

    @property
    def quiet_ms(self) -> int:
        """End of the audio that belongs to no speech, outside a turn."""
        return self._run_start_ms if self._run_ms else self._position_ms

    @property
    def speech_end_ms(self) -> int:
        """End of the last frame of speech."""
        return self._speech_end_ms

    @property
    def patience_ms(self) -> int:
        """Silence that ends the turn, as far as is known."""
        if self.settings.kind is TurnKind.SERVER_VAD:
            return self.settings.silence_duration_ms
        longest_ms = longest_silence_ms(self.settings.eagerness)
        return longest_ms if self._judged_ms is None else min(self._judged_ms, longest_ms)

    def configure(self, settings: TurnDetection) -> None:
        """Judge what follows by other settings; a turn that is open stays open."""
        self.settings = settings

    def restart(self, position_ms: int) -> None:
        """Forget the open turn; audio before ``position_ms`` belongs to no later one."""
        self._floor_ms = position_ms
        self._reset()

    def keep_from(self, position_ms: int) -> None:
        """Let audio before ``position_ms`` belong to no turn that begins later."""
        self._floor_ms = max(self._floor_ms, position_ms)

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

    def wait(self, silence_ms: int) -> None:
        """With ``semantic_vad``, let this much silence be enough in the pause that lasts."""
        self._judged_ms = silence_ms

    def overdue(self) -> TurnEnded | None:
        """End the turn at once if its pause is already longer than it needs to be."""
        pause_ms = self._position_ms - self._speech_end_ms
        if not self._in_turn or self._run_ms or pause_ms < self.patience_ms:
            return None
        return self._finish()

    def _reset(self) -> None:
        self._in_turn = False
        self._run_ms = 0
        self._run_start_ms = 0
        self._speech_end_ms = 0
        self._pause_noticed = False
        self._pause_told = False
        self._judged_ms = None

    @property
    def _look_ms(self) -> int:
        if self.settings.kind is TurnKind.SERVER_VAD:
            return self._speculate_ms
        return min(self._speculate_ms or LOOK_MS, LOOK_MS)

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
        # Where it is the words that end a turn, it does not end in what may be more of them.
        may_end = not speech or self.settings.kind is TurnKind.SERVER_VAD
        if may_end and pause_ms >= self.patience_ms:
            return self._finish()
        if speech:
            return None
        if not self._pause_told and 0 < self._look_ms <= pause_ms:
            self._pause_told = self._pause_noticed = True
            return PauseLasted(self._speech_end_ms, self._position_ms)
        if not self._pause_noticed and pause_ms >= NOTICE_MS:
            self._pause_noticed = True
            return PauseNoticed()
        return None

    def _resume(self) -> SpeechResumed | None:
        self._speech_end_ms = self._position_ms
        self._pause_noticed = False
        self._judged_ms = None
        told, self._pause_told = self._pause_told, False
        return SpeechResumed() if told else None

    def _finish(self) -> TurnEnded:
        # What was judged may run past the silence by part of a frame, or by what it took
        # to find out what was said.
        end_ms = self._speech_end_ms + self.patience_ms
        ended = TurnEnded(self._speech_end_ms, end_ms)
        self.restart(end_ms)
        return ended
