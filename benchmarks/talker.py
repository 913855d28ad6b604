# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""How well our own talker is understood, beside its teacher, and how fast stock vLLM speaks it.

    python -m benchmarks.talker MODEL [--sentences 200] [--temperature 0.3]

``MODEL`` is a folder as ``deploy/train_talker.py`` makes it. The sentences, in
``talker_sentences.txt``, were never read to it. Each is said by the teacher without noise, by the
teacher's latents through the codec, and by the student through vLLM, one stream at a time; Whisper
tiny.en listens to all three.

Printed: wrong words of each, in percent; the time that the student's tokens and sound take for a
second of speech, and the share of it that is vLLM's; how long its speech is beside the
teacher's; the size of the folder. The exit status is 1 where a limit is missed: 10 points more
wrong words than the teacher, 0.8 of the time that speech takes, 30 MB.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.support.speech import hearing, word_errors

from antiphon.deploy.talker_training import codec
from antiphon.deploy.talker_training.teacher import Spoken, Teacher
from antiphon.engines.catalog import default_cache_root, require
from antiphon.engines.speech.decoders.joe_codes import JoeDecoder, read_net
from antiphon.engines.speech.families.binding import bind
from antiphon.engines.speech.families.family import PromptRequest, Reader, family
from antiphon.engines.speech.tokens.config import TokenModelConfig
from antiphon.engines.speech.tokens.engine import TokenEngine, TokenRequest
from antiphon.engines.speech.tokens.splitter import Splitter
from antiphon.engines.speech.tokens.vllm_tokens import load_tokens
from antiphon.engines.speech.tokens.vocabulary import load_vocabulary
from antiphon.engines.speech.voices.piper import PiperDecoder

POINTS, SHARE, SIZE_MB = 10.0, 0.8, 30.0
"""The limits."""

SENTENCES = Path(__file__).with_name("talker_sentences.txt")

Sound = NDArray[np.float32]


@dataclass
class Heard:
    """One of those who speak."""

    errors: int = 0
    words: int = 0
    seconds: list[float] = field(default_factory=list[float])

    @property
    def percent(self) -> float:
        """Wrong words."""
        return 100 * self.errors / max(1, self.words)


@dataclass
class Speaking:
    """The student on vLLM."""

    engine: TokenEngine
    reader: Reader
    decoder: JoeDecoder
    temperature: float
    token_seconds: list[float] = field(default_factory=list[float])
    sound_seconds: list[float] = field(default_factory=list[float])
    cut: int = 0

    async def say(self, text: str, number: int) -> Sound:
        """Speak a sentence, and note how long that takes."""
        known = family("joe-lm")
        prompt = self.reader.prompt(PromptRequest(text=known.normalise(text)))
        request = TokenRequest(
            request_id=f"talker-{number}",
            tokens=prompt.tokens,
            max_tokens=900,
            stop=self.reader.stop,
            sampling=replace(known.sampling, temperature=self.temperature),
            seed=number,
            grammar=self.reader.layout,
            script=prompt.script,
        )
        splitter, began = Splitter(self.reader.layout), time.monotonic()
        codes = [np.empty((2, 0), np.int32)]
        async with aclosing(self.engine.generate(request)) as pieces:
            async for piece in pieces:
                codes += [stretch.codes for stretch in splitter.feed(piece.tokens)]
                self.cut += piece.finish == "length"
        said = time.monotonic()
        samples = self.decoder.decode(np.concatenate(codes, axis=1))
        self.token_seconds.append(said - began)
        self.sound_seconds.append(time.monotonic() - said)
        return samples


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.talker")
    parser.add_argument("model", type=Path)
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=family("joe-lm").sampling.temperature)
    parser.add_argument("--threads", type=int, default=1, help="of vLLM")
    asked = parser.parse_args(arguments)
    sentences = SENTENCES.read_text(encoding="utf-8").splitlines()[: asked.sentences]

    cache = default_cache_root(os.environ)
    voice = require("piper-joe", cache)[1]
    teacher, net, sound = Teacher(voice), read_net(asked.model / "codec"), PiperDecoder(voice, 1)
    decoder = JoeDecoder(net, sound)
    config = TokenModelConfig(model=str(asked.model), threads=asked.threads, max_requests=1)
    known = family("joe-lm")
    engine = load_tokens(
        config, known.architectures, known.context_tokens, asked.model, cache / ".vllm"
    )
    student = Speaking(
        engine, bind(known, load_vocabulary(asked.model)), decoder, asked.temperature
    )
    said = [(text, each) for text in sentences if (each := teacher.say(text)) is not None]

    async def by_student() -> list[Sound]:
        try:
            await student.say("One two three.", 0)
            for noted in (student.token_seconds, student.sound_seconds):
                noted.clear()
            return [await student.say(text, n) for n, (text, _) in enumerate(said, 1)]
        finally:
            await engine.close()

    spoken = asyncio.run(by_student())
    makers: dict[str, Callable[[int, Spoken], Sound]] = {
        "teacher": lambda _, each: sound.run(each.latents.astype(np.float32)[np.newaxis])[0],
        "codec": lambda _, each: decoder.decode(codec.encode(net, each.latents)),
        "student": lambda number, _: spoken[number],
    }
    results = _listened(said, makers, decoder.card.sample_rate)
    size = sum(path.stat().st_size for path in asked.model.rglob("*") if path.is_file()) / 1e6
    return _told(results, student, size)


def _listened(
    said: Sequence[tuple[str, Spoken]], makers: dict[str, Callable[[int, Spoken], Sound]], rate: int
) -> dict[str, Heard]:
    results = {name: Heard() for name in makers}
    with hearing() as ear:
        for number, (text, spoken) in enumerate(said):
            for name, make in makers.items():
                samples, heard = make(number, spoken), results[name]
                heard.seconds.append(len(samples) / rate)
                errors, count = word_errors(text, ear.hear(_as_pcm(samples), rate))
                heard.errors += errors
                heard.words += count
    return results


def _as_pcm(samples: Sound) -> bytes:
    """With silence around, as a recording has."""
    padded = np.pad(samples, (4000, 8000))
    pcm: bytes = (padded.clip(-1, 1) * 32767).astype("<i2").tobytes()
    return pcm


def _told(results: dict[str, Heard], student: Speaking, size: float) -> int:
    seconds = sum(results["student"].seconds)
    tokens, sound = (sum(each) / seconds for each in (student.token_seconds, student.sound_seconds))
    lengths = [
        one / other
        for one, other in zip(results["student"].seconds, results["teacher"].seconds, strict=True)
    ]
    for name, heard in results.items():
        print(f"{name:<8} {heard.percent:5.1f} % of {heard.words} words wrong")
    print(f"time for a second of speech: {tokens + sound:.2f} s, of which tokens {tokens:.2f} s")
    print(f"as long as the teacher's: {statistics.median(lengths):.2f}; cut off: {student.cut}")
    print(f"size: {size:.1f} MB")
    more = results["student"].percent - results["teacher"].percent
    limits: dict[str, tuple[Any, float]] = {
        "points more wrong words than the teacher": (more, POINTS),
        "seconds for a second of speech": (tokens + sound, SHARE),
        "MB": (size, SIZE_MB),
    }
    missed = {name: pair for name, pair in limits.items() if pair[0] > pair[1]}
    for name, (found, limit) in missed.items():
        print(f"MISSED {found:.2f} {name}, at most {limit}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
