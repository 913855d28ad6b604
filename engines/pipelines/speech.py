"""Clauses to speech: gate, talker and code2wav joined, for replies and for text as it comes.

Speech of paragraphs is made one paragraph after the other: the sound of each ends by itself,
with silence ahead of the next. The talker is at the next one meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from ..chunks import Clause, End, EndReason, Latents, PcmChunk, SpokenWords, StageError, Word
from ..flow import Flow
from ..pipeline import OUTPUT_RATE
from ..speech.clauses import ClauseSplitter
from ..speech.code2wav import DecodeRequest
from ..speech.reading.reader import Reader
from ..speech.talker import TalkRequest
from ..speech.voices.offer import VoiceUse
from ..stage import StageFailure, StageStream
from ..streams import Inbox
from .gate import Gate
from .outlet import Outlet
from .stages import CascadeStages

CLAUSES_AHEAD = 1
"""Clauses written and not yet at the talker; beyond that the text waits for it. It has one
being spoken, and the next."""

PAUSE_MS = 600
"""Silence between two paragraphs, at a speed of 1."""

SLICE_CHARS = 128
"""Text that is looked at without letting others run."""

Talk: TypeAlias = StageStream[Clause, Latents]
Sound: TypeAlias = StageStream[Latents, SpokenWords | PcmChunk]
Spoken: TypeAlias = SpokenWords | PcmChunk


class Mark(Enum):
    """What there is in a text to be spoken besides clauses."""

    PARAGRAPH = "paragraph"
    """One ends here, and another may follow."""

    END = "end"


@dataclass(slots=True, eq=False)
class _Paragraph:
    """Streams of a stretch of text that is spoken without a pause."""

    talk: Talk
    sound: Sound
    asked: int = 0
    """Clauses at the talker, and not yet spoken."""

    ended: bool = False


class Voicing:
    """The speech of one request: takes clauses, and hands over words and audio of them."""

    def __init__(
        self,
        stages: CascadeStages,
        asked: TalkRequest,
        flow: Flow,
        gate: Gate,
        hand_over: Callable[[Spoken], Awaitable[None]],
    ) -> None:
        """``asked``: what to ask the talker for; the flow is added to it."""
        self.admitted_at: float | None = None
        """When the first clause was let to the talker, on the clock of the event loop."""

        self.talker_at: float | None = None
        """When the talker's first frames came."""

        self.cut = False
        """Whether the talker had to stop before it came to an end."""

        self._stages = stages
        # Paragraphs share it: a voice that is removed meanwhile speaks to the end.
        self._asked = replace(asked, flow=flow, use=VoiceUse())
        self._flow = flow
        self._place = gate.place()
        self._hand_over = hand_over
        self._now = asyncio.get_running_loop().time
        self._said: asyncio.Queue[Clause | Mark] = asyncio.Queue(CLAUSES_AHEAD)
        # One to be voiced while another is; the talker's own bound comes first.
        self._paragraphs: asyncio.Queue[_Paragraph | None] = asyncio.Queue(1)
        self._opened: list[StageStream[Any, Any]] = []
        self._first: _Paragraph | None = None
        self._made_ms = 0.0

    def open(self) -> None:
        """Open the streams of the first paragraph.

        Raises:
            StageFailure: a stage does not serve this.
        """
        self._first = self._open()

    async def say(self, said: Sequence[Clause | Mark]) -> None:
        """Have clauses spoken; waits while the talker is behind. Last comes ``Mark.END``."""
        for each in said:
            await self._said.put(each)

    async def run(self) -> None:
        """Speak to the end.

        Raises:
            StageFailure: a stage failed, alone or in a group; or ``overloaded``: there is no
                time for one more.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._speak())
            tasks.create_task(self._voice())
        self._place.leave()

    def close(self) -> None:
        """Give the place back and cancel what still runs. Idempotent."""
        self._place.leave()
        for stream in self._opened:
            stream.cancel()

    async def _speak(self) -> None:
        assert self._first is not None, "opened before it is run"
        paragraph = self._first
        await self._paragraphs.put(paragraph)
        while (said := await self._said.get()) is not Mark.END:
            if isinstance(said, Clause):
                if paragraph.ended:
                    paragraph = self._open()
                    await self._paragraphs.put(paragraph)
                await self._ask(paragraph, said)
            elif self.admitted_at is not None and not paragraph.ended:
                paragraph.ended = True
                await paragraph.talk.end()
        await paragraph.talk.end()
        await self._paragraphs.put(None)

    async def _ask(self, paragraph: _Paragraph, clause: Clause) -> None:
        if self.admitted_at is None:
            await self._place.enter(self._flow)
            self._flow.begin()
            self.admitted_at = self._now()
        paragraph.asked += 1
        self._flow.asked()
        await paragraph.talk.send(clause)

    async def _voice(self) -> None:
        """One paragraph after the other: two at once would take the room of each other."""
        while (paragraph := await self._paragraphs.get()) is not None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._talk(paragraph))
                tasks.create_task(self._sound(paragraph))
            self._opened.remove(paragraph.talk)
            self._opened.remove(paragraph.sound)

    async def _talk(self, paragraph: _Paragraph) -> None:
        async for item in paragraph.talk:
            if isinstance(item, End):
                require_completed("talker", item)
                self.cut = self.cut or item.reason is EndReason.LENGTH
                # Some clauses have nothing to pronounce.
                self._flow.answered(paragraph.asked)
                await paragraph.sound.end()
                return
            if self.talker_at is None:
                self.talker_at = self._now()
            if item.last and (spoken := min(item.clauses, paragraph.asked)):
                paragraph.asked -= spoken
                self._flow.answered(spoken)
            await paragraph.sound.send(item)

    async def _sound(self, paragraph: _Paragraph) -> None:
        begins_ms: float | None = None
        async for item in paragraph.sound:
            if isinstance(item, End):
                require_completed("code2wav", item)
                return
            if begins_ms is None:
                if self._made_ms:
                    await self._pause()
                begins_ms = self._made_ms
            if isinstance(item, SpokenWords):
                await self._hand_over(_later(item, begins_ms))
            else:
                self._made_ms += len(item.pcm) / 2 / item.rate * 1000
                await self._hand_over(item)

    async def _pause(self) -> None:
        samples = round(PAUSE_MS / 1000 / self._asked.speed * OUTPUT_RATE)
        ms = samples / OUTPUT_RATE * 1000
        self._flow.spoke(ms)
        self._flow.made(ms)
        self._made_ms += ms
        await self._hand_over(PcmChunk(bytes(2 * samples), OUTPUT_RATE))

    def _open(self) -> _Paragraph:
        talk = self._stages.talker.open(self._asked)
        self._opened.append(talk)
        sound = self._stages.code2wav.open(
            DecodeRequest(
                request_id=self._asked.request_id,
                voice=self._asked.voice,
                flow=self._flow,
                use=self._asked.use,
            )
        )
        self._opened.append(sound)
        return _Paragraph(talk, sound)


def speech_chunks(
    stages: CascadeStages, asked: TalkRequest, flow: Flow, gate: Gate, inbox: Inbox[str]
) -> AsyncGenerator[Spoken | End, None]:
    """Yield speech of the text in ``inbox`` and its ``End``; when closed, cancel all at once.

    Raises:
        StageFailure: the first failure of a stage; the others are cancelled then. Or
            ``overloaded``: there is no time for one more.
    """
    outlet = Outlet[Spoken](flow)

    async def join() -> End:
        voicing = Voicing(stages, asked, flow, gate, outlet.put)
        try:
            voicing.open()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_write(inbox, voicing, stages.talker.language(asked.voice)))
                tasks.create_task(voicing.run())
        finally:
            voicing.close()
        return End(EndReason.LENGTH if voicing.cut else EndReason.COMPLETED)

    return outlet.chunks(join, f"speak-{asked.request_id}")


async def _write(inbox: Inbox[str], voicing: Voicing, language: str) -> None:
    script = Script(language)
    async for piece in inbox:
        for at in range(0, len(piece), SLICE_CHARS):
            await voicing.say(script.feed(piece[at : at + SLICE_CHARS]))
            await asyncio.sleep(0)
    await voicing.say([*script.flush(), Mark.END])


class Script:
    """Text as it is written, in any pieces, to clauses as they are spoken."""

    def __init__(self, language: str = "en") -> None:
        """``language``: ISO 639-1, of the text; figures and the like are read in it."""
        self._reader = Reader(language)
        self._clauses = ClauseSplitter()
        self._line_ends = 0
        """In the white space at the end of what was fed."""

    def feed(self, text: str) -> list[Clause | Mark]:
        """Add text; return what is certain now."""
        return self._cut(self._reader.feed(text))

    def flush(self) -> list[Clause | Mark]:
        """Return what is left."""
        return [*self._cut(self._reader.flush()), *self._clauses.flush()]

    def _cut(self, text: str) -> list[Clause | Mark]:
        cut: list[Clause | Mark] = []
        for number, line in enumerate(text.split("\n")):
            if number:
                cut += self._clauses.feed("\n")
                self._line_ends += 1
                if self._line_ends == 2:
                    cut += [*self._clauses.flush(goes_on=True), Mark.PARAGRAPH]
            cut += self._clauses.feed(line)
            if line.strip():
                self._line_ends = 0
        return cut


def require_completed(stage: str, end: End) -> None:
    """Raise what ended a stage's stream early.

    Raises:
        StageFailure: it did not complete.
    """
    if end.reason not in (EndReason.COMPLETED, EndReason.LENGTH):
        raise StageFailure(end.error) if end.error else broken(stage)


def broken(stage: str) -> StageFailure:
    """The failure of a stage that stopped without a word."""
    return StageFailure(StageError("stage_stopped", f"the {stage} stage stopped", 1000))


def _later(spoken: SpokenWords, ms: float) -> SpokenWords:
    if not ms:
        return spoken
    return SpokenWords(
        tuple(Word(each.text, each.start_ms + ms, each.end_ms + ms) for each in spoken.words)
    )
