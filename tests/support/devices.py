"""A microphone that plays speech, and a loudspeaker that records: for commands with sound."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from antiphon.web.commands.sound import RATE, Loudspeaker, Microphone, SoundError

CHUNK_MS = 20
CHUNK_BYTES = 2 * RATE * CHUNK_MS // 1000
BYTES_PER_MS = 2 * RATE // 1000


class FakeMicrophone:
    """Hears silence in real time, and what it is told to hear."""

    def __init__(self) -> None:
        self.closed = False
        self._to_hear: deque[bytes] = deque()
        self._loop = asyncio.get_running_loop()

    def hear(self, pcm: bytes) -> None:
        """Hear this next; from any thread."""
        # At once: a deque may be appended to while another thread takes from it.
        self._to_hear.extend(
            pcm[at : at + CHUNK_BYTES].ljust(CHUNK_BYTES, b"\0")
            for at in range(0, len(pcm), CHUNK_BYTES)
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        due = self._loop.time()
        while not self.closed:
            due += CHUNK_MS / 1000
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            yield self._to_hear.popleft() if self._to_hear else bytes(CHUNK_BYTES)

    def close(self) -> None:
        self.closed = True


class FakeLoudspeaker:
    """Plays in the real time of the event loop, and keeps all that sounded."""

    def __init__(self) -> None:
        self.pcm = bytearray()
        """What sounded, or will."""

        self.dropped = 0
        """Bytes that never will."""

        self.closed = False
        self.broken = False
        """Whether it stands still."""

        self._loop = asyncio.get_running_loop()
        self._ends_at = float("-inf")

    def write(self, pcm: bytes) -> None:
        self.pcm += pcm
        self._ends_at = max(self._ends_at, self._loop.time()) + len(pcm) / BYTES_PER_MS / 1000

    def finish(self) -> None:
        pass

    def position_ms(self) -> float:
        return len(self.pcm) / BYTES_PER_MS - self.left_ms()

    def left_ms(self) -> float:
        if self.broken:
            return len(self.pcm) / BYTES_PER_MS
        return max(0.0, self._ends_at - self._loop.time()) * 1000

    def shorten(self, left_ms: float) -> None:
        kept = 2 * round((self.position_ms() + left_ms) * RATE / 1000)
        self.dropped += max(0, len(self.pcm) - kept)
        del self.pcm[kept:]
        self._ends_at = self._loop.time() + left_ms / 1000

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeDevices:
    """A machine with one of each."""

    microphones: list[FakeMicrophone] = field(default_factory=list[FakeMicrophone])
    loudspeakers: list[FakeLoudspeaker] = field(default_factory=list[FakeLoudspeaker])
    named: list[str | None] = field(default_factory=list[str | None])
    missing: str = ""
    """Why there are none."""

    _stop: Callable[[], object] | None = None

    def microphone(self, named: str | None) -> Microphone:
        self._open(named)
        self.microphones.append(FakeMicrophone())
        return self.microphones[-1]

    def loudspeaker(self, named: str | None) -> Loudspeaker:
        self._open(named)
        self.loudspeakers.append(FakeLoudspeaker())
        return self.loudspeakers[-1]

    def listing(self) -> list[str]:
        return ["   0  fake: microphone (default), loudspeaker (default)"]

    def stop(self) -> None:
        """Stop who opened the first, as Ctrl-C does; from any thread, and too late as well."""
        if self._stop is not None:
            with suppress(RuntimeError):
                self._stop()

    def _open(self, named: str | None) -> None:
        if self.missing:
            raise SoundError(self.missing)
        self.named.append(named)
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        if self._stop is None and task is not None:
            self._stop = lambda: loop.call_soon_threadsafe(task.cancel)
