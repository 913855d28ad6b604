"""Where configuration and data lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.web.paths import DEFAULT_CONFIG, DEPLOY, config_file, data_folder


@pytest.mark.parametrize("name", [DEFAULT_CONFIG, "scripted"])
def test_deployments_that_ship_have_names(name: str) -> None:
    path = config_file(name)
    assert path == DEPLOY / f"{name}.yaml"
    assert path.is_file()


def test_anything_else_is_a_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert config_file("mine.yaml") == Path("mine.yaml")
    assert config_file("./scripted") == Path("./scripted")
    assert config_file("/etc/antiphon.yaml") == Path("/etc/antiphon.yaml")
    assert config_file("../deploy/scripted") == Path("../deploy/scripted")


@pytest.mark.parametrize(
    ("chosen", "environ", "expected"),
    [
        ("/here", {"ANTIPHON_DATA": "/own", "XDG_DATA_HOME": "/xdg"}, "/here"),
        (None, {"ANTIPHON_DATA": "/own", "XDG_DATA_HOME": "/xdg"}, "/own"),
        (None, {"XDG_DATA_HOME": "/xdg", "HOME": "/home/me"}, "/xdg/antiphon"),
        (None, {"HOME": "/home/me"}, "/home/me/.local/share/antiphon"),
        (
            None,
            {"ANTIPHON_DATA": "", "XDG_DATA_HOME": "", "HOME": "/home/me"},
            "/home/me/.local/share/antiphon",
        ),
    ],
)
def test_the_data_folder(chosen: str | None, environ: dict[str, str], expected: str) -> None:
    assert data_folder(Path(chosen) if chosen else None, environ) == Path(expected)


def test_without_an_environment_there_is_still_a_home() -> None:
    assert data_folder(None, {}) == Path.home() / ".local/share/antiphon"
