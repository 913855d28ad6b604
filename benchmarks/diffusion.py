"""What a job costs beside calling diffusers' pipeline in a plain loop, and what it does to talk.

    python -m benchmarks.diffusion [--short] [--parts job batch stop talk] [--out out/bench]

Pipelines have random weights: ``sd-256`` is a small Stable Diffusion at 256 pixels, ``tiny-64``
the placeholder, whose calls are so small that a step is mostly Python's. In one run, in turns,
with the same seeds:

``job``: one picture by the plain loop, which saves a PNG; by the Diffuser alone, beside the loop
without the PNG; and by a worker process with SQLite and files on disk, from the moment that it
takes the job to the end of its record, with PNG, thumbnail, progress, previews and a checkpoint.
``batch``: eight pictures that arrive over time, one by one by the loop, and by the Diffuser.
``stop``: from a job's DELETE to the rest of the model.
``talk``: one server, at which four people talk, alone and while clips are made and asked after.

Each way has one thread for the model. Where the loop got less than nine tenths of a core, others
took the rest, and overhead and throughput are judged by processor time, of which a worker may
take a tenth more for its looks at the queue and for what it writes. The exit status is 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.diffusion_models import CASES, ONE_THREAD, Case, Plain
from benchmarks.diffusion_plot import draw
from benchmarks.diffusion_talk import Talk, measure_talk, missed_of_talk
from benchmarks.diffusion_worker import office

from antiphon.engines.diffusion.pipeline_diffuser import PipelineDiffuser
from antiphon.engines.diffusion.switches import DiffuserConfig
from antiphon.engines.diffusion.task import MediaTask

OVERHEAD = 0.03
"""Of a picture's time in the plain loop, where the model is all of the work."""

BUSY = 0.9
"""Of a core, that the loop gets at least where times mean something."""

OVERHEAD_BUSY = {"alone": 0.03, "worker": 0.10}
"""Of the loop's processor time."""

OVERHEAD_MS = {"alone": 8.0, "worker": 45.0}
"""The same where a picture takes a tenth of a second, and one per cent is a millisecond."""

STOP_STEPS, STOP_SECONDS = 2.0, 0.12
"""From a DELETE to rest: so many steps, or so long where steps are shorter than looks."""

ARRIVALS = 8
SPREAD = 0.25
"""Of a picture's time, between two arrivals."""

PARTS = ("job", "batch", "stop", "talk")


@dataclass
class Measured:
    """What came of one pipeline; times in seconds."""

    case: str
    made: list[float] = field(default_factory=list[float])
    """By the loop, without the file."""

    saved: list[float] = field(default_factory=list[float])
    """By the loop, as a file."""

    alone: list[float] = field(default_factory=list[float])
    """By the Diffuser."""

    worker: list[float] = field(default_factory=list[float])
    """By the worker, from its claim to the end."""

    waited: list[float] = field(default_factory=list[float])
    """From the POST to the claim."""

    saved_cpu: list[float] = field(default_factory=list[float])
    alone_cpu: list[float] = field(default_factory=list[float])
    worker_cpu: list[float] = field(default_factory=list[float])
    """Processor time of the same, in all threads."""

    one_by_one: list[float] = field(default_factory=list[float])
    together: list[float] = field(default_factory=list[float])
    """Eight pictures, from the first arrival to the last end."""

    one_by_one_cpu: list[float] = field(default_factory=list[float])
    together_cpu: list[float] = field(default_factory=list[float])

    rows: float = 0.0
    """Pictures of a forward, at the mean of the last round."""

    stops: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """From DELETE to rest, and a step."""

    def over(self, ours: str, base: str) -> float:
        """Overhead as a share: the median of rounds, as a round's two are close in time."""
        return median(mine / plain for mine, plain in self._pairs(ours, base)) - 1

    def over_ms(self, ours: str, base: str) -> float:
        return 1000 * median(mine - plain for mine, plain in self._pairs(ours, base))

    def _pairs(self, ours: str, base: str) -> list[tuple[float, float]]:
        return list(zip(getattr(self, ours), getattr(self, base), strict=True))

    @property
    def core(self) -> float:
        """Of a core, what the loop got."""
        times, spent = self.saved + self.one_by_one, self.saved_cpu + self.one_by_one_cpu
        return median(cpu / wall for cpu, wall in zip(spent, times, strict=True))

    @property
    def gain(self) -> float:
        """Throughput together, beside one by one."""
        busy = self.core < BUSY
        alone, ours = (
            (self.one_by_one_cpu, self.together_cpu) if busy else (self.one_by_one, self.together)
        )
        return median(mine / plain for plain, mine in zip(ours, alone, strict=True))


async def measure_jobs(
    case: Case, plain: Plain, diffuser: PipelineDiffuser, folder: Path, out: Path, rounds: int
) -> Measured:
    """One picture, three ways in turns."""
    result, png = Measured(case.name), out / "plain.png"
    async with office(folder, case, out, watched=False) as ours:
        for seed in range(-1, rounds):
            task = case.task(seed + 1)
            spent = time.process_time()
            made, saved = plain.make(task.seed, png)
            spent = time.process_time() - spent
            alone, alone_cpu = await _by_diffuser(diffuser, task)
            before = ours.cpu_s()
            job = await ours.made(task)
            # The first round warms all of them up.
            if seed < 0 or job.ended_at is None or job.started_at is None:
                continue
            result.made.append(made)
            result.saved.append(saved)
            result.saved_cpu.append(spent)
            result.alone.append(alone)
            result.alone_cpu.append(alone_cpu)
            result.worker.append(job.ended_at - job.started_at)
            result.waited.append(job.started_at - job.created_at)
            result.worker_cpu.append(ours.cpu_s() - before)
    return result


async def _by_diffuser(diffuser: PipelineDiffuser, task: MediaTask) -> tuple[float, float]:
    """Seconds, and those of processor time."""
    began, spent = time.perf_counter(), time.process_time()
    async with aclosing(diffuser.run(f"{task.seed}", task, {})) as told:
        async for _ in told:
            pass
    return time.perf_counter() - began, time.process_time() - spent


async def measure_batch(
    case: Case,
    plain: Plain,
    diffuser: PipelineDiffuser,
    result: Measured,
    out: Path,
    rounds: int,
) -> None:
    """Eight arrivals, served one after the other and together."""
    gap = SPREAD * plain.make(0, out / "plain.png")[0]
    tasks = [case.task(seed) for seed in range(ARRIVALS)]
    for _ in range(rounds):
        began, spent = time.perf_counter(), time.process_time()
        for number, task in enumerate(tasks):
            await asyncio.sleep(max(0.0, began + number * gap - time.perf_counter()))
            plain.make(task.seed, out / "plain.png")
        result.one_by_one.append(time.perf_counter() - began)
        result.one_by_one_cpu.append(time.process_time() - spent)

        forwards = len(diffuser.forwards)
        began, spent = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(_by_diffuser(diffuser, task))
                await asyncio.sleep(gap)
        result.together.append(time.perf_counter() - began)
        result.together_cpu.append(time.process_time() - spent)
        # Two rows a picture, as all have guidance. The list is bounded, and drops the oldest.
        last = diffuser.forwards[forwards:] or diffuser.forwards
        result.rows = sum(last) / len(last) / 2


async def measure_stops(case: Case, folder: Path, out: Path, result: Measured, rounds: int) -> None:
    """DELETE while a job is under way."""
    async with office(folder, case, out, watched=True) as ours:
        for number in range(rounds):
            task = case.task(number, steps=10 * case.steps)
            result.stops.append(await ours.stopped(task, progress=3))


def missed_limits(results: Sequence[Measured]) -> list[str]:
    """Return what is missed, each in a line."""
    missed = list[str]()
    for each in results:
        missed += [f"{each.case}: {line}" for line in _missed_of(each)]
    return missed


def _missed_of(result: Measured) -> list[str]:
    missed = list[str]()
    small = CASES[result.case].batched > 1
    for ours, base in (("alone", "made"), ("worker", "saved")) if result.made else ():
        busy = result.core < BUSY
        over = result.over(f"{ours}_cpu", "saved_cpu") if busy else result.over(ours, base)
        limit = OVERHEAD_BUSY[ours] if busy else OVERHEAD
        if small:
            over, limit = over * 1000 * median(result.saved), OVERHEAD_MS[ours]
        if over > limit:
            said = f"{over:.1f} ms" if small else f"{100 * over:.1f}%"
            allowed = f"{limit:.0f} ms" if small else f"{100 * limit:.0f}%"
            missed.append(f"{ours} {said} over the loop, not {allowed}")
    if result.together and result.gain < (wanted := CASES[result.case].batched):
        missed.append(f"{result.gain:.2f} of the throughput of one by one, not {wanted}")
    for rest, step in result.stops:
        if rest > max(STOP_STEPS * step, STOP_SECONDS):
            missed.append(f"at rest {1000 * rest:.0f} ms after DELETE, {rest / step:.1f} steps")
    return missed


def report(result: Measured) -> None:
    """Print what came of a pipeline; times are ms."""
    if result.made:
        print(
            f"{result.case}: loop {1000 * median(result.made):.0f}, with PNG"
            f" {1000 * median(result.saved):.0f}; Diffuser {1000 * median(result.alone):.0f}"
            f" ({100 * result.over('alone', 'made'):+.1f}%,"
            f" {result.over_ms('alone', 'made'):+.1f} ms); worker"
            f" {1000 * median(result.worker):.0f} ({100 * result.over('worker', 'saved'):+.1f}%,"
            f" {result.over_ms('worker', 'saved'):+.1f} ms);"
            f" waited {1000 * median(result.waited):.0f} before it; processor time"
            f" {100 * result.over('alone_cpu', 'saved_cpu'):+.1f}% and"
            f" {100 * result.over('worker_cpu', 'saved_cpu'):+.1f}%;"
            f" the loop had {100 * result.core:.0f}% of a core",
            flush=True,
        )
    if result.together:
        print(
            f"{result.case}: {ARRIVALS} over time, one by one {median(result.one_by_one):.2f} s,"
            f" together {median(result.together):.2f} s: {result.gain:.2f} of the throughput,"
            f" {result.rows:.1f} pictures a forward",
            flush=True,
        )
    if result.stops:
        said = ", ".join(f"{1000 * rest:.0f} ({rest / step:.1f})" for rest, step in result.stops)
        print(f"{result.case}: DELETE to rest (steps): {said}")


async def measure(case: Case, folder: Path, out: Path, args: argparse.Namespace) -> Measured:
    """All of one pipeline."""
    plain, result = Plain(folder, case), Measured(case.name)
    diffuser = PipelineDiffuser(folder, DiffuserConfig(path=str(folder), switches=ONE_THREAD))
    await diffuser.start()
    try:
        if "job" in args.parts:
            # A picture of the tiny one takes a twentieth of the time, and its times vary more.
            rounds = args.rounds * (4 if case.batched > 1 else 1)
            result = await measure_jobs(case, plain, diffuser, folder, out, rounds)
        if "batch" in args.parts:
            await measure_batch(case, plain, diffuser, result, out, 1 if args.short else 3)
    finally:
        await diffuser.close()
    if "stop" in args.parts:
        await measure_stops(case, folder, out, result, 2 if args.short else 10)
    return result


async def run(args: argparse.Namespace) -> int:
    """Measure everything; return the exit status."""
    args.out.mkdir(parents=True, exist_ok=True)
    results, talks = list[Measured](), list[Talk]()
    with tempfile.TemporaryDirectory() as scratch:
        for case in CASES.values() if set(args.parts) - {"talk"} else ():
            own = Path(scratch, case.name)
            results.append(await measure(case, case.make(own), own, args))
            report(results[-1])
        if "talk" in args.parts:
            talks = await measure_talk(Path(scratch), args.seconds, 1 if args.short else 2)
    missed = missed_limits(results) + missed_of_talk(talks)
    write(results, talks, args.out)
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


def write(results: Sequence[Measured], talks: Sequence[Talk], out: Path) -> None:
    """Keep the figures, and draw them."""
    said = {"jobs": [asdict(each) for each in results], "talk": [asdict(each) for each in talks]}
    (out / "diffusion.json").write_text(json.dumps(said, indent=1))
    draw(results, talks, out / "diffusion.png")
    print(f"plot: {out / 'diffusion.png'}")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What is asked for; a short run has other defaults."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--short", action="store_true", help="about two minutes")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, help="pictures each way")
    parser.add_argument("--seconds", type=float, help="in which turns begin that count")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args(arguments)
    args.rounds = args.rounds or (3 if args.short else 15)
    args.seconds = args.seconds or (12.0 if args.short else 30.0)
    return args


def main() -> None:
    sys.exit(asyncio.run(run(parse())))


if __name__ == "__main__":
    main()
