"""Real speech for tests: made by our voice, understood by our recognizer."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from antiphon.codecs.pcm import to_float
from antiphon.engines.catalog import default_cache_root
from antiphon.engines.chunks import (
    Clause,
    End,
    EndReason,
    Latents,
    PcmChunk,
    Samples,
    SpokenWords,
    Transcript,
    Word,
)
from antiphon.engines.deployment import Code2wavConfig, TalkerConfig, WhisperConfig
from antiphon.engines.pipeline import RecognizeRequest
from antiphon.engines.speech.clauses import ClauseSplitter
from antiphon.engines.speech.code2wav import Code2wavStage, DecodeRequest
from antiphon.engines.speech.reading.reader import normalize
from antiphon.engines.speech.recognizer import WhisperStage
from antiphon.engines.speech.talker import TalkerStage, TalkRequest
from antiphon.engines.stage import StageStream

RATE = 24_000
"""Samples a second of all speech here, s16le mono."""

BYTES_PER_MS = 2 * RATE // 1000

CHUNK_MS = 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Utterance:
    """Something said."""

    text: str
    pcm: bytes
    words: tuple[Word, ...]

    @property
    def ms(self) -> float:
        """How long it takes to say."""
        return len(self.pcm) / BYTES_PER_MS


def silence(ms: int) -> bytes:
    """Return so much silence."""
    return bytes(ms * BYTES_PER_MS)


def pieces(pcm: bytes, ms: int) -> Iterator[bytes]:
    """Cut audio into pieces of ``ms``; the last may be shorter."""
    size = ms * BYTES_PER_MS
    return (pcm[start : start + size] for start in range(0, len(pcm), size))


async def in_real_time(pcm: bytes) -> AsyncIterator[bytes]:
    """Yield audio as a microphone does: 20 ms every 20 ms."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    for piece in pieces(pcm, CHUNK_MS):
        due += CHUNK_MS / 1000
        await asyncio.sleep(due - loop.time())
        yield piece


class StageLoop:
    """An event loop in a thread, for stages that outlive one test's own loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-stages")
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; may be called where another loop runs."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=120)

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Speaker:
    """Says things with the voice of the default deployment; each text only once."""

    def __init__(self, loop: StageLoop, talker: TalkerStage, code2wav: Code2wavStage) -> None:
        self._loop = loop
        self._talker = talker
        self._code2wav = code2wav
        self._said: dict[tuple[str, ...], Utterance] = {}

    def say(self, text: str) -> Utterance:
        """Return the speech of one clause."""
        return self._once(text, (text,))

    def read(self, text: str) -> Utterance:
        """Return a text of one paragraph as it is read aloud, clause by clause."""
        splitter = ClauseSplitter()
        clauses = [*splitter.feed(normalize(text)), *splitter.flush()]
        return self._once(text, tuple(clause.text for clause in clauses))

    def samples(self, text: str) -> Samples:
        """Return the speech of one clause as float32, shape ``(n,)``, 24 kHz."""
        return to_float(self.say(text).pcm)

    def _once(self, text: str, clauses: tuple[str, ...]) -> Utterance:
        if clauses not in self._said:
            self._said[clauses] = self._loop.run(self._say(text, clauses))
        return self._said[clauses]

    async def _say(self, text: str, clauses: tuple[str, ...]) -> Utterance:
        talk = self._talker.open(TalkRequest(request_id="test"))
        decode = self._code2wav.open(DecodeRequest(request_id="test"))

        async def write() -> None:
            for clause in clauses:
                await talk.send(Clause(clause))
            await talk.end()

        async def pass_on() -> None:
            async for latents in talk:
                if isinstance(latents, End):
                    assert latents.reason is EndReason.COMPLETED, latents
                    await decode.end()
                else:
                    await decode.send(latents)

        (words, pcm), *_ = await asyncio.gather(_taken(decode), write(), pass_on())
        return Utterance(text, pcm, words)


async def _taken(
    decode: StageStream[Latents, SpokenWords | PcmChunk],
) -> tuple[tuple[Word, ...], bytes]:
    words: list[Word] = []
    pcm = bytearray()
    async for chunk in decode:
        match chunk:
            case SpokenWords():
                words += chunk.words
            case PcmChunk():
                pcm += chunk.pcm
            case End():
                assert chunk.reason is EndReason.COMPLETED, chunk
    return tuple(words), bytes(pcm)


class Ear:
    """Understands speech with the recognizer of the default deployment."""

    def __init__(self, loop: StageLoop, recognizer: WhisperStage) -> None:
        self._loop = loop
        self._recognizer = recognizer

    def hear(self, pcm: bytes, rate: int = RATE) -> str:
        """Return what is said in s16le audio."""
        return self._loop.run(self._hear(pcm, rate))

    async def _hear(self, pcm: bytes, rate: int) -> str:
        stream = self._recognizer.open(RecognizeRequest(request_id="test"))
        for start in range(0, len(pcm), 2 * rate):
            await stream.send(PcmChunk(pcm[start : start + 2 * rate], rate))
        await stream.end()
        text: str | None = None
        async for chunk in stream:
            if isinstance(chunk, Transcript):
                text = chunk.text
            elif isinstance(chunk, End):
                assert chunk.reason is EndReason.COMPLETED, chunk
        assert text is not None
        return text


@contextmanager
def speaking(model: str = TalkerConfig().model) -> Generator[Speaker, None, None]:
    """A speaker with a voice of the catalogue; its stages are closed at the end."""
    cache = default_cache_root(os.environ)
    loop = StageLoop()
    # Without variation a test hears the same in every run.
    talker = TalkerStage(TalkerConfig(model=model, variation=0), cache)
    code2wav = Code2wavStage(Code2wavConfig(), model, cache)
    try:
        loop.run(talker.start())
        loop.run(code2wav.start())
        yield Speaker(loop, talker, code2wav)
    finally:
        loop.run(code2wav.close())
        loop.run(talker.close())
        loop.close()


@contextmanager
def hearing() -> Generator[Ear, None, None]:
    """An ear; its stage is closed at the end."""
    loop = StageLoop()
    recognizer = WhisperStage(WhisperConfig(), default_cache_root(os.environ))
    try:
        loop.run(recognizer.start())
        yield Ear(loop, recognizer)
    finally:
        loop.run(recognizer.close())
        loop.close()


_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def plain_words(text: str) -> list[str]:
    """Return the words of a text as they sound: no case, no marks, small numbers spelt out."""
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text.lower().replace("’", "'"))
    words: list[str] = []
    for word in re.findall(r"\d+|[a-z']+", text):
        words += _spelt(word) if word.isdigit() else filter(None, [word.strip("'")])
    return words


def _spelt(digits: str) -> list[str]:
    number = int(digits)
    if number < 20:
        return [_ONES[number]]
    if number < 100:
        return [_TENS[number // 10 - 2], *([_ONES[number % 10]] if number % 10 else [])]
    # Larger numbers are read in many ways; digit by digit they compare with themselves.
    return [_ONES[int(digit)] for digit in digits]


def word_errors(reference: str, hypothesis: str) -> tuple[int, int]:
    """Return how many words must be changed, added or left out, and how many there should be."""
    said, heard = plain_words(reference), plain_words(hypothesis)
    row = list(range(len(heard) + 1))
    for index, word in enumerate(said, start=1):
        above, row[0] = row[0], index
        for column, other in enumerate(heard, start=1):
            best = min(row[column] + 1, row[column - 1] + 1, above + (word != other))
            above, row[column] = row[column], best
    return row[-1], len(said)


def word_error_rate(reference: str, hypothesis: str) -> float:
    """Return the share of words that were not heard as said."""
    errors, count = word_errors(reference, hypothesis)
    return errors / max(1, count)
