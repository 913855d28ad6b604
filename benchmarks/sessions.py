"""How many whole conversations one server carries, and what their listeners hear.

    python -m benchmarks.sessions [--short] [--sessions 1 2 4 8 12 16] [--out out/bench]

The server has real voice activity, talker and code2wav, and a scripted recognizer and
language model. People in another process, out of phase with each other, ask aloud with
300 ms of silence to end a turn, listen in real time to an answer of two to four sentences,
and ask again. Half of them report their playback; the others are stock clients. Beside it,
in the same run, the same load with the fixed ladder of chunks, and with nobody reporting.

Printed for each number of sessions: from the end of the last word to the first sound, the
same from the server's notice that the turn is over (TTFA), underruns as a listener without
any cushion hears them, and what the server takes. The exit status is 1 where a limit is
missed: with eight sessions no underrun and at most 900 ms at the median; 900 MiB with up to
sixteen.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import uvloop
from benchmarks.caller import Question, spoken
from benchmarks.figures import percentile
from benchmarks.server import ServerProcess
from benchmarks.session_clients import Load, Turn, hold
from benchmarks.sessions_plot import draw

from antiphon.web.watchdog import Watchdog

SESSIONS, LATENCY_MS, MEMORY_MIB, MEMORY_SESSIONS = 8, 900.0, 900.0, 16
"""The limits: with so many sessions no underrun, and so long at the median; so much memory
with so many."""

GAPS_MS = 100.0
"""A response with more silence inside than this is not continuous."""

QUESTIONS = (
    "What is the capital city of France?",
    "How many days are there in a week?",
    "Can you tell me why the sky is blue?",
    "What do bees make from flowers?",
    "Which animal is the largest in the sea?",
)
ANSWERS = (
    "Certainly. That is a very good question, and the answer is quite simple.",
    "Let me think. There are seven of them, and each has a name of its own. The last two are free.",
    "The air scatters blue light more than red light. In the evening the light takes a longer "
    "way, and the sky turns red.",
    "They collect nectar and carry it home. There they turn it into honey. It keeps for years. "
    "People have eaten it for a very long time.",
    "It is the blue whale. It can be thirty meters long, and it eats nothing but tiny animals.",
)

CYCLE_S = 8.0
"""About the length of a turn, over which beginnings are spread."""

BEFORE_S = 0.5
"""Of counting, ahead of who comes last."""

SAMPLE_S = 0.5
"""Between two looks at the server's memory."""

TURN_LIMIT_S = 60.0
"""In which the last turns have to end."""

NEVER = Turn(
    latency_ms=math.inf,
    ttfa_ms=math.inf,
    audio_ms=0,
    underruns=0,
    gap_ms=0,
    reported=False,
    status="unfinished",
)
"""One that has not."""


@dataclass(frozen=True)
class Column:
    """A way to serve the load."""

    name: str
    code2wav: dict[str, object]
    reports: bool = True
    """Whether half of the listeners report their playback; else none."""


COLUMNS = (
    Column("ramp", {"rule": "ramp"}),
    Column("fixed", {"rule": "fixed", "ladder": [4, 8, 16, 32]}),
    Column("unreported", {"rule": "ramp"}, reports=False),
)


@dataclass
class Measured:
    """What one column did with so many sessions."""

    column: str
    sessions: int
    turns: list[Turn] = field(default_factory=list[Turn])
    lag_p99_ms: float = 0.0
    lag_max_ms: float = 0.0
    cpu: float = 0.0
    """Cores' worth of time that the server took."""

    resident_mib: float = 0.0
    """The most that it had in memory."""

    shared_out_mib: float = 0.0
    """At the end, each shared page counted by its share."""

    refused: int = 0
    delayed: int = 0
    client_lag_p99_ms: float = 0.0
    """How late the people themselves are: well below what is measured, or it means little."""

    @property
    def answered(self) -> list[Turn]:
        return [turn for turn in self.turns if turn.answered]

    @property
    def underruns(self) -> int:
        return sum(turn.underruns for turn in self.answered)

    @property
    def gap_ms(self) -> float:
        return sum(turn.gap_ms for turn in self.answered)

    @property
    def broken(self) -> float:
        """Share of the answers that were not continuous."""
        answered = self.answered
        return sum(turn.gap_ms > GAPS_MS for turn in answered) / len(answered) if answered else 0.0

    def latency_ms(self, share: float) -> float:
        return percentile([turn.latency_ms for turn in self.answered] or [math.inf], share)

    def ttfa_ms(self, share: float) -> float:
        return percentile([turn.ttfa_ms for turn in self.answered] or [math.inf], share)


async def measure(
    server: ServerProcess,
    column: Column,
    sessions: int,
    questions: Sequence[Question],
    seconds: float,
    *,
    cycle_s: float = CYCLE_S,
) -> Measured:
    """Load the server; what begins in ``seconds`` after all have begun is counted.

    ``cycle_s``: over which the beginnings are spread.
    """
    load, result = Load(), Measured(column.name, sessions)
    watchdog = Watchdog()
    people = [
        asyncio.create_task(
            _come(load, server, column, questions, number, cycle_s * number / sessions)
        )
        for number in range(sessions)
    ]
    # The first turn of who comes last counts already.
    ahead_s = cycle_s * (1 - 1 / sessions)
    referee = asyncio.create_task(_judge(load, server, watchdog, result, ahead_s, seconds))
    try:
        await asyncio.wait([*people, referee], return_when=asyncio.FIRST_COMPLETED)
        if not referee.done():
            # Only what fails ends by itself.
            await asyncio.gather(*(each for each in people if each.done()))
        await referee
    finally:
        for task in (*people, referee):
            task.cancel()
        await asyncio.gather(*people, referee, return_exceptions=True)
        await watchdog.stop()
    result.turns = load.turns
    return result


async def _come(
    load: Load,
    server: ServerProcess,
    column: Column,
    questions: Sequence[Question],
    number: int,
    after_s: float,
) -> None:
    await asyncio.sleep(BEFORE_S + after_s)
    reports = column.reports and number % 2 == 0
    await hold(load, server.socket_url, questions, number, reports=reports)


async def _judge(
    load: Load,
    server: ServerProcess,
    watchdog: Watchdog,
    result: Measured,
    ahead_s: float,
    seconds: float,
) -> None:
    """Say when turns count, and note what the server takes meanwhile."""
    await asyncio.sleep(ahead_s)
    before = (await server.status(reset_loop=True))["stages"]["reply"]
    began, spent = time.monotonic(), server.cpu_s()
    watchdog.start()
    load.counting = True
    while time.monotonic() < began + seconds:
        await asyncio.sleep(SAMPLE_S)
        result.resident_mib = max(result.resident_mib, server.resident_mib())
    load.counting = False
    result.cpu = (server.cpu_s() - spent) / (time.monotonic() - began)
    with suppress(TimeoutError):
        async with asyncio.timeout(TURN_LIMIT_S):
            while load.under_way:  # noqa: ASYNC110 - other tasks count it, and no event tells
                await asyncio.sleep(0.1)
    load.turns += [NEVER] * load.under_way
    result.resident_mib = max(result.resident_mib, server.resident_mib())
    result.shared_out_mib = float(server.memory_mib())
    status = await server.status()
    result.lag_p99_ms, result.lag_max_ms = status["loop"]["p99_ms"], status["loop"]["worst_ms"]
    reply = status["stages"]["reply"]
    result.refused = int(reply.get("refused", 0) - before.get("refused", 0))
    result.delayed = int(reply.get("delayed", 0) - before.get("delayed", 0))
    result.client_lag_p99_ms = watchdog.statistics().p99_ms


def missed_limits(results: Sequence[Measured]) -> list[str]:
    """Return the limits that our way misses, each in a line."""
    missed = list[str]()
    for result in results:
        if result.column != COLUMNS[0].name:
            continue
        name = f"{result.column}, {result.sessions} sessions"
        if not result.answered:
            missed.append(f"{name}: no turn was answered")
        if result.sessions <= SESSIONS and len(result.answered) < len(result.turns):
            unanswered = len(result.turns) - len(result.answered)
            missed.append(f"{name}: {unanswered} of {len(result.turns)} turns were not answered")
        if result.sessions <= SESSIONS and result.underruns:
            missed.append(f"{name}: {result.underruns} underruns, {result.gap_ms:.0f} ms, not none")
        if result.sessions <= SESSIONS and (p50 := result.latency_ms(0.5)) > LATENCY_MS:
            missed.append(f"{name}: p50 {p50:.0f} ms, not {LATENCY_MS:.0f}")
        if result.sessions <= MEMORY_SESSIONS and result.resident_mib > MEMORY_MIB:
            missed.append(f"{name}: {result.resident_mib:.0f} MiB, not {MEMORY_MIB:.0f}")
    return missed


HEADER = (
    f"{'column':>10} {'sessions':>8} {'turns':>5}  {'end->audio':>11}  {'TTFA':>11}"
    f"  {'underruns':>17} {'broken':>6}  {'loop lag':>11} {'cpu':>4}  {'rss':>4} {'pss':>4}"
    f"  {'refused':>7} {'delayed':>7}  {'client':>6}\n"
    f"{'':>10} {'':>8} {'':>5}  {'p50   p95':>11}  {'p50   p95':>11}"
    f"  {'n  reported/stock':>17} {'%':>6}  {'p99   max':>11} {'%':>4}  {'MiB':>4} {'MiB':>4}"
    f"  {'':>7} {'':>7}  {'lag':>6}"
)


def report(result: Measured) -> None:
    """Print a line; times are ms."""
    gaps = [
        sum(turn.gap_ms for turn in result.answered if turn.reported is reported)
        for reported in (True, False)
    ]
    heard = f"{result.underruns}  {gaps[0]:.0f}/{gaps[1]:.0f} ms"
    print(
        f"{result.column:>10} {result.sessions:>8} {len(result.answered):>5}"
        f"  {result.latency_ms(0.5):>5.0f} {result.latency_ms(0.95):>5.0f}"
        f"  {result.ttfa_ms(0.5):>5.0f} {result.ttfa_ms(0.95):>5.0f}"
        f"  {heard:>17} {100 * result.broken:>6.0f}"
        f"  {result.lag_p99_ms:>5.1f} {result.lag_max_ms:>5.1f} {100 * result.cpu:>4.0f}"
        f"  {result.resident_mib:>4.0f} {result.shared_out_mib:>4.0f}"
        f"  {result.refused:>7} {result.delayed:>7}  {result.client_lag_p99_ms:>6.1f}",
        flush=True,
    )


def deployment(column: Column, answers: Sequence[str]) -> dict[str, Any]:
    """What serves a column."""
    return {
        "model": f"sessions-{column.name}",
        "stages": {
            "recognizer": {"use": "scripted", "lines": list(QUESTIONS)},
            "ar": {"use": "scripted", "lines": list(answers), "tokens_per_second": 30},
            "code2wav": column.code2wav,
        },
    }


async def run(args: argparse.Namespace) -> int:
    """Measure everything; return the exit status."""
    args.out.mkdir(parents=True, exist_ok=True)
    said = await spoken(QUESTIONS)
    questions = [said[text] for text in QUESTIONS]
    results: list[Measured] = []
    print(HEADER)
    for column in COLUMNS:
        if column.name not in args.columns:
            continue
        # A short run compares under the highest load alone.
        sessions = args.sessions[-1:] if args.short and results else args.sessions
        path = args.out / f"sessions-{column.name}.yaml"
        # JSON is YAML.
        path.write_text(json.dumps(deployment(column, ANSWERS), indent=1))
        async with ServerProcess.started(path) as server:
            for number in sessions:
                result = await measure(server, column, number, questions, args.seconds)
                results.append(result)
                report(result)
    write(results, args.out)
    missed = missed_limits(results)
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


def write(results: Sequence[Measured], out: Path) -> None:
    """Keep the figures, and draw them."""
    (out / "sessions.json").write_text(json.dumps([asdict(each) for each in results], indent=1))
    draw(results, LATENCY_MS, MEMORY_MIB, out / "sessions.png")
    print(f"plot: {out / 'sessions.png'}")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What is asked for; a short run has other defaults."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    names = [column.name for column in COLUMNS]
    parser.add_argument("--short", action="store_true", help="less than two minutes")
    parser.add_argument("--sessions", type=int, nargs="+", help="at once")
    parser.add_argument("--seconds", type=float, help="in which turns begin that count")
    parser.add_argument("--columns", nargs="+", choices=names)
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args(arguments)
    args.sessions = sorted(args.sessions or ([1, 4, 8] if args.short else [1, 2, 4, 8, 12, 16]))
    args.seconds = args.seconds or (10.0 if args.short else 40.0)
    args.columns = args.columns or (names[:2] if args.short else names)
    return args


def main() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(run(parse())))


if __name__ == "__main__":
    main()
