# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Trains our own talker, a small codec language model, from a Piper voice.

One command makes everything: sentences, what the teacher says of them, the codec, the student,
a plot of the loss and samples. Stopped, it goes on where it was when run again with the same
arguments. See ``deploy/README.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

SENTENCE_SECONDS = 2.9
"""How long a sentence of :mod:`.talker_training.texts` takes on average."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    # Threads that wait for each other must not spin where others want the core.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    asked = _parser().parse_args(arguments)
    import torch

    from ..engines.catalog import default_cache_root, require
    from .talker_training.learning import LearningPlan
    from .talker_training.work import Plan, Work

    torch.set_num_threads(asked.threads)
    voice = asked.voice or require("piper-joe", default_cache_root(os.environ))[1]
    plan = Plan(
        sentences=max(1, round(3600 * asked.hours / SENTENCE_SECONDS)),
        codec_seconds=60 * asked.codec_minutes,
        learning=LearningPlan(seconds=60 * asked.minutes, seed=asked.seed),
        processes=asked.threads,
        seed=asked.seed,
    )
    began = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - began:7.0f} s  {line}", flush=True)

    Work(asked.folder, voice, plan, report).run()
    plot(asked.folder / "loss.jsonl", asked.folder / "loss.png")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m antiphon.deploy.train_talker")
    parser.description = "Train our own talker from the voice piper-joe."
    parser.add_argument("folder", type=Path, help="of the run; gigabytes of what is spoken")
    parser.add_argument("--hours", type=float, default=5.0, help="of speech to learn from")
    parser.add_argument("--minutes", type=float, default=120.0, help="of learning")
    parser.add_argument("--codec-minutes", type=float, default=12.0, help="of learning the codec")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--voice", type=Path, help="folder of a voice in its parts, not the default"
    )
    return parser


def plot(log: Path, out: Path) -> None:
    """Draw how the loss fell; nothing where matplotlib isn't installed."""
    try:
        from matplotlib import pyplot
    except ImportError:
        return
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    figure, (losses, shares) = pyplot.subplots(1, 2, figsize=(11, 4))
    tokens = [line["tokens"] / 1e6 for line in lines]
    for name in ("first", "second", "ask", "guess"):
        losses.plot(tokens, [line[name] for line in lines], label=name)
    for name in ("right", "asks"):
        shares.plot(tokens, [line[name] for line in lines], label=name)
    for axes in (losses, shares):
        axes.set_xlabel("million tokens")
        axes.legend()
    figure.savefig(out, dpi=100)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
