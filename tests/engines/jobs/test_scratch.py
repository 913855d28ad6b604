"""Folders of tasks on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from antiphon.engines.jobs.scratch import scratch_prefix, sweep_scratch


def test_only_those_of_dead_processes_of_this_place_go(tmp_path: Path) -> None:
    mine = scratch_prefix()
    pid = f"-{os.getpid()}-"
    names = {
        "living": f"{mine}a",
        "number used again": mine.rsplit("-", 2)[0] + "-1-b",
        "dead": mine.replace(pid, "-999999999-") + "c",
        "elsewhere": "antiphon-job-000000000000-999999999-1-d",
    }
    for name in names.values():
        (tmp_path / name).mkdir()
        (tmp_path / name / "0").touch()
    sweep_scratch(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {names["living"], names["elsewhere"]}
