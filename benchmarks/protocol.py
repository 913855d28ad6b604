"""How many sessions one core carries, and what an idle one weighs: the protocol, no models.

    python -m benchmarks.protocol [--short] [--sessions 25 50 100 200 300] [--out out/bench]

The deployment ``silent`` runs in one process on one core; the clients have another. Each
session sends 24 kHz PCM in real time and is answered with audio in real time, without a
break. Measured at each number of sessions: how late the server's event loop is, the time
of its core that it takes, and whether the audio comes as fast as it is heard. The same
clients then send the same frames to a server that only sends them back, which is the floor.
A number of sessions is carried where every session lives, audio keeps up and the loop is
late by at most 20 ms in 99 of 100 cases. Targets: 200 sessions carried, 200 KiB for an idle
one; the exit status is 1 when one is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import uvloop
from benchmarks.echo import STATS
from benchmarks.lean_client import LeanClient, Microphones, append, connect, event
from benchmarks.protocol_plot import draw
from benchmarks.server import ServerProcess
from websockets.asyncio.client import connect as connect_one

from antiphon.web.paths import config_file
from antiphon.web.watchdog import Watchdog

LAG_MS, SESSIONS, IDLE_KIB = 20.0, 200, 200.0
"""The targets."""

KEEPS_UP = 0.95
"""Share of a session's audio that has to have come by the time at which it would be heard."""

BYTES_PER_S = 64_000
"""Of base64 of 24 kHz PCM16."""

CORES = sorted(os.sched_getaffinity(0))
"""What may be used: the server has the first, the clients have the last."""

SETTLE_SECONDS = 2.0
IDLE = 200

REPLY_SECONDS = 9.0
"""Length of a reply of the silent deployment."""

CLEAR_SECONDS = 5.0
"""Without turn detection nobody commits: the buffer is emptied so often."""

Lag = dict[str, float]


@dataclass(frozen=True)
class Measured:
    """What one server did at one number of sessions."""

    server: str
    sessions: int
    alive: int
    lag_p50_ms: float
    lag_p99_ms: float
    lag_max_ms: float
    cpu: float
    """Share of its core."""

    audio: float
    """Share of real time at which the slowest session's audio came."""

    client_lag_p99_ms: float

    @property
    def carried(self) -> bool:
        keeps_up = self.alive == self.sessions and self.audio >= KEEPS_UP
        return keeps_up and self.lag_p99_ms <= LAG_MS


@dataclass
class Target:
    """A server under load."""

    name: str
    address: str
    path: str
    pid: int
    lag: Callable[[], Awaitable[Lag]]
    """How late its loop was since it was asked last."""

    @property
    def answers(self) -> bool:
        """Whether it sends audio by itself."""
        return self.name != "echo"


@contextmanager
def servers_core() -> Generator[None]:
    """Let processes that are started here run on the server's core, with all their threads."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CORES[0]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@asynccontextmanager
async def antiphon(config: Path) -> AsyncGenerator[Target]:
    """The server, without models."""
    with servers_core():
        starting = ServerProcess.started(config)
        server = await starting.__aenter__()
    try:

        async def lag() -> Lag:
            status = await server.status(reset_loop=True)
            loop: Lag = status["loop"]
            return loop

        address = server.server.address.host
        yield Target("antiphon", address, "/v1/realtime", server.server.pid, lag)
    finally:
        await starting.__aexit__(None, None, None)


@asynccontextmanager
async def echo() -> AsyncGenerator[Target]:
    """The floor."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    with servers_core():
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "benchmarks.echo", str(port)),
            stdout=asyncio.subprocess.PIPE,
        )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        async with connect_one(f"ws://127.0.0.1:{port}/", compression=None) as asking:

            async def lag() -> Lag:
                await asking.send(STATS)
                told: Lag = json.loads(await asking.recv())
                return told

            yield Target("echo", f"127.0.0.1:{port}", "/", process.pid, lag)
    finally:
        process.terminate()
        await process.wait()


async def measure(target: Target, sessions: int, args: argparse.Namespace) -> Measured:
    """Load a server with so many sessions."""
    create = event("response.create")
    clients = await connect(target.address, target.path, sessions, lambda each: each.send(create))
    if target.answers:
        await _begin(clients, create, args.chunk_ms, vad=args.vad)
    microphones = Microphones(clients, append(args.chunk_ms), args.chunk_ms / 1000)
    clearing = asyncio.create_task(_clear(clients if target.answers and not args.vad else []))
    watchdog = Watchdog()
    try:
        await asyncio.sleep(SETTLE_SECONDS)
        await target.lag()
        before = [client.counts.bytes for client in clients]
        process = psutil.Process(target.pid)
        began, spent = time.monotonic(), _cpu_s(process)
        watchdog.start()
        await asyncio.sleep(args.seconds)
        seconds, spent = time.monotonic() - began, _cpu_s(process) - spent
        lag = await target.lag()
        received = [c.counts.bytes - b for c, b in zip(clients, before, strict=True)]
        return Measured(
            server=target.name,
            sessions=sessions,
            alive=sum(not client.lost for client in clients),
            lag_p50_ms=lag["p50_ms"],
            lag_p99_ms=lag["p99_ms"],
            lag_max_ms=lag["worst_ms"],
            cpu=spent / seconds,
            audio=min(received) / BYTES_PER_S / seconds,
            client_lag_p99_ms=watchdog.statistics().p99_ms,
        )
    finally:
        clearing.cancel()
        microphones.stop()
        await watchdog.stop()
        for client in clients:
            client.close()
        await asyncio.sleep(0.5)


async def _begin(clients: list[LeanClient], create: bytes, chunk_ms: int, *, vad: bool) -> None:
    """Let every session speak; spread over a reply, so that turns end evenly, as people's do."""
    turns = {"type": "server_vad"} if vad else None
    audio = {"input": {"turn_detection": turns}}
    update = event("session.update", session={"type": "realtime", "audio": audio})
    for client in clients:
        client.send(update, create)
        await asyncio.sleep(REPLY_SECONDS / len(clients))


async def _clear(clients: list[LeanClient]) -> None:
    clear = event("input_audio_buffer.clear")
    while clients:
        for client in clients:
            client.send(clear)
            await asyncio.sleep(CLEAR_SECONDS / len(clients))


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def idle_kib(target: Target, count: int) -> float:
    """What a session that does nothing adds to the server's memory, KiB."""
    process = psutil.Process(target.pid)
    # Caches and arenas are there once some sessions were.
    for client in await connect(target.address, target.path, count // 4, lambda each: None):
        client.close()
    await asyncio.sleep(1)
    before = process.memory_full_info().pss
    clients = await connect(target.address, target.path, count, lambda each: None)
    await asyncio.sleep(1)
    after = process.memory_full_info().pss
    for client in clients:
        client.close()
    await asyncio.sleep(1)
    return float(after - before) / count / 1024


def report(result: Measured) -> None:
    print(
        f"{result.server:>9} {result.sessions:>8}  {'yes' if result.carried else 'no':>7}"
        f"  {result.lag_p50_ms:>7.2f} {result.lag_p99_ms:>7.2f} {result.lag_max_ms:>7.1f}"
        f"  {100 * result.cpu:>5.0f}  {100 * result.audio:>6.0f}  {result.client_lag_p99_ms:>7.2f}",
        flush=True,
    )


async def load(target: Target, args: argparse.Namespace, results: list[Measured]) -> float:
    """Measure one server; return what an idle session weighs, KiB."""
    weight = await idle_kib(target, IDLE)
    for sessions in args.sessions:
        result = await measure(target, sessions, args)
        results.append(result)
        report(result)
        if result.cpu > 0.97:
            break
    return weight


async def run(args: argparse.Namespace) -> int:
    """Measure both; return the exit status."""
    args.out.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, {CORES[-1]})
    if len(CORES) == 1:
        print("one core for all: the clients take from the server, and the numbers are low")
    print(
        f"{'server':>9} {'sessions':>8}  {'carried':>7}"
        f"  {'lag p50':>7} {'p99':>7} {'max ms':>7}  {'cpu %':>5}  {'audio %':>6}  {'client':>7}"
    )
    results: list[Measured] = []
    weights: dict[str, float] = {}
    for serving in (antiphon(config_file(args.config)), echo()):
        async with serving as target:
            weights[target.name] = await load(target, args, results)
    carried = {
        name: max((r.sessions for r in results if r.server == name and r.carried), default=0)
        for name in weights
    }
    for name, weight in weights.items():
        print(f"{name}: {carried[name]} sessions carried, {weight:.0f} KiB for an idle one")
    out: dict[str, Any] = {
        "results": [asdict(each) for each in results],
        "idle_kib": weights,
        "carried": carried,
    }
    (args.out / "protocol.json").write_text(json.dumps(out, indent=1))
    draw(results, LAG_MS, args.out / "protocol.png")
    print(f"plot: {args.out / 'protocol.png'}")
    missed = [
        *([f"{carried['antiphon']} sessions, not {SESSIONS}"] * (carried["antiphon"] < SESSIONS)),
        *(
            [f"{weights['antiphon']:.0f} KiB, not {IDLE_KIB:.0f}"]
            * (weights["antiphon"] > IDLE_KIB)
        ),
    ]
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What is asked for; a short run has other defaults."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--short", action="store_true", help="less than a minute")
    parser.add_argument("--sessions", type=int, nargs="+")
    parser.add_argument("--seconds", type=float, help="at each number of sessions")
    parser.add_argument("--chunk-ms", type=int, default=100, help="audio of one append")
    parser.add_argument("--vad", action="store_true", help="with turn detection")
    parser.add_argument("--config", default="silent", help="the deployment")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    args = parser.parse_args(arguments)
    whole = [25, 50, 100, 150, 200, 250, 300]
    args.sessions = args.sessions or ([SESSIONS] if args.short else whole)
    args.seconds = args.seconds or (5.0 if args.short else 10.0)
    return args


def main() -> None:
    args = parse()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(run(args)))


if __name__ == "__main__":
    main()
