"""The audio file of an answer, from samples to what its client is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..codecs.encode import Encoder
from ..codecs.pcm import SAMPLE_BYTES
from ..engines.pipeline import OUTPUT_RATE

NOTHING_MS = 100
"""Silence in place of a text with nothing to pronounce: a file without any is not playable."""

NOTHING = bytes(SAMPLE_BYTES * OUTPUT_RATE * NOTHING_MS // 1000)


class Sound:
    """An audio file that is made while it is sent, encoded in threads."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._encoding: asyncio.Future[bytes] | None = None
        self.samples = 0
        """Fed so far."""

    @property
    def encoder(self) -> Encoder:
        """What makes the file."""
        return self._encoder

    async def feed(self, pcm: bytes) -> bytes:
        """What of the file is ready after more audio."""
        self.samples += len(pcm) // SAMPLE_BYTES
        return await self._encode(self._encoder.feed, pcm)

    async def finish(self) -> bytes:
        """The rest of the file, of which some is always there: without any it is not playable."""
        head = b"" if self.samples else await self.feed(NOTHING)
        return head + await self._encode(self._encoder.finish)

    def close(self) -> None:
        """Free the encoder, after what a thread is still doing with it."""
        if self._encoding is None or self._encoding.done():
            self._encoder.close()
        else:
            self._encoding.add_done_callback(self._close_later)

    async def _encode(self, job: Callable[..., bytes], *args: bytes) -> bytes:
        self._encoding = asyncio.get_running_loop().run_in_executor(None, job, *args)
        # A thread can't be cancelled: the encoder is its own until it is done.
        return await asyncio.shield(self._encoding)

    def _close_later(self, encoding: asyncio.Future[bytes]) -> None:
        if not encoding.cancelled():
            encoding.exception()
        self._encoder.close()
