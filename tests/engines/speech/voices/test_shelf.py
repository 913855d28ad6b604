"""Which voices there are, with models that are only described."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.waiting import until

from antiphon.engines import catalog
from antiphon.engines.catalog import ModelCard
from antiphon.engines.chunks import StageError
from antiphon.engines.pipeline import VoiceFiles
from antiphon.engines.speech.voices import added
from antiphon.engines.speech.voices import shelf as module
from antiphon.engines.speech.voices.added import Pair
from antiphon.engines.speech.voices.family import VOICE_FILE, VoiceModel
from antiphon.engines.speech.voices.offer import Offer
from antiphon.engines.speech.voices.shelf import ADDED, SCAN_SECONDS, Shelf
from antiphon.engines.stage import StageFailure

PATIENCE = 30
LONG_AGO = 1_000_000_000

DESCRIBED: Mapping[str, Any] = {
    "family": "piper",
    "language": "en",
    "summary": "somebody",
    "sample_rate": 16000,
    "hop": 160,
    "channels": 8,
    "context_frames": 0,
}


def described(*voices: str, **changed: object) -> bytes:
    return msgspec.json.encode({**DESCRIBED, "voices": voices, **changed})


class Prepared:
    """Makes folders of files whose words say what becomes of them."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def __call__(self, graph: Path, description: Path, out: Path, name: str) -> None:
        self.names.append(name)
        _make(graph, description, out, name)


def _make(graph: Path, description: Path, out: Path, name: str) -> None:
    said = graph.read_text()
    (out / "leftover").touch()
    if said == "broken":
        raise StageFailure(StageError("voice_unusable", "it is broken"))
    if said == "full":
        raise OSError(28, "No space left on device")
    voices = [f"{name}:{each}" for each in said.split(",")] if "," in said else [name]
    (out / VOICE_FILE).write_bytes(described(*voices, summary=description.read_text()))


def card(name: str, *voices: str, kind: catalog.Kind = "voice", **changed: object) -> ModelCard:
    return ModelCard(
        name=name,
        kind=kind,
        licence="CC0-1.0",
        summary="",
        sources=(),
        prepare=lambda unpacked, out, progress: None,
        extra="speech",
        settings={"described": described(*voices, **changed).decode()},
    )


CARDS = (
    card("first", "joe"),
    card("second", "ann", "bob", language="ja"),
    card("lacking", "eve", family="lacking"),
    card("words", kind="text"),
)


class Rig:
    """A shelf over folders of a test."""

    def __init__(self, root: Path, *others: str, fixed: bool = False) -> None:
        self.cache, self.folder = root / "cache", root / "voices"
        self.now = 100.0
        self.prepare = Prepared()
        self.removed: list[str] = []
        self.shelf = Shelf(
            "first",
            others,
            self.cache,
            None if fixed else self.folder,
            prepare=self.prepare,
            clock=lambda: self.now,
        )
        self.shelf.on_removed(lambda offer: self.removed.append(offer.name))

    def put(self, name: str, graph: str = "sound", description: str = "somebody") -> None:
        """Have somebody put files there, a long while ago."""
        self.folder.mkdir(exist_ok=True)
        for suffix, text in ((".onnx", graph), (".onnx.json", description)):
            path = self.folder / (name + suffix)
            path.write_text(text)
            os.utime(path, (LONG_AGO, LONG_AGO + len(text)))

    def later(self) -> tuple[str, ...]:
        """Ask for voices a while later."""
        self.now += SCAN_SECONDS
        return self.shelf.voices

    async def has(self, *voices: str) -> None:
        """Return when these are offered."""
        await until(lambda: self.later() == voices)

    def files(self) -> list[str]:
        return sorted(os.listdir(self.folder)) if self.folder.exists() else []

    def made(self) -> list[str]:
        """What is prepared."""
        made = self.cache / "voices"
        return sorted(path.name.rpartition("-")[0] for path in made.iterdir() if made.exists())

    def source(self, name: str, graph: str = "sound") -> VoiceFiles:
        root = self.cache.parent
        (root / "graph").write_text(graph)
        (root / "description").write_text("somebody new")
        return VoiceFiles(name=name, graph=root / "graph", description=root / "description")


@pytest.fixture(autouse=True)
def catalogue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A catalogue whose models are all here."""

    def require(name: str, cache_root: Path) -> tuple[ModelCard, Path]:
        found = next(each for each in CARDS if each.name == name)
        folder = cache_root / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / VOICE_FILE).write_text(str(found.settings["described"]))
        return found, folder

    def missing(model: VoiceModel) -> str | None:
        return "antiphon[lacking]" if model.family == "lacking" else None

    monkeypatch.setattr(module, "require", require)
    monkeypatch.setattr(module, "missing_package", missing)


def with_rig(check: Callable[[Rig], Awaitable[None]], rig: Rig) -> None:
    async def main() -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await rig.shelf.start()
                await rig.shelf.looked()
                await check(rig)
        finally:
            await rig.shelf.close()

    asyncio.run(main())


def test_the_deployment_s_voices_come_in_its_order(tmp_path: Path) -> None:
    async def check(rig: Rig) -> None:
        assert rig.shelf.voices == ("joe", "ann", "bob")
        assert [(card.name, card.language, card.model) for card in rig.shelf.cards] == [
            ("joe", "en", "first"),
            ("ann", "ja", "second"),
            ("bob", "ja", "second"),
        ]
        assert not any(card.own for card in rig.shelf.cards)
        assert rig.shelf.find(None) is rig.shelf.find("joe") is rig.shelf.default
        assert rig.shelf.find("ann") is rig.shelf.find("bob")
        with pytest.raises(StageFailure, match="voice_unknown: expected a voice out of joe, ann"):
            rig.shelf.find("eve")

    with_rig(check, Rig(tmp_path, "second", "first", "second"))


def test_a_model_whose_package_is_missing_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(rig: Rig) -> None:
        assert rig.shelf.voices == ("joe", "ann", "bob")
        assert "no voices of lacking: run `pip install 'antiphon[lacking]'`" in caplog.text

    with_rig(check, Rig(tmp_path, "lacking", "second"))


def test_a_model_that_is_no_voice_stops_the_start(tmp_path: Path) -> None:
    shelf = Shelf("first", ("words",), tmp_path)
    with pytest.raises(StageFailure, match="expected a voice model, got words, .* text model"):
        asyncio.run(shelf.start())


def test_files_put_into_the_folder_are_offered_at_the_start(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.put("zoe", description="a woman")
    rig.put("team", graph="x,y")
    for name in ("alone.onnx", "lonely.onnx.json", "not a name.onnx", ".hidden.onnx.json"):
        (rig.folder / name).write_text("sound")

    async def check(rig: Rig) -> None:
        assert rig.shelf.voices == ("joe", "team:x", "team:y", "zoe")
        (zoe,) = [card for card in rig.shelf.cards if card.name == "zoe"]
        assert (zoe.model, zoe.summary, zoe.own) == ("zoe", "a woman", True)
        assert rig.made() == ["team", "zoe"]

    with_rig(check, rig)
    # Another start finds what the first has made.
    again = Rig(tmp_path)

    async def see(rig: Rig) -> None:
        assert rig.shelf.voices == ("joe", "team:x", "team:y", "zoe")
        assert not rig.prepare.names

    with_rig(see, again)


def test_the_folder_is_looked_at_again_but_not_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Path] = []
    original = added.pairs

    def pairs(folder: Path) -> list[Pair]:
        looks.append(folder)
        return original(folder)

    monkeypatch.setattr(added, "pairs", pairs)

    async def check(rig: Rig) -> None:
        for _ in range(20):
            assert rig.shelf.voices == ("joe",)
        assert len(looks) == 1
        rig.put("zoe")
        await rig.has("joe", "zoe")
        rig.put("zoe", graph="x,y")
        await rig.has("joe", "zoe:x", "zoe:y")
        assert rig.removed == ["zoe"]
        shutil.rmtree(rig.folder)
        await rig.has("joe")
        await until(lambda: rig.made() == [])

    with_rig(check, Rig(tmp_path))


def test_half_copied_files_are_left_out_until_they_are_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(rig: Rig) -> None:
        rig.put("zoe", graph="broken")
        rig.put("zed")
        await rig.has("joe", "zed")
        await until(lambda: bool(rig.later()) and "zoe" in rig.prepare.names)
        assert rig.later() == ("joe", "zed")
        # It grows, and is still broken: that was said.
        rig.put("zoe", graph="broken", description="somebody else")
        await until(lambda: bool(rig.later()) and rig.prepare.names.count("zoe") == 2)
        rig.put("zoe", graph="whole at last")
        await rig.has("joe", "zed", "zoe")
        assert caplog.text.count("the voice zoe is left out: it is broken") == 1
        assert not list((rig.cache / "voices").glob(".*"))

    with caplog.at_level(logging.WARNING):
        with_rig(check, Rig(tmp_path))


def test_a_file_that_was_written_just_now_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(added, "SETTLED_SECONDS", 0.05)
    rig = Rig(tmp_path)
    rig.put("zoe")
    os.utime(rig.folder / "zoe.onnx")

    async def check(rig: Rig) -> None:
        assert rig.shelf.voices == ("joe", "zoe")

    with_rig(check, rig)


def test_a_voice_of_a_taken_name_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(tmp_path)
    rig.put("joe")

    async def check(rig: Rig) -> None:
        assert rig.shelf.voices == ("joe",)
        assert not rig.shelf.cards[0].own
        assert "the voice joe is left out: there is a voice joe already" in caplog.text

    with_rig(check, rig)


def test_more_files_than_may_be_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(tmp_path)
    for number in range(ADDED + 2):
        rig.put(f"v{number:03}")

    async def check(rig: Rig) -> None:
        assert len(rig.shelf.voices) == 1 + ADDED
        assert f"v{ADDED:03} and later are not" in caplog.text
        with pytest.raises(StageFailure, match="voices_full: there are 64 added voices"):
            await rig.shelf.add(rig.source("one-more"))

    with_rig(check, rig)


def test_a_voice_is_added_and_stays(tmp_path: Path) -> None:
    async def check(rig: Rig) -> None:
        (card,) = await rig.shelf.add(rig.source("zoe"))
        assert (card.name, card.model, card.summary, card.own) == (
            *("zoe", "zoe", "somebody new"),
            True,
        )
        assert rig.shelf.voices == ("joe", "zoe")
        assert rig.files() == ["zoe.onnx", "zoe.onnx.json"]
        assert (tmp_path / "graph").read_text() == "sound"
        assert rig.prepare.names == ["zoe"]
        team = await rig.shelf.add(rig.source("team", graph="x,y"))
        assert [card.name for card in team] == ["team:x", "team:y"]
        # Looking at the folder finds nothing new.
        assert rig.later() == rig.later() == ("joe", "team:x", "team:y", "zoe")

    with_rig(check, Rig(tmp_path))

    async def see(rig: Rig) -> None:
        assert rig.shelf.voices == ("joe", "team:x", "team:y", "zoe")
        assert not rig.prepare.names

    with_rig(see, Rig(tmp_path))


@pytest.mark.parametrize(
    ("name", "graph", "said"),
    [
        ("joe", "sound", "voice_exists: there is a voice joe already"),
        ("first", "sound", "voice_exists: there is a voice first already"),
        ("team", "sound", "voice_exists: there is a voice team already"),
        ("team:x", "sound", "voice_exists"),
        ("idle", "sound", "voice_exists: there are files of idle in the folder"),
        ("zoe", "broken", "voice_unusable: it is broken"),
        ("zoe", "full", "voices_full: the folder of voices can't be written: No space left"),
        ("../zoe", "sound", "voice_unusable: expected a name"),
        ("", "sound", "voice_unusable: expected a name"),
    ],
)
def test_what_can_not_be_added_leaves_nothing(
    name: str, graph: str, said: str, tmp_path: Path
) -> None:
    rig = Rig(tmp_path)
    rig.put("team", graph="x,y")
    rig.put("idle", graph="broken")

    async def check(rig: Rig) -> None:
        files = rig.files()
        with pytest.raises(StageFailure, match=said):
            await rig.shelf.add(rig.source(name, graph=graph))
        assert rig.shelf.voices == ("joe", "team:x", "team:y")
        assert rig.files() == files
        assert rig.made() == ["team"]

    with_rig(check, rig)


def test_a_graph_that_is_too_large_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRAPH_BYTES", 4)

    async def check(rig: Rig) -> None:
        with pytest.raises(StageFailure, match="voice_unusable: expected a graph of at most"):
            await rig.shelf.add(rig.source("zoe", graph="sound"))
        assert not rig.prepare.names
        assert rig.files() == []

    with_rig(check, Rig(tmp_path))


def test_an_addition_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    async def check(rig: Rig) -> None:
        entered = asyncio.Event()

        async def endless(graph: Path, description: Path, out: Path, name: str) -> None:
            entered.set()
            await asyncio.Event().wait()

        setattr(rig.shelf, "_prepare", endless)  # noqa: B010
        adding = asyncio.create_task(rig.shelf.add(rig.source("zoe")))
        await entered.wait()
        adding.cancel()
        await asyncio.wait([adding])
        assert rig.files() == []
        assert rig.made() == []
        setattr(rig.shelf, "_prepare", rig.prepare)  # noqa: B010
        await rig.shelf.add(rig.source("zoe"))
        assert rig.shelf.voices == ("joe", "zoe")

    with_rig(check, Rig(tmp_path))


def test_a_voice_is_removed_with_all_that_was_made_of_it(tmp_path: Path) -> None:
    async def check(rig: Rig) -> None:
        await rig.shelf.add(rig.source("team", graph="x,y"))
        offer: Offer = rig.shelf.find("team:x")
        await rig.shelf.remove("team:y")
        assert rig.shelf.voices == ("joe",)
        assert offer.gone
        assert rig.removed == ["team"]
        assert rig.files() == rig.made() == []
        with pytest.raises(StageFailure, match="voice_unknown"):
            await rig.shelf.remove("team:x")
        with pytest.raises(StageFailure, match="voice_fixed: joe belongs to the deployment"):
            await rig.shelf.remove("joe")
        # The name is free again.
        await rig.shelf.add(rig.source("team"))
        assert list(rig.shelf.voices) == ["joe", "team"]

    with_rig(check, Rig(tmp_path))


def test_without_a_folder_nothing_is_added(tmp_path: Path) -> None:
    async def check(rig: Rig) -> None:
        rig.put("zoe")
        assert rig.later() == rig.later() == ("joe",)
        with pytest.raises(StageFailure, match="voices_fixed"):
            await rig.shelf.add(rig.source("ann"))

    with_rig(check, Rig(tmp_path, fixed=True))
