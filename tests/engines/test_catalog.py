from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import antiphon.engines.catalog as catalog
from antiphon.engines.catalog import (
    MARKER,
    ModelCard,
    PackageFile,
    Progress,
    UnknownModel,
    card,
    cards,
    default_cache_root,
    is_present,
    model_folder,
    require,
    write_marker,
)
from antiphon.engines.stage import StageFailure

ENGINES = Path(catalog.__file__).resolve().parent


def nothing(unpacked: Path, out: Path, progress: Progress) -> None:
    """Prepares no file."""


SOURCE = PackageFile(package="tiny", version="1.0", sha256="00", paths=("tiny/a.bin",))
CARD = ModelCard(
    name="tiny",
    kind="text",
    licence="MIT",
    summary="",
    sources=(SOURCE,),
    prepare=nothing,
    extra="text",
)


def install(root: Path) -> Path:
    folder = model_folder(CARD, root)
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.bin").write_bytes(b"abc")
    write_marker(CARD, folder)
    return folder


def test_every_model_file_is_listed_and_names_are_unique() -> None:
    declaring = {
        "." + ".".join(path.relative_to(ENGINES).with_suffix("").parts)
        for path in ENGINES.glob("*/models/*.py")
        if "\nCARD = " in path.read_text()
    }
    assert declaring == set(catalog.MODULES)
    names = [each.name for each in cards()]
    assert len(set(names)) == len(names) == len(catalog.MODULES)


def test_every_wheel_is_pinned_by_a_full_digest() -> None:
    for source in (source for each in cards() for source in each.sources):
        assert len(bytes.fromhex(source.sha256)) == 32
        assert source.paths


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownModel, match="'gpt-9'.*whisper-tiny-en.*smollm2-135m"):
        card("gpt-9")


@pytest.mark.parametrize("path", ["../a", "a/../../b", "/etc/passwd", "", "a\\..\\b", "c:/a"])
def test_paths_that_leave_the_folder_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="inside the wheel"):
        PackageFile(package="p", version="1", sha256="00", paths=("fine", path))


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"ANTIPHON_CACHE": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c"),
        ({"ANTIPHON_CACHE": "", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/antiphon/models"),
        ({"HOME": "/h"}, "/h/.cache/antiphon/models"),
    ],
)
def test_the_cache_lies_where_the_user_says(environ: Mapping[str, str], expected: str) -> None:
    assert default_cache_root(environ) == Path(expected)


def test_another_version_file_list_or_recipe_has_another_folder(tmp_path: Path) -> None:
    variants = [
        CARD,
        replace(CARD, recipe=2),
        replace(CARD, sources=(replace(SOURCE, version="1.1"),)),
        replace(CARD, sources=(replace(SOURCE, sha256="01"),)),
        replace(CARD, sources=(replace(SOURCE, paths=("tiny/b.bin",)),)),
    ]
    folders = {model_folder(variant, tmp_path) for variant in variants}
    assert len(folders) == len(variants)
    assert all(folder.name.startswith("tiny-") for folder in folders)


def test_a_folder_is_complete_once_its_marker_is_written(tmp_path: Path) -> None:
    assert not is_present(CARD, tmp_path)
    install(tmp_path)
    assert is_present(CARD, tmp_path)


@pytest.mark.parametrize("damage", ["missing", "shorter", "no marker", "torn marker", "other"])
def test_a_damaged_folder_is_not_complete(tmp_path: Path, damage: str) -> None:
    folder = install(tmp_path)
    file, marker = folder / "sub" / "a.bin", folder / MARKER
    match damage:
        case "missing":
            file.unlink()
        case "shorter":
            file.write_bytes(b"ab")
        case "no marker":
            marker.unlink()
        case "torn marker":
            marker.write_bytes(marker.read_bytes()[:-5])
        case _:
            marker.write_bytes(marker.read_bytes().replace(b'"tiny"', b'"other"'))
    assert not is_present(CARD, tmp_path)


def test_a_stage_learns_what_to_run_for_a_missing_model(tmp_path: Path) -> None:
    with pytest.raises(StageFailure, match="antiphon models fetch whisper-tiny-en") as missing:
        require("whisper-tiny-en", tmp_path)
    assert missing.value.error.code == "model_missing"
    assert str(tmp_path) not in missing.value.error.message
    with pytest.raises(StageFailure) as unknown:
        require("gpt-9", tmp_path)
    assert unknown.value.error.code == "model_unknown"


def test_a_stage_gets_the_card_and_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = install(tmp_path)
    monkeypatch.setattr(catalog, "cards", lambda: (CARD,))
    assert require("tiny", tmp_path) == (CARD, folder)
