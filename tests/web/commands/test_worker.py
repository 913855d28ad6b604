"""``antiphon worker``: what keeps it from starting."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from tests.support.server import write_deployment

from antiphon.web.cli import main


@pytest.mark.parametrize(
    ("media", "named"),
    [
        (None, "media: null"),
        ({"webhook_secret_file": "away.txt"}, "media.webhook_secret_file"),
        ({"webhook_secret_file": "deployment.yaml"}, "media.webhook_secret_file"),
        ({"models": {"mine": {"path": "away"}}}, "media.models.mine"),
    ],
)
def test_a_worker_that_can_not_start_says_why(
    media: object,
    named: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It would change this process.
    monkeypatch.setattr("antiphon.web.commands.worker._prepare_process", mock.Mock())
    config = write_deployment({"media": media}, tmp_path)
    assert main(["worker", "--config", str(config), "--data", str(tmp_path)]) == 1
    assert named in capsys.readouterr().err
