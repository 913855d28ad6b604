"""Trains the embedded models that draw: pictures of glyphs, and clips of them.

One command makes everything: the scenes, the autoencoder, the denoiser, a plot of the losses and
sheets of samples. Stopped, it goes on where it was when run again with the same folder; with more
minutes, it goes on learning. See ``deploy/README.md``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    # Threads that wait for each other must not spin where others want the core.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    asked = _parser().parse_args(arguments)
    import torch

    torch.set_num_threads(asked.threads)
    began = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - began:7.0f} s  {line}", flush=True)

    # Each loads much that the other doesn't need.
    chosen = import_module(f".media_training.{asked.what}", __package__)
    chosen.train(asked.out, 60 * asked.minutes, report)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m antiphon.deploy.train_media")
    parser.description = "Train the embedded models that draw."
    parser.add_argument("what", choices=("images", "clips"))
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--minutes", type=float, default=240.0, help="in all, of all runs")
    parser.add_argument("--threads", type=int, default=1)
    return parser


if __name__ == "__main__":
    sys.exit(main())
