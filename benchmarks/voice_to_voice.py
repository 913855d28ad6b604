"""From the end of the last spoken word to the first sound of the answer, at the client.

    python -m benchmarks.voice_to_voice [--short] [--turns 20] [--sessions 1 4] [--out out/bench]

Three deployments are measured: scripted recognizer and model (what the server itself
costs), Whisper with a scripted model, and the whole embedded default. Each is spoken to
in real time with 300 ms of silence to end a turn. Printed for each: p50 and p95, where the
time goes, first audio after its clause is known, interruptions, stalls of the server's
event loop, time to ready and memory. Limits that hold at any speed of the machine are
marked in the table; the exit status is 1 when one is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.caller import Caller, Heard, Question, spoken
from benchmarks.figures import percentile
from benchmarks.plot import PARTS, draw
from benchmarks.server import ServerProcess

from antiphon.realtime.client import RealtimeClient, open_session

QUESTIONS = (
    "What is the capital city of France?",
    "How many days are there in a week?",
    "Can you tell me why the sky is blue?",
    "What do bees make from flowers?",
    "Which animal is the largest in the sea?",
)
LONG = "Please tell me a long story about a little fox who lived in the forest."
STOP = "Stop, please. That is enough for today."

ANSWER = "Certainly. That is a very good question, and the answer is quite simple."
STORY = " ".join(f"Then the little fox walked on to the village number {n}." for n in range(2, 40))


@dataclass(frozen=True)
class Case:
    """A deployment to measure, and the p50 it has to reach with one session."""

    name: str
    stages: dict[str, dict[str, object]]
    limit_ms: float

    @property
    def scripted(self) -> bool:
        """Whether the model says what it is told."""
        return any(stage is SCRIPTED_MODEL for stage in self.stages.values())


SCRIPTED_EAR: dict[str, object] = {"use": "scripted", "lines": [QUESTIONS[0]]}
SCRIPTED_MODEL: dict[str, object] = {"use": "scripted", "lines": [ANSWER], "tokens_per_second": 30}

CASES = (
    Case("scripted", {"recognizer": SCRIPTED_EAR, "ar": SCRIPTED_MODEL}, 450),
    Case("whisper", {"ar": SCRIPTED_MODEL}, 900),
    Case("whisper+vllm", {}, 1300),
)


@dataclass
class Result:
    """Everything measured of one deployment at one number of sessions."""

    case: Case
    sessions: int
    turns: list[Heard] = field(default_factory=list[Heard])
    stalls: int = 0
    worst_stall_ms: float = 0.0

    @property
    def latencies(self) -> list[float]:
        return [turn.latency_ms for turn in self.turns]

    def part_ms(self, part: str) -> float:
        """Median of one part of the split; endpointing as the client sees it."""
        return statistics.median(_part_ms(turn, part) for turn in self.turns if turn.metrics)

    @property
    def transport_ms(self) -> float:
        """Median of what the other parts do not explain."""
        return statistics.median(
            turn.latency_ms - sum(_part_ms(turn, part) for part in PARTS)
            for turn in self.turns
            if turn.metrics
        )

    @property
    def clause_to_audio_ms(self) -> float:
        """Median from the first clause known to its first audio."""
        return statistics.median(
            float(turn.metrics["clause_to_audio_ms"]) for turn in self.turns if turn.metrics
        )


def _part_ms(turn: Heard, part: str) -> float:
    if part == "endpointing":
        return ((turn.stopped_at or turn.word_end_at) - turn.word_end_at) * 1000
    return float(turn.metrics[f"{part}_ms"]) if turn.metrics else 0.0


@dataclass(frozen=True)
class Interruption:
    """What happened after ``speech_started`` of one interruption."""

    onset_to_started_ms: float
    """From the first sound of the interrupting speech to the event at the client."""

    stale_bytes: int
    """Audio of the old reply that came after the event: none is allowed."""

    idle_after_ms: float
    """Until the language model's engine had nothing of the old reply to do."""


async def measure(
    case: Case, server: ServerProcess, sessions: int, turns: int, questions: list[Question]
) -> Result:
    """Let ``sessions`` callers talk at once, each for its share of at least ``turns``."""
    result = Result(case, sessions)
    each = max(2, -(-turns // sessions))
    await server.status(reset_loop=True)
    async with asyncio.TaskGroup() as group:
        for number in range(sessions):
            group.create_task(_talk(server, result, each, questions, number))
    loop = (await server.status())["loop"]
    result.stalls, result.worst_stall_ms = loop["stalls_over_20ms"], loop["worst_ms"]
    return result


async def _talk(
    server: ServerProcess, result: Result, turns: int, questions: list[Question], number: int
) -> None:
    async with open_session(server.socket_url, extensions=True) as client:
        await configure(client)
        caller = Caller(client)
        async with caller.on_the_line():
            # Callers do not all begin in the same instant.
            await asyncio.sleep(0.7 * number)
            await caller.turn(questions[number % len(questions)])  # warm-up, not counted
            for turn in range(turns):
                await asyncio.sleep(0.4)
                heard = await caller.turn(questions[(turn + number) % len(questions)])
                if heard.first_audio_at is not None:
                    result.turns.append(heard)


async def configure(client: RealtimeClient) -> None:
    await client.wait_for("session.created")
    turns = {"type": "server_vad", "silence_duration_ms": 300}
    await client.send(
        "session.update",
        session={"type": "realtime", "audio": {"input": {"turn_detection": turns}}},
    )
    await client.wait_for("session.updated")


async def interrupt(server: ServerProcess, long: Question, stop: Question) -> Interruption:
    """Cut into a long answer; watch what still comes."""
    loop = asyncio.get_running_loop()
    async with open_session(server.socket_url, extensions=True) as client:
        await configure(client)
        caller = Caller(client)
        async with caller.on_the_line():
            await caller.say(long)
            old = await _await_audio(caller)
            last_word_at = await caller.say(stop)
            onset = last_word_at - (stop.last_word_ms - stop.words[0].start_ms) / 1000
            started_at = await _await_start(caller)
            idle = asyncio.create_task(_await_idle(server, loop.time()))
            stale = 0
            while True:
                _, event = await caller.next_event()
                if event["type"] == "response.output_audio.delta":
                    stale += len(event["delta"]) if event["response_id"] == old else 0
                if event["type"] == "response.done" and event["response"]["id"] == old:
                    break
            return Interruption((started_at - onset) * 1000, stale, await idle)


async def _await_audio(caller: Caller) -> str:
    while True:
        _, event = await caller.next_event()
        if event["type"] == "response.output_audio.delta":
            return str(event["response_id"])


async def _await_start(caller: Caller) -> float:
    while True:
        at, event = await caller.next_event()
        if event["type"] == "input_audio_buffer.speech_started":
            return at


async def _await_idle(server: ServerProcess, since: float) -> float:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(10):
        while True:
            ar = (await server.status())["stages"]["ar"]
            if not ar.get("running") and not ar.get("unfinished"):
                return (loop.time() - since) * 1000


async def run(args: argparse.Namespace) -> int:
    """Measure everything; return the exit status."""
    args.out.mkdir(parents=True, exist_ok=True)
    said = await spoken((*QUESTIONS, LONG, STOP))
    questions = [said[text] for text in QUESTIONS]

    results: list[Result] = []
    missed: list[str] = []
    for case in CASES:
        if case.name not in args.only:
            continue
        print(f"== {case.name}", flush=True)
        cuts: list[Interruption] = []
        async with ServerProcess.started(_write(case, args.out, ANSWER)) as server:
            print(f"   ready after {server.ready_s:.1f} s", flush=True)
            if server.ready_s > 60:
                missed.append(f"{case.name}: ready after {server.ready_s:.0f} s, not 60")
            for sessions in args.sessions:
                result = await measure(case, server, sessions, args.turns, questions)
                results.append(result)
                missed += report(result)
            print(f"   memory {server.memory_mib()} MiB", flush=True)
            if server.memory_mib() > 3.5 * 1024:
                missed.append(f"{case.name}: {server.memory_mib()} MiB, not 3584")
            if not case.scripted:
                # It answers what it is asked, so there is no need of another.
                cuts = [await interrupt(server, said[LONG], said[STOP]) for _ in range(args.cuts)]
        if case.scripted:
            async with ServerProcess.started(_write(case, args.out, STORY)) as server:
                cuts = [await interrupt(server, said[LONG], said[STOP]) for _ in range(args.cuts)]
        missed += report_cuts(case, cuts)
    draw(results, args.out / "voice_to_voice.png")
    print(f"\nplot: {args.out / 'voice_to_voice.png'}")
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


def report(result: Result) -> list[str]:
    """Print a result; return the limits that it misses."""
    p50, p95 = percentile(result.latencies, 0.5), percentile(result.latencies, 0.95)
    split = "  ".join(f"{part} {result.part_ms(part):.0f}" for part in PARTS)
    print(
        f"   {result.sessions} session(s), {len(result.turns)} turns: "
        f"p50 {p50:.0f} ms  p95 {p95:.0f} ms\n"
        f"      split (medians): {split}  transport {result.transport_ms:.0f}\n"
        f"      clause known -> first audio {result.clause_to_audio_ms:.0f} ms; "
        f"loop stalls over 20 ms: {result.stalls} (worst {result.worst_stall_ms:.0f} ms)",
        flush=True,
    )
    name, missed = result.case.name, list[str]()
    if result.sessions == 1 and p50 > result.case.limit_ms:
        missed.append(f"{name}: p50 {p50:.0f} ms, not {result.case.limit_ms:.0f}")
    if result.sessions == 1 and result.clause_to_audio_ms > 80:
        missed.append(f"{name}: first audio {result.clause_to_audio_ms:.0f} ms after its clause")
    if result.stalls:
        missed.append(f"{name}: {result.stalls} stalls with {result.sessions} session(s)")
    return missed


def report_cuts(case: Case, cuts: list[Interruption]) -> list[str]:
    """Print interruptions; return the limits that they miss."""
    onset = statistics.median(cut.onset_to_started_ms for cut in cuts)
    idle = statistics.median(cut.idle_after_ms for cut in cuts)
    stale = sum(cut.stale_bytes for cut in cuts)
    print(
        f"   interruptions: speech -> speech_started {onset:.0f} ms; old audio after it "
        f"{stale} bytes; model idle after {idle:.0f} ms (worst "
        f"{max(cut.idle_after_ms for cut in cuts):.0f})",
        flush=True,
    )
    missed = list[str]()
    if stale:
        missed.append(f"{case.name}: {stale} bytes of old audio after speech_started")
    if idle > 100:
        missed.append(f"{case.name}: the model was idle only {idle:.0f} ms after speech_started")
    return missed


def _write(case: Case, out: Path, answer: str) -> Path:
    """Write the deployment of a case; a scripted model in it says ``answer``."""
    stages = {
        name: {**stage, "lines": [answer]} if stage is SCRIPTED_MODEL else stage
        for name, stage in case.stages.items()
    }
    instructions = "You are a friendly assistant. Answer briefly, in plain English."
    path = out / f"{case.name}.yaml"
    deployment = {"model": case.name, "instructions": instructions, "stages": stages}
    # JSON is YAML.
    path.write_text(json.dumps(deployment, indent=1))
    return path


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What is asked for; a short run has other defaults."""
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--short", action="store_true", help="less than three minutes")
    parser.add_argument("--turns", type=int)
    parser.add_argument("--sessions", type=int, nargs="+")
    parser.add_argument("--cuts", type=int, help="interruptions")
    parser.add_argument("--only", nargs="+", choices=names)
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args(arguments)
    args.turns = args.turns or (3 if args.short else 20)
    args.sessions = args.sessions or ([1] if args.short else [1, 4])
    args.cuts = args.cuts or (2 if args.short else 5)
    args.only = args.only or ([names[0], names[-1]] if args.short else names)
    return args


def main() -> None:
    sys.exit(asyncio.run(run(parse())))


if __name__ == "__main__":
    main()
