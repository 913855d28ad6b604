"""``media:`` of a deployment: what is refused, and what follows from the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.engines.deployment import DeploymentError, load_deployment, parse_deployment
from antiphon.engines.diffusion.switches import DiffuserConfig
from antiphon.engines.media import MediaConfig, job_settings, served_models
from antiphon.engines.stage import StageFailure

Json = dict[str, Any]


def media_of(said: object) -> MediaConfig | None:
    return parse_deployment({"model": "mine", "media": said}).media


def test_where_nothing_is_said_two_models_are_served() -> None:
    media = parse_deployment({"model": "mine"}).media
    assert media == media_of({}) == MediaConfig()
    served = served_models(MediaConfig())
    assert {name: each.abilities.kind for name, each in served.items()} == {
        "antiphon-draw": "image",
        "antiphon-move": "video",
    }
    assert media_of(None) is None


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"model": {}}, "media"),
        ({"keep_hours": 0}, "keep_hours"),
        ({"pictures": 11}, "pictures"),
        ({"worker": "threads"}, "worker"),
        ({"models": {"a": {"path": "x", "size": 1}}}, "size"),
        ({"models": {"a": {"path": "x", "switches": {"cache": {"use": "C"}}}}}, "max_tasks"),
        ({"fetch": {"hosts": ["https://example.com/"]}}, "hosts"),
        ({"models": {"mine": {"path": "placeholder-image"}}}, "media.models.mine"),
    ],
)
def test_what_can_not_be_meant_is_refused(said: Json, named: str) -> None:
    with pytest.raises(DeploymentError, match=named):
        media_of(said)


def test_paths_are_beside_the_deployment(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(
        "media:\n"
        "  webhook_secret_file: secret.txt\n"
        "  models:\n"
        "    mine: {path: models/mine, switches: {loras: {ink: loras/ink}}}\n"
        "    theirs: {path: /models/theirs}\n"
        "    none: {path: placeholder-image, switches: {loras: {ink: loras/ink}}}\n"
    )
    media = load_deployment(file).media
    assert media is not None
    assert {name: each.path for name, each in media.models.items()} == {
        "mine": str(tmp_path / "models" / "mine"),
        "theirs": "/models/theirs",
        "none": "placeholder-image",
    }
    for name in ("mine", "none"):
        assert media.models[name].switches.loras == {"ink": str(tmp_path / "loras" / "ink")}
    with pytest.raises(StageFailure, match=r"media\.webhook_secret_file: .*secret\.txt"):
        job_settings(media, tmp_path)
    (tmp_path / "secret.txt").write_text("whsec_AAAA\n")
    assert job_settings(media, tmp_path).webhook_secret == "whsec_AAAA"


def test_a_folder_that_is_missing_is_named_by_its_key(tmp_path: Path) -> None:
    config = MediaConfig(models={"mine": DiffuserConfig(path=str(tmp_path / "away"))})
    with pytest.raises(StageFailure, match=r"media\.models\.mine: .*/away"):
        served_models(config)


def test_jobs_are_kept_in_the_data_folder_unless_it_is_said_where(tmp_path: Path) -> None:
    kept = job_settings(MediaConfig(keep_hours=2), tmp_path)
    assert kept.database == f"sqlite:///{tmp_path}/jobs.sqlite"
    assert (kept.store, kept.keep_seconds) == (str(tmp_path / "media"), 7200.0)
    elsewhere = MediaConfig(
        database="postgresql://here/jobs",
        store="s3://media",
        store_options={"region": "eu"},
        keep_hours=None,
        queue=5,
        jobs_at_once=2,
    )
    settings = job_settings(elsewhere, tmp_path)
    assert (settings.database, settings.store) == ("postgresql://here/jobs", "s3://media")
    assert settings.store_options == {"region": "eu"}
    assert settings.keep_seconds is None
    assert (settings.queue_limit, settings.jobs_at_once) == (5, 2)
    # What is shown of them holds no secret.
    assert "whsec_" not in repr(job_settings(MediaConfig(), tmp_path))
