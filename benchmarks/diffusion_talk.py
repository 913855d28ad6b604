"""People who talk to a server that makes clips meanwhile, and who asks how far these are."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.caller import spoken
from benchmarks.figures import percentile
from benchmarks.server import ServerProcess
from benchmarks.sessions import ANSWERS, COLUMNS, QUESTIONS, deployment, measure

PEOPLE = 4

POLL_MS = 20.0
"""Of an answer to a poll, at the 99th percentile."""

SLOWER = 1.15
"""Of the delay of answers without jobs, at the median."""

POLL_SECONDS = 0.05
"""Between two polls."""

JOBS = 2
"""Under way at once."""

ORDER = (False, True)
"""With jobs or without, in turns."""


@dataclass
class Talk:
    """What people heard, and how long polls took."""

    jobs: bool
    latencies_ms: list[float] = field(default_factory=list[float])
    """From the end of a question to the first sound of the answer."""

    underruns: int = 0
    polls_ms: list[float] = field(default_factory=list[float])
    made: int = 0
    """Clips."""

    def p50_ms(self) -> float:
        return percentile(self.latencies_ms, 0.5)

    def poll_p99_ms(self) -> float:
        return percentile(self.polls_ms, 0.99)


async def measure_talk(out: Path, seconds: float, rounds: int) -> list[Talk]:
    """Four people, without jobs and with, in turns at one server; turns begin in ``seconds``."""
    said = await spoken(QUESTIONS)
    questions = [said[text] for text in QUESTIONS]
    path = out / "talk.yaml"
    media = {"database": f"sqlite:///{out}/talk.sqlite", "store": str(out / "talk")}
    # JSON is YAML.
    path.write_text(json.dumps({**deployment(COLUMNS[0], ANSWERS), "media": media}))
    talks = list[Talk]()
    async with ServerProcess.started(path) as server:
        # So that the worker has its models, and no round waits for them.
        await _end(server, await _ask(server, steps=2))
        for jobs in ORDER * rounds:
            talk, work = Talk(jobs), list[asyncio.Task[None]]()
            if jobs:
                work = [asyncio.create_task(_keep_busy(server, talk)) for _ in range(JOBS)]
            try:
                heard = await measure(server, COLUMNS[0], PEOPLE, questions, seconds)
            finally:
                for task in work:
                    task.cancel()
                ends = await asyncio.gather(*work, return_exceptions=True)
            failed = [end for end in ends if isinstance(end, Exception)]
            if failed:
                raise failed[0]
            talk.latencies_ms = [turn.latency_ms for turn in heard.turns]
            talk.underruns = heard.underruns
            talks.append(talk)
            _report(talk)
    return talks


async def _ask(server: ServerProcess, steps: int) -> str:
    answer = await server.http.post(
        "/v1/videos", json={"prompt": "waves", "steps": steps}, timeout=60
    )
    answer.raise_for_status()
    job: dict[str, Any] = answer.json()
    return str(job["id"])


async def _poll(server: ServerProcess, job_id: str) -> str:
    answer = await server.http.get(f"/v1/videos/{job_id}")
    answer.raise_for_status()
    status: str = answer.json()["status"]
    return status


async def _end(server: ServerProcess, job_id: str) -> None:
    async with asyncio.timeout(120):
        while await _poll(server, job_id) in ("queued", "in_progress"):  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)


async def _keep_busy(server: ServerProcess, talk: Talk) -> None:
    """Have clips made, one after the other, and ask how far they are, until cancelled."""
    job_id = ""
    try:
        while True:
            job_id = await _ask(server, steps=50)
            status = "queued"
            while status in ("queued", "in_progress"):
                await asyncio.sleep(POLL_SECONDS)
                began = time.perf_counter()
                status = await _poll(server, job_id)
                talk.polls_ms.append(1000 * (time.perf_counter() - began))
            talk.made += status == "completed"
    finally:
        with suppress(Exception):
            await server.http.delete(f"/v1/videos/{job_id}")


def slower(talks: Sequence[Talk]) -> float:
    """The median delay with jobs, as a share of that without."""
    with_jobs, without = (
        percentile([ms for talk in talks if talk.jobs is jobs for ms in talk.latencies_ms], 0.5)
        for jobs in (True, False)
    )
    return with_jobs / without


def missed_of_talk(talks: Sequence[Talk]) -> list[str]:
    """Return what is missed, each in a line."""
    if not talks:
        return []
    missed = list[str]()
    polls = [ms for talk in talks for ms in talk.polls_ms]
    if (p99 := percentile(polls, 0.99)) > POLL_MS:
        missed.append(f"polls: p99 {p99:.0f} ms, not {POLL_MS:.0f}")
    if (share := slower(talks)) > SLOWER:
        missed.append(f"talk: {share:.2f} of the delay without jobs, not {SLOWER}")
    if not any(talk.made for talk in talks):
        missed.append("talk: not one clip was made meanwhile")
    return missed


def _report(talk: Talk) -> None:
    polls = ""
    if talk.polls_ms:
        p50, p99 = percentile(talk.polls_ms, 0.5), talk.poll_p99_ms()
        polls = f"; {len(talk.polls_ms)} polls, p50 {p50:.1f} p99 {p99:.1f} ms; {talk.made} clips"
    print(
        f"{PEOPLE} people {'with' if talk.jobs else 'without'} jobs: {len(talk.latencies_ms)} turns,"
        f" p50 {talk.p50_ms():.0f} p95 {percentile(talk.latencies_ms, 0.95):.0f} ms,"
        f" {talk.underruns} underruns{polls}",
        flush=True,
    )
