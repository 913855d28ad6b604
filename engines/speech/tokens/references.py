"""The voices that were taken from recordings: kept in a folder, a file each.

What is kept is what a family needs to speak so: the codes of the recording, its text, and what
the family found in it; beside them the words with which who speaks agreed. The recording itself
is not kept. Files of another family or codec may lie in the same folder, and are left alone.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, cast

import msgspec
import numpy as np
from msgspec import Meta

from ...chunks import StageError, Word
from ...pipeline import VoiceCard, VoiceRecording
from ...stage import StageFailure
from ..decoders.decoder import Encoder
from ..families.family import Family, Reference
from ..voices.family import NAME
from .recordings import make_reference, unusable

SUFFIX = ".reference.json"

RECORDINGS = 64
"""Most that may be kept in a folder, those of other families among them."""

FILE_BYTES = 1 << 20
"""Most of one of them. Half a minute of speech with all its words takes a twentieth."""

TEXT_CHARS = 2_000
"""Most of the text of a recording: of half a minute four times as much as is spoken."""

CONSENT_CHARS = 4_000
"""Most of the words of a consent."""

WORK_PREFIX = ".adding-"
"""Of files that are being written."""

ABANDONED_SECONDS = 24 * 3600.0
"""Age at which what a killed server left of them is swept away."""

logger = logging.getLogger(__name__)


class References(Protocol):
    """Voices that were taken from recordings. Used on the event loop."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the voices, sorted; none before :meth:`start`. Cheap."""
        ...

    @property
    def cards(self) -> tuple[VoiceCard, ...]:
        """What is known of each of :attr:`names`."""
        ...

    def find(self, name: str) -> Reference | None:
        """What a voice is taken from; ``None`` where there is none of the name.

        It stays of use to who has it, also when the voice is removed.
        """
        ...

    async def start(self) -> None:
        """Look for what was kept. Idempotent."""
        ...

    async def add(self, recording: VoiceRecording) -> VoiceCard:
        """As :meth:`...pipeline.Pipeline.add_voice`."""
        ...

    async def remove(self, name: str) -> None:
        """As :meth:`...pipeline.Pipeline.remove_voice`."""
        ...


class _KeptWord(msgspec.Struct, frozen=True, array_like=True):
    text: str
    start_ms: float
    end_ms: float


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the folder."""

    version: Literal[1] = 1
    name: Annotated[str, Meta(pattern=NAME)]
    family: str
    codec: str
    language: str
    text: str
    seconds: float
    consent: str
    consent_at: int
    """Unix time, as is :attr:`created_at`."""

    created_at: int
    codebooks: Annotated[int, Meta(ge=1)]
    codes: bytes
    """Little-endian int32, a codebook after the other."""

    words: tuple[_KeptWord, ...] = ()
    features: dict[str, Any] = {}

    def reference(self) -> Reference:
        """What a family takes a voice from.

        Raises:
            ValueError: the codes are not whole.
        """
        codes = np.frombuffer(self.codes, "<i4").astype(np.int32).reshape(self.codebooks, -1)
        if not codes.size:
            raise ValueError("no codes")
        words = tuple(Word(each.text, each.start_ms, each.end_ms) for each in self.words)
        return Reference(text=self.text, codes=codes, words=words, features=self.features)

    def card(self) -> VoiceCard:
        """How it is listed."""
        return VoiceCard(
            name=self.name,
            language=self.language,
            summary=f"a recording of {self.seconds:.1f} s",
            model=self.family,
            created_at=self.created_at,
            source="recording",
            consent_at=self.consent_at,
        )


class ReferenceStore:
    """:class:`References` of one family in a folder."""

    def __init__(
        self,
        family: Family,
        folder: Path | None,
        load_encoder: Callable[[], Encoder],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``folder``: made when the first is added; ``None`` where none can be.

        ``load_encoder``: of the family's codec; called in a thread for each that is added.
        ``clock``: Unix time.
        """
        self._family = family
        self._folder = folder
        self._load = load_encoder
        self._clock = clock
        self._kept: dict[str, tuple[VoiceCard, Reference]] = {}
        self._cards: tuple[VoiceCard, ...] = ()
        self._changing = asyncio.Lock()
        self._started = False

    @property
    def names(self) -> tuple[str, ...]:
        """As :attr:`References.names`."""
        return tuple(card.name for card in self._cards)

    @property
    def cards(self) -> tuple[VoiceCard, ...]:
        """As :attr:`References.cards`."""
        return self._cards

    def find(self, name: str) -> Reference | None:
        """As :meth:`References.find`."""
        kept = self._kept.get(name)
        return None if kept is None else kept[1]

    async def start(self) -> None:
        """As :meth:`References.start`."""
        async with self._changing:
            if not self._started and self._folder is not None and self._family.reference != "none":
                self._kept = await asyncio.to_thread(self._read_all, self._folder)
            self._started = True
            self._renew()

    async def add(self, recording: VoiceRecording) -> VoiceCard:
        """As :meth:`References.add`.

        Raises:
            StageFailure: see :meth:`...pipeline.Pipeline.add_voice`; the codec has no encoder
                (``encoder_missing``); a package is missing.
        """
        folder = self._require_usable(recording)
        async with self._changing:
            try:
                await asyncio.to_thread(self._require_room, folder, recording.name)
                kept = await asyncio.to_thread(self._make, recording, folder)
            except OSError as error:
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                what = f"the folder of voices can't be written: {error.strerror}"
                code = "voices_full" if full else "voices_fixed"
                raise StageFailure(StageError(code, what)) from None
            self._kept[recording.name] = (kept.card(), kept.reference())
            self._renew()
            return self._kept[recording.name][0]

    async def remove(self, name: str) -> None:
        """As :meth:`References.remove`."""
        async with self._changing:
            if name not in self._kept or self._folder is None:
                what = f"there is no voice {name} of a recording"
                raise StageFailure(StageError("voice_unknown", what))
            await asyncio.to_thread((self._folder / (name + SUFFIX)).unlink, missing_ok=True)
            del self._kept[name]
            self._renew()

    def _renew(self) -> None:
        self._cards = tuple(self._kept[name][0] for name in sorted(self._kept))

    def _require_usable(self, recording: VoiceRecording) -> Path:
        """Refuse what needs no look at the recording; where the others go."""
        family, folder = self._family, self._folder
        if family.reference == "none":
            what = f"voices of {family.name} are its own: none can be made from a recording"
            raise StageFailure(StageError("voices_fixed", what))
        if folder is None:
            raise StageFailure(StageError("voices_fixed", "voices can't be added here"))
        if not re.fullmatch(NAME, recording.name):
            what = "expected a name of letters, digits and . _ : + -, at most 100"
            raise unusable("voice_unusable", what)
        for field, text, most in (
            ("text", recording.text, TEXT_CHARS),
            ("consent", recording.consent, CONSENT_CHARS),
        ):
            if not 0 < len(text.strip()) <= most:
                what = f"expected a {field} of 1 to {most} characters, got {len(text.strip())}"
                raise unusable(f"{field}_unusable", what)
        if recording.language not in (None, *family.languages):
            what = f"expected a language out of {', '.join(family.languages)}"
            raise unusable("unsupported_language", what)
        return folder

    def _require_room(self, folder: Path, name: str) -> None:
        if name in (*self._family.voices, *self._kept):
            raise StageFailure(StageError("voice_exists", f"there is a voice {name} already"))
        if (folder / (name + SUFFIX)).exists():
            what = f"there is a file of {name} in the folder of voices already, not in use"
            raise StageFailure(StageError("voice_exists", what))
        if len(_files(folder)) >= RECORDINGS:
            what = f"there are {RECORDINGS} voices of recordings already: remove one"
            raise StageFailure(StageError("voices_full", what))

    def _make(self, recording: VoiceRecording, folder: Path) -> _Kept:
        """Encode a recording and write its file, in one step."""
        found, seconds = make_reference(recording, self._family, self._load)
        now = int(self._clock())
        kept = _Kept(
            name=recording.name,
            family=self._family.name,
            codec=self._family.codec,
            language=recording.language or self._family.languages[0],
            text=found.text,
            seconds=round(seconds, 3),
            consent=recording.consent,
            consent_at=now,
            created_at=now,
            codebooks=found.codes.shape[0],
            codes=found.codes.astype("<i4").tobytes(),
            words=tuple(_KeptWord(each.text, each.start_ms, each.end_ms) for each in found.words),
            features=dict(found.features),
        )
        whole = msgspec.json.format(msgspec.json.encode(kept, enc_hook=_plain))
        if len(whole) > FILE_BYTES:
            raise unusable("recording_unusable", "there is too much in the recording to keep")
        _write(folder, recording.name + SUFFIX, whole)
        # As it will be after a restart.
        return msgspec.json.decode(whole, type=_Kept)

    def _read_all(self, folder: Path) -> dict[str, tuple[VoiceCard, Reference]]:
        """What of the folder is this family's, and whole."""
        found: dict[str, tuple[VoiceCard, Reference]] = {}
        _sweep(folder)
        for path in _files(folder)[:RECORDINGS]:
            name = path.name.removesuffix(SUFFIX)
            try:
                with path.open("rb") as file:
                    kept = msgspec.json.decode(file.read(FILE_BYTES + 1), type=_Kept)
                reference = kept.reference()
            except (OSError, ValueError):
                logger.warning("the voice %s is left out: its file can't be read", name)
                continue
            ours = (kept.family, kept.codec) == (self._family.name, self._family.codec)
            if ours and kept.name == name and name not in self._family.voices:
                found[name] = (kept.card(), reference)
        return found


def _plain(value: object) -> object:
    """A number of numpy as one of Python."""
    if isinstance(value, np.generic):
        return cast("object", value.item())
    raise TypeError(f"expected what JSON has, got {type(value).__name__}")


def _files(folder: Path) -> list[Path]:
    """The files of voices, by name; none where there is no such folder."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError:
        return []
    ours = (each for each in names if each.endswith(SUFFIX))
    return [folder / each for each in ours if re.fullmatch(NAME, each.removesuffix(SUFFIX))]


def _sweep(folder: Path) -> None:
    for left in folder.glob(f"{WORK_PREFIX}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > ABANDONED_SECONDS:
                left.unlink()


def _write(folder: Path, name: str, content: bytes) -> None:
    """Make a file appear whole, so that a server that is killed leaves none or all of it."""
    folder.mkdir(parents=True, exist_ok=True)
    handle, work = tempfile.mkstemp(prefix=WORK_PREFIX, dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(work).rename(folder / name)
    except BaseException:
        Path(work).unlink(missing_ok=True)
        raise
