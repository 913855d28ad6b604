"""The voices there are: the deployment's own, and those that were added to its folder."""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from ...catalog import require
from ...chunks import StageError
from ...pipeline import VoiceCard, VoiceFiles
from ...stage import StageFailure
from . import added, intake
from .added import Pair
from .cutting import GRAPH_BYTES
from .family import NAME, VoiceModel, missing_package, read_model
from .offer import Offer

ADDED = 64
"""Models that may be added; one more is refused. Of more in the folder the first are offered."""

SCAN_SECONDS = 5.0
"""How often the folder is looked at, at most, when voices are asked for."""

START_SECONDS = 20.0
"""How long a start waits for new files in the folder to be prepared; the others come later."""

NAMED = 40
"""Voices that an error names, of thousands there may be."""

ROUNDS = 3
"""Looks at a folder in which files are being written; then it is left for the next time."""

PREPARED = "voices"
"""Folder inside the cache for what is made of added voices."""

logger = logging.getLogger(__name__)

Prepare: TypeAlias = Callable[[Path, Path, Path, str], Awaitable[None]]
"""As :func:`.intake.prepared`."""


class Shelf:
    """All voices that may be asked for. Used on the event loop; files are looked at off it."""

    def __init__(
        self,
        model: str,
        others: tuple[str, ...],
        cache_root: Path,
        folder: Path | None = None,
        *,
        prepare: Prepare = intake.prepared,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``model``: of the catalogue, the default; ``others``: more of it.

        ``folder``: of added voices; ``None`` where none can be added.
        """
        self._names = (model, *(name for name in dict.fromkeys(others) if name != model))
        self._cache_root = cache_root
        self._folder = folder
        self._prepare = prepare
        self._clock = clock
        self._offers: list[Offer] = []
        self._added: dict[str, tuple[added.Stamp, Offer | None]] = {}
        """By name: what was last seen of it, and what it gave, if it could be used."""

        self._voices: tuple[str, ...] = ()
        self._cards: tuple[VoiceCard, ...] = ()
        self._by_voice: dict[str, Offer] = {}
        self._changing = asyncio.Lock()
        self._scanning: asyncio.Task[None] | None = None
        self._scanned_at = 0.0
        self._closed = False
        self._on_removed: list[Callable[[Offer], None]] = []

    @property
    def default(self) -> Offer:
        """The first; there once :meth:`start` returned."""
        return self._offers[0]

    @property
    def voices(self) -> tuple[str, ...]:
        """Names, the default one first; none before the start. Cheap."""
        self._look_again()
        return self._voices

    @property
    def cards(self) -> tuple[VoiceCard, ...]:
        """What is known of each voice, in the same order."""
        self._look_again()
        return self._cards

    def on_removed(self, told: Callable[[Offer], None]) -> None:
        """Have ``told`` called with what is taken off the shelf."""
        self._on_removed.append(told)

    async def start(self) -> None:
        """Find the deployment's voices, and begin to look at the folder. Idempotent.

        Raises:
            StageFailure: a model of the deployment is not on this machine, or is no voice.
        """
        async with self._changing:
            self._closed = False
            if not self._offers:
                self._offers = await asyncio.to_thread(self._catalogued)
                self._renew()
                self._scan_soon()

    async def looked(self) -> None:
        """Return when what is in the folder is offered, or :data:`START_SECONDS` have passed."""
        if self._scanning is not None:
            await asyncio.wait([self._scanning], timeout=START_SECONDS)

    async def close(self) -> None:
        """Look no more. Idempotent."""
        self._closed = True
        if self._scanning is not None:
            self._scanning.cancel()
            await asyncio.wait([self._scanning])

    def find(self, voice: str | None) -> Offer:
        """The model of a voice; ``None`` for the default.

        Raises:
            StageFailure: there is none (``voice_unknown``).
        """
        if voice is None:
            return self.default
        offer = self._by_voice.get(voice)
        if offer is None:
            raise unknown(self._voices)
        return offer

    async def add(self, files: VoiceFiles) -> tuple[VoiceCard, ...]:
        """As :meth:`...pipeline.Pipeline.add_voice`."""
        folder = self._folder
        if folder is None:
            raise StageFailure(StageError("voices_fixed", "voices can't be added here"))
        if not re.fullmatch(NAME, files.name):
            raise _unusable("expected a name of letters, digits and . _ : + -, at most 100")
        async with self._changing:
            self._require_room(folder, files.name)
            try:
                return (await self._take_in(files, folder)).cards
            except OSError as error:
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                code = "voices_full" if full else "voices_fixed"
                what = f"the folder of voices can't be written: {error.strerror}"
                raise StageFailure(StageError(code, what)) from None

    async def remove(self, voice: str) -> None:
        """As :meth:`...pipeline.Pipeline.remove_voice`."""
        async with self._changing:
            offer = self.find(voice)
            if offer.created_at is None or self._folder is None:
                what = f"{voice} belongs to the deployment and can't be removed"
                raise StageFailure(StageError("voice_fixed", what))
            del self._added[offer.name]
            self._drop(offer)
            await asyncio.to_thread(added.remove, self._folder, offer.name)
            await asyncio.to_thread(shutil.rmtree, offer.folder, ignore_errors=True)

    def _catalogued(self) -> list[Offer]:
        """The deployment's voices; one whose packages are missing is left out."""
        found: list[Offer] = []
        for name in self._names:
            card, folder = require(name, self._cache_root)
            if card.kind != "voice":
                what = f"expected a voice model, got {name}, which is a {card.kind} model"
                raise StageFailure(StageError("model_unusable", what))
            model: VoiceModel = read_model(folder)
            # Without the default one there is nothing to serve: its load will say so.
            if found and (missing := missing_package(model)):
                logger.warning("no voices of %s: run `pip install '%s'`", name, missing)
                continue
            found.append(Offer(name, model, folder))
        return found

    def _all(self) -> list[Offer]:
        own = (offer for _, (_, offer) in sorted(self._added.items()) if offer is not None)
        return [*self._offers, *own]

    def _renew(self) -> None:
        """Reckon anew what is asked for each time."""
        self._by_voice = {}
        for offer in self._all():
            for voice in offer.model.voices:
                # The first of a name has it.
                self._by_voice.setdefault(voice, offer)
        self._voices = tuple(self._by_voice)
        cards = (card for offer in self._all() for card in offer.cards)
        first = {card.name: card for card in reversed(tuple(cards))}
        self._cards = tuple(first[voice] for voice in self._voices)

    def _drop(self, offer: Offer) -> None:
        offer.gone = True
        self._renew()
        for told in self._on_removed:
            told(offer)

    def _require_room(self, folder: Path, name: str) -> None:
        taken = {name for voice in self._by_voice for name in (voice, voice.partition(":")[0])}
        taken |= {offer.name for offer in self._all()}
        if name in taken:
            raise StageFailure(StageError("voice_exists", f"there is a voice {name} already"))
        if added.look(folder, name) is not None:
            what = f"there are files of {name} in the folder of voices already, not in use"
            raise StageFailure(StageError("voice_exists", what))
        if len(self._added) >= ADDED:
            what = f"there are {ADDED} added voices already: remove one"
            raise StageFailure(StageError("voices_full", what))

    async def _take_in(self, files: VoiceFiles, folder: Path) -> Offer:
        """Copy, prepare, try and place a voice."""
        try:
            size = (await asyncio.to_thread(files.graph.stat)).st_size
        except OSError as error:
            raise _unusable(f"the graph can't be read: {error.strerror}") from None
        if size > GRAPH_BYTES:
            raise _unusable(f"expected a graph of at most {GRAPH_BYTES >> 20} MiB")
        with added.workplace(folder) as work:
            # A copy, so that what was tried is what is kept.
            graph, description = work / "graph", work / "description"
            await asyncio.to_thread(shutil.copyfile, files.graph, graph)
            await asyncio.to_thread(shutil.copyfile, files.description, description)
            offer = await self._prepared(files.name, graph, description, int(time.time()))
            try:
                self._require_new(offer)
                added.place(graph, description, folder, files.name)
            except BaseException:
                shutil.rmtree(offer.folder, ignore_errors=True)
                raise
        pair = added.look(folder, files.name)
        self._added[files.name] = (pair.stamp if pair else (), offer)
        self._renew()
        return offer

    def _require_new(self, offer: Offer) -> None:
        if taken := next((voice for voice in offer.model.voices if voice in self._by_voice), None):
            raise StageFailure(StageError("voice_exists", f"there is a voice {taken} already"))

    async def _prepared(self, name: str, graph: Path, description: Path, created_at: int) -> Offer:
        """The offer of two files, of which a folder is made unless there is one."""
        told = await asyncio.to_thread(added.digest, graph, description)
        root = self._cache_root / PREPARED
        target = root / f"{name}-{told}"
        if not target.is_dir():
            with added.workplace(root) as work:
                made = work / "made"
                made.mkdir()
                await self._prepare(graph, description, made, name)
                added.install(made, target)
        return Offer(name, await asyncio.to_thread(read_model, target), target, created_at)

    def _look_again(self) -> None:
        """Begin to look at the folder, if the last time is a while ago."""
        if self._offers and self._clock() - self._scanned_at >= SCAN_SECONDS:
            self._scan_soon()

    def _scan_soon(self) -> None:
        if self._folder is None or self._closed or self._scanning is not None:
            return
        self._scanned_at = self._clock()
        self._scanning = asyncio.get_running_loop().create_task(
            self._scan(self._folder), name="voices-scan"
        )
        self._scanning.add_done_callback(self._scan_done)

    def _scan_done(self, task: asyncio.Task[None]) -> None:
        self._scanning = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the folder of voices can't be looked at: %s", type(error).__name__)

    async def _scan(self, folder: Path) -> None:
        """Bring what is offered in line with what is in the folder."""
        for _ in range(ROUNDS):
            if await self._scan_once(folder):
                return
            await asyncio.sleep(added.SETTLED_SECONDS)

    async def _scan_once(self, folder: Path) -> bool:
        """Whether all that was found could be judged; what still grows can't."""
        found = {pair.name: pair for pair in await asyncio.to_thread(added.pairs, folder)}
        for name in [name for name in self._added if name not in found]:
            async with self._changing:
                # It may have been added since, or removed.
                if name in self._added and added.look(folder, name) is None:
                    await self._forget(name)
        for number, pair in enumerate(found.values()):
            if number == ADDED:
                logger.warning(
                    "only %d voices are offered: %s and later are not", number, pair.name
                )
                break
            async with self._changing:
                await self._notice(folder, pair)
        return all(pair.settled for pair in found.values())

    async def _notice(self, folder: Path, pair: Pair) -> None:
        """Take up a pair that is new or has changed."""
        stamp, offer = self._added.get(pair.name, ((), None))
        usable = offer is None or offer.folder.is_dir()
        if stamp == pair.stamp and usable:
            return
        now = added.look(folder, pair.name)
        if now is None or now.stamp != pair.stamp or not pair.settled:
            return
        if offer is not None:
            await self._forget(pair.name)
        try:
            made = await self._prepared(pair.name, pair.graph, pair.description, pair.created_at)
            self._require_new(made)
        except StageFailure as failure:
            if not stamp or offer is not None:
                logger.warning("the voice %s is left out: %s", pair.name, failure.error.message)
            self._added[pair.name] = (pair.stamp, None)
        except OSError as error:
            logger.warning("the voice %s is left out: %s", pair.name, error.strerror)
            self._added[pair.name] = (pair.stamp, None)
        else:
            self._added[pair.name] = (pair.stamp, made)
            self._renew()

    async def _forget(self, name: str) -> None:
        """Offer a voice no longer whose files are gone or were changed by hand."""
        _, offer = self._added.pop(name)
        if offer is not None:
            self._drop(offer)
            await asyncio.to_thread(shutil.rmtree, offer.folder, ignore_errors=True)


def unknown(voices: tuple[str, ...]) -> StageFailure:
    """The failure of a request for a voice that is not among these."""
    more = ", ..." if len(voices) > NAMED else ""
    known = ", ".join(voices[:NAMED])
    return StageFailure(StageError("voice_unknown", f"expected a voice out of {known}{more}"))


def _unusable(what: str) -> StageFailure:
    return StageFailure(StageError("voice_unusable", what))
