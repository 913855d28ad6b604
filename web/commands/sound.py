"""Microphone and loudspeaker: what commands need of them, whoever provides them.

All sound is s16le mono at :data:`RATE`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Protocol

from ...engines.pipeline import OUTPUT_RATE
from .errors import CommandError

RATE = OUTPUT_RATE

AHEAD_MS = 1000.0
"""Speech that is played is handed over so far ahead of the ear."""

LOOK_SECONDS = 0.02
"""Between two looks at how far a loudspeaker is: it tells nobody by itself."""

STALLED_SECONDS = 10.0
"""A loudspeaker that plays nothing for so long is taken to be gone."""


class SoundError(CommandError):
    """There is no such device, or it fails; the message says what to do."""


class Microphone(Protocol):
    """Records from when it is made."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """What is heard, in pieces of some 20 ms as they come.

        Raises:
            SoundError: it has gone.
        """
        ...

    def close(self) -> None:
        """Stop recording. Idempotent."""
        ...


class Loudspeaker(Protocol):
    """Plays what it is given, and silence where it has nothing."""

    def write(self, pcm: bytes) -> None:
        """Queue audio.

        Raises:
            SoundError: far too much is queued.
        """
        ...

    def finish(self) -> None:
        """Play what was held back for audio that follows: none does for now."""
        ...

    def position_ms(self) -> float:
        """How much of all that was queued, and not dropped, has sounded."""
        ...

    def left_ms(self) -> float:
        """How much of it has not."""
        ...

    def shorten(self, left_ms: float) -> None:
        """Drop what is queued beyond the next ``left_ms``."""
        ...

    def close(self) -> None:
        """Fall silent. Idempotent."""
        ...


class Devices(Protocol):
    """The sound devices of a machine."""

    def microphone(self, named: str | None) -> Microphone:
        """Open one by its number or a part of its name, the default one for ``None``.

        Raises:
            SoundError: there is none, or it can't be opened.
        """
        ...

    def loudspeaker(self, named: str | None) -> Loudspeaker:
        """Open one in the same way.

        Raises:
            SoundError: there is none, or it can't be opened.
        """
        ...

    def listing(self) -> list[str]:
        """A line for each device.

        Raises:
            SoundError: they can't be asked for.
        """
        ...


async def play(speaker: Loudspeaker, pcm: bytes) -> None:
    """Play audio; return when there is room for more.

    Raises:
        SoundError: the loudspeaker plays nothing.
    """
    speaker.write(pcm)
    await _wait_left(speaker, AHEAD_MS)


async def play_out(speaker: Loudspeaker) -> None:
    """Return when everything has sounded.

    Raises:
        SoundError: the loudspeaker plays nothing.
    """
    speaker.finish()
    await _wait_left(speaker, 0.0)


async def _wait_left(speaker: Loudspeaker, most_ms: float) -> None:
    clock = asyncio.get_running_loop().time
    before, moved_at = speaker.position_ms(), clock()
    while speaker.left_ms() > most_ms:
        await asyncio.sleep(LOOK_SECONDS)
        position = speaker.position_ms()
        if position > before:
            before, moved_at = position, clock()
        elif clock() > moved_at + STALLED_SECONDS:
            raise SoundError("the loudspeaker plays nothing: choose another with --output")


class Meter:
    """How much of what a device was handed has sounded: it is heard a while after that.

    Counts in ms of sound; time is seconds on any one clock.
    """

    KEPT = 64
    """Pieces that are remembered; older ones have sounded."""

    def __init__(self) -> None:
        self._handed = 0.0
        self._pieces: deque[tuple[float, float, float]] = deque(maxlen=self.KEPT)
        """When each begins to sound, where it lies, how long it is."""

    @property
    def handed_ms(self) -> float:
        """All that the device was handed."""
        return self._handed

    def hand(self, ms: float, sounds_at: float) -> None:
        """Note a piece."""
        if ms > 0:
            self._pieces.append((sounds_at, self._handed, ms))
            self._handed += ms

    def sounded_ms(self, now: float) -> float:
        """How much has sounded; never goes back as long as time does not."""
        for sounds_at, start, ms in self._pieces:
            if now < sounds_at + ms / 1000:
                return start + max(0.0, now - sounds_at) * 1000
        return self._handed

    def restart(self, position_ms: float) -> None:
        """Forget what has not sounded: counting goes on from ``position_ms``."""
        self._pieces.clear()
        self._handed = position_ms
