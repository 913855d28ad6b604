"""A worker process over a fake diffuser: ``python -m tests.support.jobs_worker SETTINGS GATES``
leaves when its standard input ends."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO
from unittest import mock

from tests.support.fake_diffuser import FakeDiffuser, arrive, is_open

from antiphon.engines.diffusion.task import Picture
from antiphon.engines.jobs.artefacts import Artefacts
from antiphon.engines.jobs.job import Job
from antiphon.engines.jobs.making import File
from antiphon.engines.jobs.process import run, work
from antiphon.engines.jobs.settings import JobSettings


def encode(job: Job, at: int, picture: Picture) -> Sequence[File]:
    state = bytes.fromhex(picture.facts["state"])
    return [File("content", ".bin", "a/b", state), File("thumbnail", ".bin", "a/b", state[:4])]


class Gated(Artefacts):
    """Stops after it has written the first of two results, where a file ``PROMPT.writes`` is."""

    gates: Path

    def put(self, key: str, data: bytes) -> None:
        super().put(key, data)
        for writes in self.gates.glob("*.writes") if key.endswith("/content.bin") else ():
            gate = f"{writes.stem}-written"
            arrive(self.gates, gate)
            while not is_open(self.gates, writes.stem, gate):
                time.sleep(0.005)


def serve(settings: JobSettings, gates: Path, parent: BinaryIO | None = None) -> None:
    Gated.gates = gates
    mock.patch("antiphon.engines.jobs.worker.Artefacts", Gated).start()
    diffusers = {"fake": FakeDiffuser(gates)}
    run(work(settings, diffusers, encode, parent=parent))


if __name__ == "__main__":
    serve(JobSettings(**json.loads(sys.argv[1])), Path(sys.argv[2]), sys.stdin.buffer)
