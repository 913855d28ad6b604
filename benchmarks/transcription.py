"""How fast recordings are read, beside faster-whisper called directly on the same files.

    python -m benchmarks.transcription [--short] [--clients 1 2 4] [--rounds 3] [--out out/bench]

Our voice speaks four minutes of sentences with pauses, kept as WAV and as MP3. One, two and four
clients send the file to a server with ``whisper-tiny-en`` and wait for its text; beside that
faster-whisper, in a process of its own, reads it with the same weights and all cores, once with
one beam and once with its five. All take turns, a round after the other, and one works at a time;
each figure is the median of the rounds.

Printed: seconds of audio read in a second, by all clients; the processor time that a minute of
audio takes; wrong words, in percent; the first text of a streamed answer; and what the server has
in memory. The exit status is 1 where a limit is missed: 0.95 of what faster-whisper reads in the
same time with one beam, two percent more wrong words than it has, and 1.5 s to the first text of
one client.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import statistics
import sys
import time
import wave
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
from benchmarks.caller import spoken
from benchmarks.server import ServerProcess
from benchmarks.transcription_peer import Peer
from benchmarks.transcription_plot import draw
from tests.support.speech import word_error_rate

from antiphon.codecs.encode import new_encoder
from antiphon.engines.catalog import default_cache_root, require
from antiphon.engines.pipeline import OUTPUT_RATE

SHARE, ERRORS, FIRST_S = 0.95, 0.02, 1.5
"""The limits: of what faster-whisper reads, of wrong words more than it has, of the first text."""

MODEL = "whisper-tiny-en"

SENTENCES = (
    "I would like to change my flight from London to Paris, please.",
    "The recipe calls for flour, three eggs, a pinch of salt, and some cold milk.",
    "The doctor told him to drink more water and to walk every day.",
    "She bought six apples, three oranges and a bottle of milk.",
    "In the evening the light takes a longer way, and it turns red.",
    "Bees collect nectar from flowers and carry it home.",
    "People have eaten honey for a very long time.",
    "Can you tell me where the nearest station is?",
    "The meeting was moved to Thursday, because half of the team is ill.",
    "It has rained all week, so the river is higher than usual.",
    "My sister plays the piano, and her brother would rather play football.",
    "Please turn off the light before you leave the house.",
    "The train to the coast leaves every morning at seven.",
    "Nobody knew why the old clock had stopped during the night.",
    "They painted the kitchen yellow and the door green.",
    "The library closes early on Friday, but it is open on Sunday.",
)

PAUSES_S = (0.7, 0.5, 1.2, 0.4)
"""After each sentence, over and over."""

SECONDS, SHORT_SECONDS = 240.0, 80.0
"""Of audio, at least."""

FORMS = ("wav", "mp3")

BEAMS = (1, 5)
"""Of faster-whisper; the latter is its own choice."""

TIMEOUT_S = 300.0

LOOK_S = 0.05
"""Between two looks whether the server is done."""


@dataclass(frozen=True)
class Recording:
    """What is read."""

    text: str
    seconds: float
    files: dict[str, Path]
    """By format."""


@dataclass
class Cell:
    """What one of them did with one format, for so many clients."""

    reader: str
    form: str
    clients: int
    speeds: list[float] = field(default_factory=list[float])
    """Seconds of audio in a second, a figure a round."""

    firsts_s: list[float] = field(default_factory=list[float])
    """Until the first text."""

    cpu_s: list[float] = field(default_factory=list[float])
    """Processor time of a minute of audio, a figure a round."""

    errors: float = 0.0
    """The largest share of wrong words in a round."""

    @property
    def speed(self) -> float:
        return statistics.median(self.speeds)

    @property
    def first_s(self) -> float | None:
        return statistics.median(self.firsts_s) if self.firsts_s else None


def make(said: Mapping[str, bytes], seconds: float, out: Path) -> Recording:
    """A recording of sentences, ``said`` as s16le, as often as it takes."""
    pcm, texts = bytearray(), list[str]()
    for text, pause_s in zip(cycle(said), cycle(PAUSES_S)):
        if len(pcm) >= seconds * 2 * OUTPUT_RATE:
            break
        pcm += said[text] + bytes(2 * round(pause_s * OUTPUT_RATE))
        texts.append(text)
    files = {form: out / f"transcription.{form}" for form in FORMS}
    for form, path in files.items():
        path.write_bytes(_as_file(form, bytes(pcm)))
    return Recording(" ".join(texts), len(pcm) / 2 / OUTPUT_RATE, files)


def _as_file(form: str, pcm: bytes) -> bytes:
    if form == "wav":
        return _wav(pcm)
    encoder = new_encoder(form)
    return encoder.feed(pcm) + encoder.finish()


def _wav(pcm: bytes) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(OUTPUT_RATE)
        file.writeframes(pcm)
    return out.getvalue()


async def measure(
    server: ServerProcess, http: httpx.AsyncClient, recording: Recording, cell: Cell
) -> None:
    """Add a round of ours."""
    upload = (f"speech.{cell.form}", recording.files[cell.form].read_bytes())
    began, spent = time.perf_counter(), server.cpu_s()
    texts = await asyncio.gather(*(_ask(http, upload) for _ in range(cell.clients)))
    took, spent = time.perf_counter() - began, server.cpu_s() - spent
    read_s = cell.clients * recording.seconds
    cell.speeds.append(read_s / took)
    cell.cpu_s.append(60 * spent / read_s)
    wrong = max(word_error_rate(recording.text, text) for text in texts)
    cell.errors = max(cell.errors, wrong)
    firsts = await asyncio.gather(*(_first_text_s(http, upload) for _ in range(cell.clients)))
    cell.firsts_s.append(statistics.median(firsts))
    # Clients have left, and what was being read for them is read to its end.
    while (await server.status())["stages"]["recognizer"]["stretches_running"]:  # noqa: ASYNC110
        await asyncio.sleep(LOOK_S)


async def _ask(http: httpx.AsyncClient, upload: tuple[str, bytes]) -> str:
    answer = await http.post(
        "/v1/audio/transcriptions",
        data={"model": MODEL, "response_format": "json"},
        files={"file": upload},
    )
    answer.raise_for_status()
    return str(answer.json()["text"])


async def _first_text_s(http: httpx.AsyncClient, upload: tuple[str, bytes]) -> float:
    """Until the first text; then the client leaves."""
    began = time.perf_counter()
    async with http.stream(
        "POST",
        "/v1/audio/transcriptions",
        data={"model": MODEL, "stream": "true"},
        files={"file": upload},
    ) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if line.startswith("data: ") and "transcript.text.delta" in line:
                return time.perf_counter() - began
    raise ValueError("expected some text")


async def measure_peer(peer: Peer, recording: Recording, cell: Cell, beams: int) -> None:
    """Add a round of faster-whisper."""
    read = await peer.read(recording.files[cell.form], beams)
    cell.speeds.append(recording.seconds / read.seconds)
    cell.cpu_s.append(60 * read.cpu_seconds / recording.seconds)
    cell.errors = max(cell.errors, word_error_rate(recording.text, read.text))


OURS, PEER = "antiphon", "faster-whisper"


def deployment() -> dict[str, Any]:
    """What serves ours: a real recognizer, and scripted answers that nobody asks for."""
    stages = {
        "recognizer": {"use": "whisper", "model": MODEL},
        "ar": {"use": "scripted", "lines": ["Hello."]},
        "talker": {"use": "scripted"},
    }
    return {"model": "transcription", "stages": stages}


@dataclass
class Results:
    """All that was measured."""

    cells: list[Cell]
    resident_mib: tuple[float, float]
    """Of the server: before the first recording, and the most after a round."""


async def run(recording: Recording, clients: Sequence[int], rounds: int, out: Path) -> Results:
    """Measure everything."""
    _, folder = require(MODEL, default_cache_root(os.environ))
    config = out / "transcription.yaml"
    # JSON is YAML.
    config.write_text(json.dumps(deployment(), indent=1))
    own = [Cell(OURS, form, count) for form in FORMS for count in clients]
    direct = {(form, beams): Cell(_peer(beams), form, 1) for form in FORMS for beams in BEAMS}
    async with (
        ServerProcess.started(config) as server,
        Peer.started(folder) as peer,
        httpx.AsyncClient(base_url=server.http.base_url, timeout=TIMEOUT_S) as http,
    ):
        before = most = server.resident_mib()
        # Models are slow the first time.
        await measure(server, http, recording, Cell(OURS, FORMS[0], 1))
        await measure_peer(peer, recording, Cell(PEER, FORMS[0], 1), BEAMS[0])
        for number in range(rounds):
            for form in FORMS:
                for beams in BEAMS:
                    await measure_peer(peer, recording, direct[form, beams], beams)
                for cell in (each for each in own if each.form == form):
                    await measure(server, http, recording, cell)
                    most = max(most, server.resident_mib())
            print(f"  round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return Results([*own, *direct.values()], (before, most))


def _peer(beams: int) -> str:
    return f"{PEER}, {beams} beam{'s' if beams > 1 else ''}"


def missed(cells: Sequence[Cell]) -> list[str]:
    """What is beyond its limit, in words."""
    told: list[str] = []
    direct = {cell.form: cell for cell in cells if cell.reader == _peer(1)}
    for own in (cell for cell in cells if cell.reader == OURS):
        where, peer = f"{own.form}, {own.clients} clients", direct[own.form]
        if own.speed < SHARE * peer.speed:
            told.append(
                f"{where}: {own.speed:.1f} s of audio a second, faster-whisper {peer.speed:.1f}"
            )
        if own.errors > peer.errors + ERRORS:
            wrong = f"{100 * own.errors:.1f} % wrong words, faster-whisper {100 * peer.errors:.1f}"
            told.append(f"{where}: {wrong}")
        if own.clients == 1 and own.first_s is not None and own.first_s > FIRST_S:
            told.append(f"{where}: first text after {own.first_s:.2f} s, limit {FIRST_S}")
    return told


HEAD = (
    "reader                   file  clients  audio s/s  (lowest, highest)  cpu s/min"
    "  wrong %  first text"
)


def line(cell: Cell) -> str:
    """A row of the table."""
    first = "" if cell.first_s is None else f"{cell.first_s:>9.2f} s"
    span = f"({min(cell.speeds):.1f}, {max(cell.speeds):.1f})"
    return (
        f"{cell.reader:<24} {cell.form:>4} {cell.clients:>8} {cell.speed:>10.1f} {span:>18}"
        f" {statistics.median(cell.cpu_s):>10.2f} {100 * cell.errors:>8.1f} {first}"
    )


def report(results: Results, out: Path) -> None:
    """Print the table, keep the figures, and draw them."""
    print(HEAD)
    for cell in results.cells:
        print(line(cell))
    before, most = results.resident_mib
    print(f"memory of the server: {before:.0f} MiB, later at most {most:.0f} MiB")
    told = json.dumps(asdict(results), indent=1)
    (out / "transcription.json").write_text(told, encoding="utf-8")
    draw(results.cells, SHARE, out / "transcription.png")
    print(f"plot: {out / 'transcription.png'}")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What is asked for; a short run has other defaults."""
    assert __doc__
    parser = argparse.ArgumentParser(prog="benchmarks.transcription", description=__doc__[:80])
    parser.add_argument("--short", action="store_true", help="less than a minute")
    parser.add_argument("--clients", type=int, nargs="+", help="default: 1 2 4")
    parser.add_argument("--rounds", type=int, help="default: 3; of a short run 1")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    asked = parser.parse_args(arguments)
    asked.clients = asked.clients or ([1, 2] if asked.short else [1, 2, 4])
    asked.rounds = asked.rounds or (1 if asked.short else 3)
    return asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; return the exit status."""
    asked = parse(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    said = {text: each.pcm for text, each in asyncio.run(spoken(SENTENCES)).items()}
    recording = make(said, SHORT_SECONDS if asked.short else SECONDS, asked.out)
    results = asyncio.run(run(recording, asked.clients, asked.rounds, asked.out))
    print(f"{recording.seconds:.0f} s of audio")
    report(results, asked.out)
    problems = missed(results.cells)
    for problem in problems:
        print(f"MISSED {problem}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
