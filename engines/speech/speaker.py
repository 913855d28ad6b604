"""A voice by itself: whole texts to whole utterances, with the times of their words."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from ..chunks import Clause, End, EndReason, Latents, PcmChunk, SpokenWords, StageError, Word
from ..deployment import Code2wavConfig, TalkerConfig
from ..pipeline import OUTPUT_RATE
from ..stage import StageFailure, StageStream
from .clauses import ClauseSplitter
from .code2wav import Code2wavStage, DecodeRequest
from .talker import TalkerStage, TalkRequest

FIRST_WORDS = 40
"""Nobody waits for the first clause here, so it is not cut early."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """Something said."""

    pcm: bytes
    """s16le mono, :data:`~..pipeline.OUTPUT_RATE`."""

    words: tuple[Word, ...]
    """In order; times from the first sample."""

    @property
    def duration_ms(self) -> float:
        """Length of the audio."""
        return len(self.pcm) / 2 * 1000 / OUTPUT_RATE

    @property
    def speech_end_ms(self) -> float:
        """End of the last word; 0 where there is none."""
        return self.words[-1].end_ms if self.words else 0.0


class Speaker:
    """Says texts with a voice of the catalogue: for questions, prompts and measurements.

    Usable as an async context manager, which starts and closes it.
    """

    def __init__(self, cache_root: Path, model: str = "piper-joe") -> None:
        """``cache_root``: where fetched models lie. Loads nothing yet."""
        self._talker = TalkerStage(TalkerConfig(model=model), cache_root)
        self._code2wav = Code2wavStage(Code2wavConfig(), model, cache_root)
        self._said = 0

    async def __aenter__(self) -> Speaker:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.close()

    async def start(self) -> None:
        """Load and warm up.

        Raises:
            StageFailure: the model or a package is missing; the message says what to run.
        """
        try:
            await self._talker.start()
            await self._code2wav.start()
        except BaseException:
            await self.close()
            raise

    async def say(self, text: str) -> Utterance:
        """Return ``text`` as speech; empty where nothing in it can be pronounced.

        Raises:
            StageFailure: the speaker is not running, or a stage failed.
        """
        self._said += 1
        name = f"say-{self._said}"
        talk = self._talker.open(TalkRequest(request_id=name))
        sound = self._code2wav.open(DecodeRequest(request_id=name))
        pcm, words = bytearray(), list[Word]()
        feeding = asyncio.gather(_write(text, talk), _pass_on(talk, sound))
        try:
            async for item in sound:
                if isinstance(item, End):
                    _require_completed(item)
                elif isinstance(item, SpokenWords):
                    words += item.words
                else:
                    pcm += item.pcm
            await feeding
        finally:
            feeding.cancel()
            talk.cancel()
            sound.cancel()
            # What it has to say is told by the end of the sound already.
            await asyncio.gather(feeding, return_exceptions=True)
        return Utterance(bytes(pcm), tuple(words))

    async def close(self) -> None:
        """Free the models; an utterance under way fails. Idempotent."""
        await asyncio.gather(self._talker.close(), self._code2wav.close())


async def _write(text: str, talk: StageStream[Clause, Latents]) -> None:
    splitter = ClauseSplitter(FIRST_WORDS)
    for clause in [*splitter.feed(text), *splitter.flush()]:
        await talk.send(clause)
    await talk.end()


async def _pass_on(
    talk: StageStream[Clause, Latents], sound: StageStream[Latents, SpokenWords | PcmChunk]
) -> None:
    async for item in talk:
        if isinstance(item, Latents):
            await sound.send(item)
        elif item.reason is EndReason.COMPLETED:
            await sound.end()
        else:
            sound.cancel()
            _require_completed(item)


def _require_completed(end: End) -> None:
    if end.reason is not EndReason.COMPLETED:
        raise StageFailure(end.error or StageError("speech_stopped", "the speech was stopped"))
