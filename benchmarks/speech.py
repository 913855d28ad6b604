"""How soon and how fast texts are spoken, beside other servers with the same voice.

    python -m benchmarks.speech [--short] [--clients 1 2 4 8] [--only NAME ...] [--out out/bench]

Ours, ``piper.http_server`` and ``wyoming-piper`` (each of these in an environment of its own)
speak one and three sentences for 1 to 8 clients, each of which asks again as soon as its audio
is complete. All beginnings of a cell fall together. The servers take turns in parts of each
cell, and one alone works at a time.

Printed: from the request to the first byte of sound, to the last (both medians), seconds of
audio made in a second, and how often a player that begins with the first byte ran dry. Beside
it the floor of the first byte: the first clause of the text through the talker, and the smallest
chunk of it decoded, with nothing else at work. The exit status is 1 where a limit is missed:
first byte 100 ms with one client and 400 ms with four, no underrun with four, and 0.95 of the
audio that Piper makes in the same time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path

from benchmarks.peers import PIPER_HTTP, WYOMING, make_all, running
from benchmarks.server import ServerProcess
from benchmarks.speech_clients import Client, Heard, ours, piper_http, wyoming
from benchmarks.speech_plot import draw

from antiphon.engines.catalog import default_cache_root, require
from antiphon.engines.deployment import LADDER
from antiphon.engines.speech.clauses import ClauseSplitter
from antiphon.engines.speech.decoding import Decoder
from antiphon.engines.speech.talker import WINDOWS
from antiphon.engines.speech.voices.family import family_of, read_model

FIRST_MS = {1: 100.0, 4: 400.0}
"""Limits of the median, by number of clients."""

SHARE = 0.95
"""Of what Piper makes."""

NO_UNDERRUN = 4
"""With so many clients."""

TEXTS = {
    "1": ("The light of the evening takes a longer way, and so it turns red.",),
    "3": (
        "The light of the evening takes a longer way, and so it turns red.",
        "Bees collect nectar from flowers and carry it home.",
        "There they turn it into honey, which keeps for many years.",
    ),
}

REQUESTS = 24
"""In a cell, at least, over all its clients; of each client at least two a round."""

SHORT_REQUESTS = 3

ROUNDS = 3
"""Parts of a cell. The servers take turns in each, as a machine is quicker at times."""

TRIES = 5
"""Of the floor; the quickest counts."""

OURS, PIPER = "antiphon", "piper http"

CONFIG = Path(__file__).parent.parent / "deploy" / "scripted.yaml"


@dataclass(frozen=True)
class Cell:
    """What one server did for so many clients."""

    server: str
    sentences: str
    clients: int
    first_ms: float
    first_p95_ms: float
    total_ms: float
    speed: float
    """Seconds of audio made in a second."""

    underruns: int
    silence_ms: float


def floor_ms(text: str) -> float:
    """From a text to its first samples, at the quickest, without any server."""
    _, folder = require("piper-joe", default_cache_root(os.environ))
    model = read_model(folder)
    talker = family_of(model).load_talker(folder, 1, 1.0)
    decoder = Decoder(family_of(model).load_decoder(folder, 1))
    splitter = ClauseSplitter()
    first = [*splitter.feed(text), *splitter.flush()][0].text
    took: list[float] = []
    for _ in range(TRIES):
        began = time.perf_counter()
        draft = talker.draft(first, 1.0, model.voices[0])
        assert draft is not None
        frames = draft.next(WINDOWS[0]).frames[:, : LADDER[0] + model.context_frames]
        decoder.decode(frames, 0, model.context_frames)
        took.append(time.perf_counter() - began)
    return 1000 * min(took)


@dataclass
class Told:
    """What was measured of a cell so far."""

    seconds: float = 0.0
    heard: list[Heard] = field(default_factory=list[Heard])


async def measure(
    pool: ThreadPoolExecutor, client: Client, text: str, clients: int, requests: int, told: Told
) -> None:
    """Have so many clients ask so many times each."""
    loop = asyncio.get_running_loop()

    def ask() -> list[Heard]:
        return [client(text) for _ in range(requests)]

    began = time.perf_counter()
    each = await asyncio.gather(*(loop.run_in_executor(pool, ask) for _ in range(clients)))
    told.seconds += time.perf_counter() - began
    told.heard += [one for of in each for one in of]


def cell_of(name: str, sentences: str, clients: int, told: Told) -> Cell:
    """What comes of it."""
    heard = told.heard
    firsts = sorted(one.first_ms for one in heard)
    return Cell(
        server=name,
        sentences=sentences,
        clients=clients,
        first_ms=statistics.median(firsts),
        first_p95_ms=firsts[round(0.95 * (len(firsts) - 1))],
        total_ms=statistics.median(one.total_ms for one in heard),
        speed=sum(one.audio_ms for one in heard) / 1000 / told.seconds,
        underruns=sum(one.underruns for one in heard),
        silence_ms=sum(one.silence_ms for one in heard),
    )


async def run(asked: argparse.Namespace) -> list[Cell]:
    """Run all cells."""
    rounds = 1 if asked.short else ROUNDS
    cells: list[Cell] = []
    with ThreadPoolExecutor(max(asked.clients)) as pool:
        async with (
            ServerProcess.started(CONFIG) as own,
            running(PIPER_HTTP) as piper_port,
            running(WYOMING) as wyoming_port,
        ):
            own_port = int(own.server.address.host.rpartition(":")[2])
            servers = {
                OURS: ours(own_port),
                PIPER: piper_http(piper_port),
                "wyoming": wyoming(wyoming_port),
            }
            servers = {name: servers[name] for name in asked.only or servers}
            for client in servers.values():
                # Models are slow the first time.
                await measure(pool, client, TEXTS["1"][0], max(asked.clients), 1, Told())
            for sentences, parts in TEXTS.items():
                text = " ".join(parts)
                for clients in asked.clients:
                    requests = SHORT_REQUESTS if asked.short else _requests(clients)
                    told = {name: Told() for name in servers}
                    for _, (name, client) in product(range(rounds), servers.items()):
                        await measure(pool, client, text, clients, requests, told[name])
                    for name in servers:
                        cells.append(cell_of(name, sentences, clients, told[name]))
                        print(_line(cells[-1]), flush=True)
    return cells


def _requests(clients: int) -> int:
    """Of each client in a round."""
    return max(2, REQUESTS // (ROUNDS * clients))


def missed(cells: Sequence[Cell]) -> list[str]:
    """What is beyond its limit, in words."""
    told: list[str] = []
    for own in (cell for cell in cells if cell.server == OURS):
        where = f"{own.sentences} sentences, {own.clients} clients"
        limit = FIRST_MS.get(own.clients)
        if limit is not None and own.first_ms > limit:
            told.append(f"{where}: first byte after {own.first_ms:.0f} ms, limit {limit:.0f}")
        if own.clients == NO_UNDERRUN and own.underruns:
            told.append(f"{where}: {own.underruns} underruns, {own.silence_ms:.0f} ms")
        for peer in cells:
            same = (peer.sentences, peer.clients) == (own.sentences, own.clients)
            if same and peer.server == PIPER and own.speed < SHARE * peer.speed:
                told.append(f"{where}: {own.speed:.1f} s of audio a second, piper {peer.speed:.1f}")
    return told


HEAD = "server      sentences clients   first p50    p95     total   audio s/s  underruns"


def _line(cell: Cell) -> str:
    return (
        f"{cell.server:<12} {cell.sentences:>8} {cell.clients:>7} {cell.first_ms:>8.0f} ms"
        f" {cell.first_p95_ms:>6.0f} {cell.total_ms:>6.0f} ms {cell.speed:>10.2f}"
        f" {cell.underruns:>5}, {cell.silence_ms:.0f} ms"
    )


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    assert __doc__
    parser = argparse.ArgumentParser(prog="benchmarks.speech", description=__doc__.split("\n")[0])
    parser.add_argument("--short", action="store_true", help="half the requests, fewer clients")
    parser.add_argument("--clients", type=int, nargs="+", help="default: 1 2 4 8")
    parser.add_argument("--only", nargs="+", choices=[OURS, PIPER, "wyoming"])
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    asked = parser.parse_args(arguments)
    asked.clients = asked.clients or ([1, 4] if asked.short else [1, 2, 4, 8])
    return asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; return the exit status."""
    asked = _arguments(arguments)
    asyncio.run(make_all())
    floors = {name: floor_ms(" ".join(text)) for name, text in TEXTS.items()}
    print(f"floor of the first byte: {max(floors.values()):.0f} ms\n{HEAD}", flush=True)
    cells = asyncio.run(run(asked))
    asked.out.mkdir(parents=True, exist_ok=True)
    told = {"floor_ms": floors, "cells": [asdict(cell) for cell in cells]}
    (asked.out / "speech.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
    draw(cells, FIRST_MS, max(floors.values()), asked.out / "speech.png")
    print(f"plot: {asked.out / 'speech.png'}")
    problems = missed(cells)
    for problem in problems:
        print(f"MISSED {problem}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
