"""Record what the embedded voice does, for ``chunk_rules`` to play rules against.

    python -m benchmarks.record_traces [--folder benchmarks/traces]

Replies of a few sentences are spoken by talker and code2wav as a server runs them, one after
the other, and then eight at once; their text comes at the pace at which it is written. Noted
are: when each frame can be decoded, which is when the context to its right is there; what
decodes cost; and, of several replies, when the decoder works for the others. Close other
programs first. The files are committed, so this is run again only when voice or stages change.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.chunk_traces import FOLDER

from antiphon.engines.catalog import default_cache_root
from antiphon.engines.chunks import End, Latents
from antiphon.engines.deployment import Deployment, Pacing, TalkerConfig
from antiphon.engines.flow import Flow
from antiphon.engines.speech.clauses import ClauseSplitter
from antiphon.engines.speech.code2wav import Code2wavStage, DecodeRequest
from antiphon.engines.speech.decoding import Decoder, Piece
from antiphon.engines.speech.talker import TalkerStage, TalkRequest

TEXTS = (
    "Certainly. The sky is blue because air scatters blue light more than red light. In the "
    "evening the light takes a longer way, and it turns red.",
    "There are seven days in a week. Most people work on five of them, and rest on two.",
    "That is a very good question, and the answer is quite simple. Bees collect nectar, carry "
    "it home, and make honey from it. It takes a long time.",
    "The blue whale is the largest animal of all. It can be thirty metres long.",
    "Well, it depends. If you leave now, you will be there before noon, unless it rains. "
    "Otherwise I would take the train.",
    "Paris is the capital of France. It lies on the river Seine, and more than two million "
    "people live there.",
    "Yes, of course. I have put it on your list, next to the milk and the bread.",
    "Once upon a time there was a little fox who lived in a forest. One day he walked to the "
    "village, because he was hungry, and met a goose.",
)

WORDS_PER_SECOND = 20.0
"""At which text is written: that of the embedded model alone."""

APART_SECONDS = 0.25
"""Between the starts of replies that are spoken at once."""

AT_ONCE = 8

FACTORS = 150
"""Costs that are kept, of what was to be expected."""

NO_BOUND_MS = 120_000
"""Lead: a talker that is held back says nothing of its pace."""


@dataclass
class Job:
    """One decode; instants in ms."""

    stream: int
    frames: int
    start: float
    end: float


@dataclass
class Reply:
    """What is noted of one."""

    began: float
    ready: list[tuple[float, int]] = field(default_factory=lambda: list[tuple[float, int]]())
    """When how many frames more could be decoded, from its beginning."""

    ends: list[int] = field(default_factory=lambda: list[int]())
    frames: int = 0
    """Of the talker so far."""

    decodable: int = 0

    def add(self, latents: Latents, context: int, now: float) -> None:
        """Take note of frames of the talker."""
        clause = self.ends[-1] if self.ends else 0
        self.frames += latents.frames.shape[1]
        until = self.frames if latents.last else max(clause, self.frames - context)
        if until > self.decodable:
            self.ready.append((round(now - self.began, 1), until - self.decodable))
            self.decodable = until
        if latents.last:
            self.ends.append(self.frames)


def now_ms() -> float:
    """The clock of all instants here."""
    return time.perf_counter() * 1000


@contextmanager
def decodes() -> Generator[list[Job]]:
    """Note all decodes."""
    jobs: list[Job] = []
    original = Decoder.decode_pieces

    def timed(decoder: Decoder, pieces: Sequence[Piece]) -> list[bytes]:
        start = now_ms()
        made = original(decoder, pieces)
        end = now_ms()
        jobs.extend(Job(id(piece.stream), piece.window.frames, start, end) for piece in pieces)
        return made

    setattr(Decoder, "decode_pieces", timed)  # noqa: B010
    try:
        yield jobs
    finally:
        setattr(Decoder, "decode_pieces", original)  # noqa: B010


class Recorder:
    """The two stages."""

    def __init__(self, talker: TalkerStage, code2wav: Code2wavStage, context: int) -> None:
        self._talker = talker
        self._code2wav = code2wav
        self._context = context

    async def say(self, text: str) -> Reply:
        """Speak a text as it is written, and decode it."""
        flow = Flow(Pacing(lead_ms=NO_BOUND_MS))
        reply = Reply(now_ms())
        talk = self._talker.open(TalkRequest(request_id="trace", flow=flow))
        sound = self._code2wav.open(DecodeRequest(request_id="trace", flow=flow))

        async def write() -> None:
            splitter = ClauseSplitter()
            first = True
            for word in text.split(" "):
                for clause in splitter.feed(f"{word} "):
                    if first:
                        reply.began, first = now_ms(), False
                    await talk.send(clause)
                await asyncio.sleep(1 / WORDS_PER_SECOND)
            for clause in splitter.flush():
                await talk.send(clause)
            await talk.end()

        async def speak() -> None:
            async for item in talk:
                if isinstance(item, End):
                    await sound.end()
                    return
                reply.add(item, self._context, now_ms())
                await sound.send(item)

        async def hear() -> None:
            async for _ in sound:
                pass

        async with asyncio.TaskGroup() as tasks:
            for work in (write(), speak(), hear()):
                tasks.create_task(work)
        return reply


async def record(folder: Path) -> None:
    """Record both cases, and write a file for each."""
    deployment, cache = Deployment(), default_cache_root(os.environ)
    config = deployment.stages.talker
    assert isinstance(config, TalkerConfig)
    talker = TalkerStage(config, cache)
    code2wav = Code2wavStage(deployment.stages.code2wav, config.model, cache)
    await talker.start()
    await code2wav.start()
    from antiphon.engines.catalog import require
    from antiphon.engines.speech.voices.family import VoiceModel, read_model

    voice: VoiceModel = read_model(require(config.model, cache)[1])
    shared = {"frame_ms": voice.frame_ms, "ladder": list(deployment.stages.code2wav.sizes)}
    recorder = Recorder(talker, code2wav, voice.context_frames)
    await recorder.say(TEXTS[0])

    with decodes() as jobs:
        alone = [await recorder.say(text) for text in TEXTS]
    write_case(folder, "alone", shared | {"load": 0.0}, alone, jobs, busy=False)

    async def later(index: int) -> Reply:
        await asyncio.sleep(index * APART_SECONDS)
        return await recorder.say(TEXTS[index])

    with decodes() as jobs:
        together = await asyncio.gather(*(later(index) for index in range(AT_ONCE)))
    # A server has room for a few times as many.
    write_case(folder, "8 at once", shared | {"load": 0.25}, together, jobs, busy=True)
    await talker.close()
    await code2wav.close()


def write_case(
    folder: Path,
    name: str,
    shared: dict[str, Any],
    replies: Sequence[Reply],
    jobs: Sequence[Job],
    *,
    busy: bool,
) -> None:
    """Write one file."""
    frames = np.array([job.frames for job in jobs], float)
    cost = np.array([job.end - job.start for job in jobs], float)
    per_frame, fixed = (max(0.0, each) for each in np.polyfit(frames, cost, 1).tolist())
    factors = (cost / (fixed + frames * per_frame)).round(2).tolist()
    data = {
        "name": name,
        **shared,
        "fixed_ms": round(fixed, 2),
        "per_frame_ms": round(per_frame, 3),
        "factors": factors[:FACTORS],
        "replies": [
            {"ready": reply.ready, "ends": reply.ends, "busy": others(reply, jobs) if busy else []}
            for reply in replies
        ],
    }
    path = folder / f"{name.replace(' ', '_')}.json"
    path.write_text(json.dumps(data, separators=(",", ":")) + "\n", encoding="utf-8")
    audio = sum(reply.frames for reply in replies) * shared["frame_ms"] / 1000
    print(f"{path}: {len(replies)} replies, {audio:.0f} s of audio, {len(jobs)} decodes")


def others(reply: Reply, jobs: Sequence[Job]) -> list[tuple[float, float]]:
    """When the decoder worked for others, from the beginning of a reply."""
    frames: dict[int, int] = defaultdict(int)
    for job in jobs:
        frames[job.stream] += job.frames
    # A reply's own decodes are those of as many frames as it has.
    own = next((stream for stream, count in frames.items() if count == reply.frames), None)
    spans = sorted(
        {(job.start - reply.began, job.end - reply.began) for job in jobs if job.stream != own}
    )
    return [(round(start, 1), round(end, 1)) for start, end in spans if end > 0]


def main() -> None:
    """Record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(record(folder))


if __name__ == "__main__":
    main()
