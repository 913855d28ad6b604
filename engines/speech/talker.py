"""The talker stage: clauses to latents, with the times of their words."""

from __future__ import annotations

import asyncio
import textwrap
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from ..chunks import Clause, End, Latents
from ..deployment import TalkerConfig
from ..flow import Flow
from ..pipeline import VoiceCard, VoiceFiles
from ..stage import StageClosed, StageStream
from ..streams import Inbox
from .ahead import Ahead
from .voices.family import Draft, VoiceTalker
from .voices.offer import Offer, VoiceUse
from .voices.rack import Rack
from .voices.shelf import Shelf
from .worker import Worker

CLAUSE_CHARS = 240
"""A longer clause is spoken in parts: about 16 s of speech."""

SPEEDS = (0.25, 4.0)
"""The slowest and the fastest rate of speech."""

INPUT_BOUND = 1
"""Clauses a stream holds before ``send`` waits: the next one. More would only be written for
a listener who may have stopped."""

WINDOWS = (24, 48, 96)
"""Frames made at once: few where the listener waits, and never so many that the job holds
up others for long. Each window is computed with its context, 64 frames more."""

AHEAD = 2.0
"""How much longer than what the listener has ahead a window may be. It is made in a twentieth
of its length or less, so it is there long before."""

AHEAD_ALONE = 4.0
"""The same where nobody else needs the thread, and the speech is made as fast as it is taken."""

DRAFTS_AHEAD = 2
"""Clauses begun at once of such speech: a draft takes as long as all windows of a short one."""

SLOW_NICENESS = 8
"""Lowered priority of the thread of slow voices, which take all of a core."""

WARM_UP = {
    "en": ("Certainly.", "The sky is blue because", "In the evening the light takes a longer way.")
}
"""Said when a voice is loaded, by its language."""

WARM_UP_ELSE = ("1", "1 2 3 4", "1 2 3 4 5 6 7 8 9")
"""In other languages: all of them read figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkRequest:
    """Ask for speech of the clauses that follow."""

    request_id: str
    voice: str | None = None
    """One of :attr:`TalkerStage.voices`; ``None`` for the first."""

    speed: float = 1.0
    """Rate of speech, 1 is the voice's own."""

    flow: Flow | None = field(default=None, compare=False)
    """Paces the speech; ``None`` for as fast as it goes."""

    use: VoiceUse | None = field(default=None, compare=False)
    """Shared by the streams of one request, which all have the voice that the first found."""

    def __post_init__(self) -> None:
        """Refuse a speed that no voice has."""
        if not SPEEDS[0] <= self.speed <= SPEEDS[1]:
            raise ValueError(f"expected a speed from {SPEEDS[0]} to {SPEEDS[1]}, got {self.speed}")


_Drafted: TypeAlias = tuple[Draft | None, float]
"""A clause with anything to say, and for how long it was held back, ms."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Loaded:
    half: VoiceTalker


class TalkerStage:
    """Speaks clauses, one at a time over all streams and voices, in a thread of its own.

    The default voice is loaded at the start, others when a request asks for one.
    """

    def __init__(
        self,
        config: TalkerConfig,
        cache_root: Path,
        *,
        shelf: Shelf | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``shelf``: the voices there are; those of ``config`` if not given. Loads nothing yet."""
        self._config = config
        self._shelf = shelf or Shelf(config.model, config.voices, cache_root)
        self._worker = Worker("talker", config.concurrency, clock=clock)
        self._slow = Worker("talker", clock=clock, niceness=SLOW_NICENESS)
        self._rack = Rack("talker", self._load, config.loaded)
        self._shelf.on_removed(self._rack.drop)
        self._clauses = 0
        self._windows = 0
        self._seconds = 0.0
        self._slow_seconds = 0.0

    @property
    def voices(self) -> tuple[str, ...]:
        """Names of the voices, the default one first; none before :meth:`start`."""
        return self._shelf.voices

    @property
    def voice_cards(self) -> tuple[VoiceCard, ...]:
        """What is known of each, in the same order."""
        return self._shelf.cards

    def language(self, voice: str | None) -> str:
        """ISO 639-1, of the text that a voice reads.

        Raises:
            StageFailure: there is no such voice.
        """
        return self._shelf.find(voice).model.language

    async def add_voice(self, files: VoiceFiles) -> tuple[VoiceCard, ...]:
        """As :meth:`~..pipeline.Pipeline.add_voice`."""
        return await self._shelf.add(files)

    async def remove_voice(self, name: str) -> None:
        """As :meth:`~..pipeline.Pipeline.remove_voice`."""
        await self._shelf.remove(name)

    async def start(self) -> None:
        """Load the default voice and warm up.

        Raises:
            StageFailure: the model or a package is missing; the message says what to run.
        """
        await self._shelf.start()
        offer = self._shelf.default
        self._rack.begin_with(offer, await self._worker.start(lambda: self._load(offer)))
        await self._slow.start(lambda: None)
        await self._shelf.looked()

    def open(self, request: TalkRequest) -> StageStream[Clause, Latents]:
        """Begin the speech of one reply. A clause without any word gives nothing.

        A voice that is not loaded is loaded from now on.

        Raises:
            StageClosed: the stage is not running.
            StageFailure: there is no such voice.
        """
        if self._rack.default is None:
            raise StageClosed("talker")
        use = request.use or VoiceUse()
        offer = use.offer = use.offer or self._shelf.find(request.voice)
        voice = request.voice or offer.model.voices[0]
        self._rack.request(offer)

        async def work(inbox: Inbox[Clause]) -> AsyncGenerator[Latents | End, None]:
            loaded = self._rack.ready(offer) or await self._rack.get(offer)
            use.keep(loaded)
            drafts = self._drafts(loaded.half, voice, inbox, request)
            async with aclosing(drafts) as begun:
                async for drafted in begun:
                    async with aclosing(self._speak(loaded.half, drafted, request.flow)) as made:
                        async for latents in made:
                            yield latents

        return self._worker.open(f"talker {request.request_id}", work, input_bound=INPUT_BOUND)

    async def warm(self) -> None:
        """Make the next clause as quick as if another had just been spoken."""
        if (loaded := self._rack.default) is not None:
            await self._worker.warm(lambda: _say(loaded.half, _warm_up(loaded.half)[0]))

    async def close(self) -> None:
        """End every stream with an error and free the models. Idempotent."""
        await self._worker.close()
        await self._slow.close()
        await self._rack.close()
        await self._shelf.close()

    def statistics(self) -> dict[str, float]:
        """Counters since the start, and what runs or waits now.

        ``chunks`` are the windows of latents, ``audio_seconds`` what those of the common thread
        amount to and ``slow_audio_seconds`` those of slow voices;
        ``voices_loaded``: models that are kept.
        """
        made = {"clauses": self._clauses, "chunks": self._windows, "audio_seconds": self._seconds}
        made["slow_audio_seconds"] = self._slow_seconds
        return self._worker.statistics() | self._rack.statistics() | made

    def _load(self, offer: Offer) -> _Loaded:
        half = offer.load_talker(self._config.threads, self._config.variation)
        texts = _warm_up(half)
        # For others than the default somebody waits, whose clause warms it up as well.
        for text in texts if offer is self._shelf.default else texts[:1]:
            _say(half, text)
        return _Loaded(half)

    def _drafts(
        self, half: VoiceTalker, voice: str, inbox: Inbox[Clause], request: TalkRequest
    ) -> AsyncGenerator[_Drafted, None]:
        """What is begun of each part in turn; one ahead where a thread has nothing to do, and
        nobody hears the speech as it comes."""
        flow, worker = request.flow, self._worker_of(half)

        async def begin(part: str) -> _Drafted:
            held_ms = await wait_to_speak(flow)
            due = None if flow is None else flow.speak_due
            return await worker.run(half.draft, part, request.speed, voice, due=due), held_ms

        def room() -> int:
            return DRAFTS_AHEAD if _alone(worker, flow) else 1

        return Ahead[str, _Drafted](room).run(_parts(inbox), begin)

    async def _speak(
        self, half: VoiceTalker, drafted: _Drafted, flow: Flow | None
    ) -> AsyncGenerator[Latents, None]:
        worker, (draft, held_ms) = self._worker_of(half), drafted
        if draft is None:
            return
        self._clauses += 1
        frame_ms = half.model.frame_ms
        while draft.left:
            ahead = AHEAD_ALONE if _alone(worker, flow) else AHEAD
            size = _window(draft, flow, frame_ms, ahead)
            due = None if flow is None else flow.speak_due
            latents = await worker.run(draft.next, size, due=due)
            ms = latents.frames.shape[1] * frame_ms
            self._windows += 1
            if half.model.slow:
                self._slow_seconds += ms / 1000
            else:
                self._seconds += ms / 1000
            if flow is not None:
                flow.spoke(ms)
            yield replace(latents, held_ms=held_ms)
            held_ms = 0.0

    def _worker_of(self, half: VoiceTalker) -> Worker:
        return self._slow if half.model.slow else self._worker


def _alone(worker: Worker, flow: Flow | None) -> bool:
    """Whether nobody else needs the thread now, and nobody hears the speech as it comes."""
    return worker.spare and not (flow is None or flow.paced)


async def _parts(inbox: Inbox[Clause]) -> AsyncGenerator[str, None]:
    async for clause in inbox:
        for part in parts(clause.text):
            yield part


def _warm_up(half: VoiceTalker) -> tuple[str, ...]:
    return WARM_UP.get(half.model.language, WARM_UP_ELSE)


def _say(half: VoiceTalker, text: str) -> None:
    if (draft := half.draft(text, 1.0, half.model.voices[0])) is not None:
        draft.next(draft.left)


async def wait_to_speak(flow: Flow | None) -> float:
    """Wait until more may be spoken; return for how long, ms."""
    if flow is None:
        return 0.0
    now = asyncio.get_running_loop().time
    began = now()
    await flow.wait_to_speak()
    return (now() - began) * 1000


def _window(draft: Draft, flow: Flow | None, frame_ms: float, ahead: float) -> int:
    """How many frames to make next: nothing that is left is smaller than a window."""
    size = WINDOWS[-1]
    if flow is not None:
        ahead_ms = (flow.buffer_ms or 0.0) + flow.undecoded_ms
        size = window_size(ahead_ms / frame_ms, ahead)
    return size if draft.left - size >= WINDOWS[0] else draft.left


def window_size(held: float, ahead: float = AHEAD) -> int:
    """Frames to make at once for a listener who has so many ahead, at most ``ahead`` times it."""
    return max((size for size in WINDOWS if size <= held * ahead), default=WINDOWS[0])


def parts(text: str) -> list[str]:
    """A clause in parts of bounded length; nearly always the clause itself."""
    if len(text) <= CLAUSE_CHARS:
        return [text]
    return textwrap.wrap(text, CLAUSE_CHARS, break_on_hyphens=False, replace_whitespace=False)
