# pyright: reportPrivateUsage=false
"""What streaming decoders cost, against decoding all at once and against windows decoded anew.

    python -m benchmarks.code2wav [--short] [--codecs snac-24k ...] [--device cuda] [--out out/bench]

Codecs of full size with random weights; no models are fetched. On a CPU one thread is used and
its own time counted, so that other programs count less; on a GPU time is what passes. Modes are
``eager``, on a GPU also ``kernel`` (fused kernels) and ``graph`` (captured ones of these).

Limits, for SNAC and DAC; the exit status is 1 where one is missed:

- work (products that are added up) of a stream of 5 s in pushes of 8 frames: at most 1.05 of that
  of a whole decode;
- its time: at most 1.15;
- first audio of SNAC after 18 tokens of Orpheus.

Beside them is the work of those who decode windows anew: four frames for one (SNAC), ten on each
side of eight (DAC), fifteen ahead of each (NanoCodec).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from benchmarks.code2wav_codecs import CODECS, Codec
from benchmarks.code2wav_plot import draw

from antiphon.engines.speech.decoders.decoder import Codes, DecoderOptions
from antiphon.engines.speech.families.orpheus import SLOTS
from antiphon.engines.speech.kernels.dispatch import references_only
from antiphon.engines.speech.streaming.graphs import GraphStep
from antiphon.engines.speech.streaming.runner import StreamRunner
from antiphon.engines.speech.tokens.layout import Layout, TokenBlock
from antiphon.engines.speech.tokens.splitter import Splitter

SECONDS = 5.0
FRAMES = (1, 2, 4, 8, 16)
LIMITED = ("snac-24k", "dac-24k")
MOST_WORK, MOST_TIME, MOST_TOKENS = 1.05, 1.15, 18
THEIR_TOKENS = 28
"""Of Orpheus's own package: four frames for the first."""


@dataclass(frozen=True, slots=True)
class Push:
    """One size of push."""

    codec: str
    mode: str
    frames: int
    batch: int
    ms: float
    rtf: float
    """Seconds for a second of audio of one stream."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A stream of five seconds beside a whole decode, in eager mode."""

    codec: str
    work: float
    time: float
    window_work: float | None
    rtf: float
    window_rtf: float | None


class Clock:
    """Times work on a device."""

    def __init__(self, device: str) -> None:
        self._now = time.thread_time if device == "cpu" else time.perf_counter

    def best(self, work: Callable[[], object], turns: int) -> float:
        """Seconds of the fastest of some turns. Samples are numpy arrays, so the device is done."""
        times: list[float] = []
        for _ in range(turns):
            began = self._now()
            work()
            times.append(self._now() - began)
        return min(times)


def stream(decoder: StreamRunner, codes: Codes, steps: int) -> None:
    """Push ``codes`` by so many steps."""
    state = decoder.open()
    for at in range(0, codes.shape[1], steps):
        decoder.push([state], [codes[:, at : at + steps]], [at + steps >= codes.shape[1]])


def operations(work: Callable[[], object]) -> int:
    """Products that are added up."""
    # Takes seconds, which the tests of the others here would pay.
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops()) // 2


def compared(codec: Codec, device: str, turns: int) -> Whole:
    """Measure a stream beside a whole decode, and windows beside both."""
    decoder, clock = codec.decoder(DecoderOptions(device=device)), Clock(device)
    card = decoder.card
    step = 8 * codec.frame
    frames = round(SECONDS * card.sample_rate / (card.hop * codec.frame))
    codes = codec.codes(decoder, frames)
    seconds = codes.shape[1] * card.hop / card.sample_rate
    whole, ours = (lambda: decoder.decode(codes)), (lambda: stream(decoder, codes, step))
    with references_only():
        work = operations(whole)
        own_work = operations(ours)
        # In turns, so that what disturbs one disturbs the other.
        pairs = [(clock.best(whole, 1), clock.best(ours, 1)) for _ in range(turns)]
        took, own = (min(pair[side] for pair in pairs) for side in (0, 1))
        window_work = window_rtf = None
        if codec.window is not None:
            given = codec.window[1]
            window = codes[:, : sum(codec.window) * codec.frame]
            again = frames / given
            window_work = operations(lambda: decoder.decode(window)) * again / work
            window_rtf = clock.best(lambda: decoder.decode(window), 2 * turns) * again / seconds
    return Whole(codec.name, own_work / work, own / took, window_work, took / seconds, window_rtf)


def modes_of(device: str) -> tuple[str, ...]:
    """What there is to compare on a device."""
    return ("eager",) if device == "cpu" else ("eager", "kernel", "graph")


def pushes(
    codec: Codec, device: str, mode: str, frames: Sequence[int], batches: Sequence[int], turns: int
) -> list[Push]:
    """Measure pushes in the middle of streams."""
    ladder = tuple(each * codec.frame for each in frames) if mode == "graph" else ()
    options = DecoderOptions(device=device, ladder=ladder, batch=max(batches))
    decoder, clock = codec.decoder(options), Clock(device)
    if mode == "graph" and not isinstance(decoder._step, GraphStep):
        return []
    results: list[Push] = []
    with references_only() if mode == "eager" else nullcontext():
        for batch in batches:
            for each in frames:
                took = push_seconds(codec, decoder, each, batch, clock, turns)
                audio = each * codec.frame * decoder.card.hop / decoder.card.sample_rate
                results.append(
                    Push(codec.name, mode, each, batch, 1000 * took, took / (audio * batch))
                )
    return results


def push_seconds(
    codec: Codec, decoder: StreamRunner, frames: int, batch: int, clock: Clock, turns: int
) -> float:
    """Time a push of some streams that are past their start, where values are masked."""
    codes = [codec.codes(decoder, frames, seed) for seed in range(batch)]
    states = [decoder.open() for _ in range(batch)]
    start = -(-decoder.card.lookahead // decoder.card.hop) // codec.frame + 1

    def push() -> None:
        decoder.push(states, codes, [False] * batch)

    for _ in range(-(-start // frames) + 1):
        push()
    return clock.best(push, turns)


def first_audio_tokens(decoder: StreamRunner) -> int:
    """Tokens of Orpheus after which SNAC gives the first sample."""
    size = decoder.card.sizes[0]
    blocks = tuple(TokenBlock(size * place, size) for place in range(len(SLOTS)))
    splitter = Splitter(Layout(SLOTS, blocks, steps=4, codebooks=3))
    state, random = decoder.open(), np.random.default_rng(0)
    for count in range(1, 1000):
        token = blocks[(count - 1) % len(SLOTS)].base + int(random.integers(size))
        for split in splitter.feed([token]):
            if split.codes.shape[1] and decoder.push([state], [split.codes], [False])[0].size:
                return count
    raise RuntimeError("expected audio of SNAC, got none")


def table(results: Sequence[Push]) -> str:
    """Return the pushes, in Markdown: ms, and seconds for a second of audio of one stream."""
    sizes = sorted({push.frames for push in results})
    rows = [
        f"| codec | mode | streams | {' | '.join(f'{size} frames' for size in sizes)} |",
        "|---" * (len(sizes) + 3) + "|",
    ]
    for codec, mode, batch in dict.fromkeys((p.codec, p.mode, p.batch) for p in results):
        cells = {
            push.frames: f"{push.ms:.1f} ms, {push.rtf:.4f}"
            for push in results
            if (push.codec, push.mode, push.batch) == (codec, mode, batch)
        }
        line = " | ".join(cells.get(size, "") for size in sizes)
        rows.append(f"| {codec} | {mode} | {batch} | {line} |")
    return "\n".join(rows)


def comparison(results: Sequence[Whole]) -> str:
    """Return streams beside whole decodes and windows, in Markdown."""
    rows = [
        "| codec | work of a stream | its time | work of windows | whole decode, RTF | windows, RTF |",
        "|---|---|---|---|---|---|",
    ]
    for each in results:
        work = "" if each.window_work is None else f"{each.window_work:.2f}"
        rtf = "" if each.window_rtf is None else f"{each.window_rtf:.4f}"
        rows.append(
            f"| {each.codec} | {each.work:.3f} | {each.time:.2f} | {work} | {each.rtf:.4f} | {rtf} |"
        )
    return "\n".join(rows)


def missed(results: Sequence[Whole], tokens: int | None) -> list[str]:
    """Say which limits are missed."""
    lines: list[str] = []
    for each in results:
        if each.codec not in LIMITED:
            continue
        if each.work > MOST_WORK:
            lines.append(f"{each.codec}: work {each.work:.3f} of a whole decode, limit {MOST_WORK}")
        if each.time > MOST_TIME:
            lines.append(f"{each.codec}: time {each.time:.2f} of a whole decode, limit {MOST_TIME}")
    if tokens is not None and tokens > MOST_TOKENS:
        lines.append(f"snac-24k: first audio after {tokens} tokens, limit {MOST_TOKENS}")
    return lines


def sizes(*, on_cpu: bool, short: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return how many streams, and frames of a push. A CPU does streams one after the other, so
    that many of them tell nothing new."""
    if on_cpu:
        return ((1, 4), (1, 8)) if short else ((1, 2, 4, 8), FRAMES)
    return ((1, 8, 64) if short else (1, 2, 4, 8, 16, 32, 64)), FRAMES


def main() -> None:
    """Measure, print, draw, and exit with 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--short", action="store_true", help="SNAC and DAC, one and few streams")
    parser.add_argument("--codecs", nargs="+", choices=[codec.name for codec in CODECS])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    names = args.codecs or (LIMITED if args.short else [codec.name for codec in CODECS])
    chosen = [codec for codec in CODECS if codec.name in names]
    batches, frames = sizes(on_cpu=args.device == "cpu", short=args.short)
    turns = 2 if args.short else 4
    wholes = [compared(codec, args.device, turns) for codec in chosen]
    print(f"A stream of {SECONDS:g} s in pushes of 8 frames, of a whole decode; {args.device}:\n")
    print(f"{comparison(wholes)}\n")
    tokens = None
    if "snac-24k" in names:
        snac = CODECS[0].decoder(DecoderOptions(device=args.device))
        tokens = first_audio_tokens(snac)
        print(f"first audio of Orpheus after {tokens} tokens (its own package: {THEIR_TOKENS})\n")
    made = [
        push
        for codec in chosen
        for mode in modes_of(args.device)
        for push in pushes(codec, args.device, mode, frames, batches, turns)
    ]
    print(f"A push: time, and time for a second of audio of one stream:\n\n{table(made)}\n")
    args.out.mkdir(parents=True, exist_ok=True)
    path: Path = args.out / "code2wav.png"
    windows = {each.codec: each.window_rtf for each in wholes if each.window_rtf is not None}
    draw(made, {each.codec: each.rtf for each in wholes}, windows, path)
    print(f"drawn: {path}")
    wrong = missed(wholes, tokens)
    for line in wrong:
        print(f"MISSED {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
