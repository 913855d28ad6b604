"""Runs the benchmarks: the short forms of all, or one.

    python -m benchmarks                     short forms of all, in about twelve minutes
    python -m benchmarks --full              all of them whole: an hour
    python -m benchmarks sessions            the short form of one
    python -m benchmarks sessions --full ... one as a whole, or with its own arguments

Each runs in a process of its own, one after the other. What failed is said at the end, and
fails the whole.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

NAMES = (
    "voice_to_voice",
    "chunk_rules",
    "code2wav",
    "sessions",
    "speech",
    "transcription",
    "protocol",
    "diffusion",
    "drawing",
)

MISSED = "MISSED "
"""How a line begins in which a benchmark says what it missed."""

LINES = 20
"""Of these, so many are repeated at the end."""


@dataclass(frozen=True)
class Ran:
    """A benchmark that has ended."""

    name: str
    status: int
    seconds: float
    missed: tuple[str, ...]


def command(name: str, arguments: Sequence[str], *, full: bool) -> list[str]:
    """What runs a benchmark."""
    short = [] if full else ["--short"]
    return [sys.executable, "-m", f"benchmarks.{name}", *short, *arguments]


def run(name: str, arguments: Sequence[str], *, full: bool) -> Ran:
    """Run a benchmark and pass on what it prints."""
    print(f"=== {name}", flush=True)
    began, missed = time.monotonic(), list[str]()
    process = subprocess.Popen(
        command(name, arguments, full=full), stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if line.startswith(MISSED):
                missed.append(line.removeprefix(MISSED).strip())
    return Ran(name, process.returncode, time.monotonic() - began, tuple(missed))


def summary(runs: Sequence[Ran]) -> list[str]:
    """Say how each ended, in lines."""
    lines: list[str] = []
    for each in runs:
        how = "passed" if each.status == 0 else f"FAILED with status {each.status}"
        lines.append(f"{each.name:<16} {each.seconds:>4.0f} s  {how}")
        lines += [f"    {line}" for line in each.missed[:LINES]]
        if (more := len(each.missed) - LINES) > 0:
            lines.append(f"    and {more} more")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; return the exit status."""
    said = list(sys.argv[1:] if arguments is None else arguments)
    # Not left to a parser of this program: all but this is the benchmark's own, its help too.
    full = "--full" in said
    said = [each for each in said if each != "--full"]
    parser = argparse.ArgumentParser(
        prog="benchmarks",
        description=f"Runs one of {', '.join(NAMES)}, or all, in their short forms.",
        usage="%(prog)s [--full] [NAME [ARGUMENT ...]]",
        epilog="--full runs them whole. NAME --help lists the arguments of a benchmark.",
    )
    if said and said[0] not in NAMES:
        if said[0] in ("-h", "--help"):
            parser.print_help()
            return 0
        parser.error(f"expected one of {', '.join(NAMES)}, got {said[0]!r}")
    runs = [run(name, said[1:], full=full) for name in said[:1] or NAMES]
    print("=== all", *summary(runs), sep="\n")
    return int(any(each.status for each in runs))


if __name__ == "__main__":
    sys.exit(main())
