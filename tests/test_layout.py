"""The repository maps onto the import package ``antiphon``, and all of it is shipped."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BUILD = CONFIG["tool"]["hatch"]["build"]
PACKAGED: list[str] = BUILD["targets"]["wheel"]["only-include"]


def test_every_packaged_folder_is_linked_for_development() -> None:
    links = {
        link.name: os.readlink(link)
        for link in (ROOT / ".src" / "antiphon").iterdir()
        if link.name != "__pycache__"
    }
    assert links == {name: f"../../{name}" for name in PACKAGED}


def test_every_packaged_folder_is_renamed_into_the_package() -> None:
    sources = BUILD["targets"]["wheel"]["sources"]
    assert sources == {name: f"antiphon/{name}" for name in PACKAGED}


def test_the_source_distribution_holds_every_packaged_folder() -> None:
    assert set(PACKAGED) <= set(BUILD["targets"]["sdist"]["only-include"])


def test_every_layer_is_checked_by_the_import_contracts() -> None:
    # `deploy` holds data and the set-up script, which imports none of the rest.
    checked = CONFIG["tool"]["importlinter"]["root_packages"]
    assert sorted(checked) == sorted(f"antiphon.{name}" for name in PACKAGED if name != "deploy")


@pytest.mark.parametrize("name", PACKAGED)
def test_a_packaged_folder_is_explained_typed_and_has_no_init(name: str) -> None:
    assert (ROOT / name / "README.md").is_file()
    assert (ROOT / name / "py.typed").is_file() or name == "deploy"
    # With one, mypy takes `codecs` for ours where the standard library's is meant.
    assert not list((ROOT / name).rglob("__init__.py"))


def tracked_files() -> list[str]:
    """The files of the packaged folders that git does not ignore; empty outside a repository."""
    if not (ROOT / ".git").exists():
        return []
    command = ["git", "ls-files", "-z", "-co", "--exclude-standard", "--", *PACKAGED]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    # A file whose deletion is not yet committed can't be in the wheel.
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def test_the_wheel_holds_exactly_the_files_of_the_repository(tmp_path: Path) -> None:
    tracked = tracked_files()
    if not tracked:
        pytest.skip("not a git repository: there is nothing to compare the wheel with")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir"]
    built = subprocess.run([*command, str(tmp_path), str(ROOT)], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr

    (wheel,) = tmp_path.glob("antiphon-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert shipped == {f"antiphon/{name}" for name in tracked}
    assert any(name.startswith("antiphon/web/static/") for name in shipped)
