"""What happened in a spoken conversation, and the figures and spans that follow from it.

All instants are seconds since the microphone was opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from numpy.typing import NDArray

from ..engines.chunks import Word
from ..engines.pipeline import OUTPUT_RATE
from .demo_playback import Playback, Segment

STAGES: tuple[str, ...] = (
    "endpointing",
    "recognition",
    "first token",
    "first clause",
    "talker",
    "code2wav",
)
"""The steps of a turn, in order; ``antiphon.metrics`` has a figure for each."""


@dataclass(slots=True)
class Reply:
    """One answer of the server, as it was received."""

    response_id: str
    created_at: float
    item_id: str = ""
    text: str = ""
    pcm: bytearray = field(default_factory=bytearray)
    """All of it that was received, also what was never heard."""

    words: list[Word] = field(default_factory=list[Word])
    """With times from its first sample."""

    first_audio_at: float | None = None
    last_audio_at: float | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])
    status: str = "in_progress"
    cut_at: float | None = None
    """When it was interrupted, if it was."""

    heard_ms: float = 0.0
    """How much of it was heard by then."""

    late_bytes: int = 0
    """Audio of it that came after the server had said that the person speaks."""

    @property
    def received_ms(self) -> float:
        """Length of the audio received."""
        return len(self.pcm) / 2 * 1000 / OUTPUT_RATE

    @property
    def heard_words(self) -> list[Word]:
        """The words that were over when it was cut; all of them where it was not."""
        if self.cut_at is None:
            return list(self.words)
        return [word for word in self.words if word.end_ms <= self.heard_ms]

    @property
    def heard_text(self) -> str:
        """What a listener heard of it."""
        if self.cut_at is None:
            return self.text
        return " ".join(word.text for word in self.heard_words)

    @property
    def unheard_text(self) -> str:
        """What was written and never heard."""
        if self.cut_at is None:
            return ""
        return " ".join(self.text.split()[len(self.heard_words) :])

    @property
    def heard_pcm(self) -> bytes:
        """The audio of :attr:`heard_text`: a word that was cut in two is not in it."""
        if self.cut_at is None:
            return bytes(self.pcm)
        heard = self.heard_words
        return bytes(self.pcm[: _byte_at(heard[-1].end_ms if heard else 0.0)])

    @property
    def unheard_pcm(self) -> bytes:
        """The audio that was received and never played."""
        return b"" if self.cut_at is None else bytes(self.pcm[_byte_at(self.heard_ms) :])


def _byte_at(ms: float) -> int:
    return 2 * round(ms * OUTPUT_RATE / 1000)


@dataclass(slots=True)
class Turn:
    """Something that the person said, and what became of it."""

    text: str
    starts_at: float
    words: tuple[Word, ...]
    """With times from ``starts_at``."""

    speech_started_at: list[float] = field(default_factory=list[float])
    speech_stopped_at: list[float] = field(default_factory=list[float])
    heard: list[str] = field(default_factory=list[str])
    """What the server heard, one a turn that it found."""

    replies: list[Reply] = field(default_factory=list[Reply])
    interrupted: Reply | None = None
    """The reply that it cut into."""

    @property
    def onset_at(self) -> float:
        """Begin of the first word."""
        return self.starts_at + (self.words[0].start_ms / 1000 if self.words else 0.0)

    @property
    def last_word_at(self) -> float:
        """End of the last word."""
        return self.starts_at + (self.words[-1].end_ms / 1000 if self.words else 0.0)

    @property
    def reply(self) -> Reply | None:
        """The answer: the last one that was spoken."""
        spoken = [reply for reply in self.replies if reply.pcm]
        return spoken[-1] if spoken else None

    @property
    def latency_ms(self) -> float | None:
        """From the end of the last word to the first audio of the reply received."""
        reply = self.reply
        if reply is None or reply.first_audio_at is None:
            return None
        return 1000 * (reply.first_audio_at - self.last_word_at)


@dataclass(frozen=True, slots=True)
class Interruption:
    """How fast a reply fell silent when the person spoke; ms."""

    noticed_ms: float
    """From the first sound of the person to ``speech_started`` received."""

    last_audio_ms: float
    """From the first sound of the person to the last audio of the old reply received;
    negative where all of it had arrived by then."""

    silent_ms: float
    """From ``speech_started`` to silence."""

    late_bytes: int
    """Audio of the old reply that came after ``speech_started``."""


def interruption(turn: Turn) -> Interruption | None:
    """The figures of a turn that cut into a reply."""
    old = turn.interrupted
    if old is None or old.cut_at is None or old.last_audio_at is None:
        return None
    started_at = turn.speech_started_at[0]
    return Interruption(
        noticed_ms=1000 * (started_at - turn.onset_at),
        last_audio_ms=1000 * (old.last_audio_at - turn.onset_at),
        silent_ms=1000 * (old.cut_at - started_at),
        late_bytes=old.late_bytes,
    )


@dataclass(frozen=True, slots=True)
class Span:
    """A step of a turn."""

    name: str
    starts_at: float
    ends_at: float

    @property
    def ms(self) -> float:
        """Its length."""
        return 1000 * (self.ends_at - self.starts_at)


def spans(reply: Reply) -> list[Span]:
    """The steps ahead of a reply, by the server's own figures, up to its first audio.

    They are laid so that the last ends where the first audio was received: the clocks of
    the two sides need not agree.
    """
    lengths = [metric(reply, name) for name in STAGES]
    total_ms = reply.metrics.get("total_ms")
    if reply.first_audio_at is None or total_ms is None:
        return []
    at = reply.first_audio_at - total_ms / 1000
    laid: list[Span] = []
    for name, length in zip(STAGES, lengths, strict=True):
        laid.append(Span(name, at, at + length / 1000))
        at = laid[-1].ends_at
    return laid


def metric(reply: Reply, stage: str) -> float:
    """The server's figure for one of :data:`STAGES`; ms."""
    return reply.metrics.get(f"{stage.replace(' ', '_')}_ms") or 0.0


@dataclass(frozen=True, slots=True)
class SoundingWord:
    """A word and when it sounded in the conversation."""

    text: str
    starts_at: float
    ends_at: float


def said_words(turn: Turn) -> list[SoundingWord]:
    """The person's words."""
    return [
        SoundingWord(
            word.text, turn.starts_at + word.start_ms / 1000, turn.starts_at + word.end_ms / 1000
        )
        for word in turn.words
    ]


def played_words(reply: Reply, playback: Playback) -> list[SoundingWord]:
    """The words of a reply that were heard, as they sounded."""
    sounding: list[SoundingWord] = []
    for word in reply.heard_words:
        starts_at = playback.instant_of(reply.response_id, word.start_ms)
        ends_at = playback.instant_of(reply.response_id, word.end_ms)
        if starts_at is not None:
            sounding.append(SoundingWord(word.text, starts_at, ends_at or starts_at))
    return sounding


def mix_down(segments: Iterable[Segment], samples: int) -> NDArray[np.int16]:
    """What came out of the loudspeaker, as one track of so many samples from 0 s on."""
    track = np.zeros(samples, np.int16)
    for segment in segments:
        start = round(segment.starts_at * OUTPUT_RATE)
        sound = np.frombuffer(segment.pcm, "<i2")[: max(0, samples - start)]
        track[start : start + len(sound)] = sound
    return track


@dataclass(frozen=True, slots=True)
class Story:
    """A whole conversation."""

    turns: tuple[Turn, ...]
    person: NDArray[np.int16]
    """Everything the microphone sent, :data:`~..engines.pipeline.OUTPUT_RATE`."""

    playback: Playback
    model: str

    @property
    def reply_track(self) -> NDArray[np.int16]:
        """What the loudspeaker played meanwhile; as long as ``person``."""
        return mix_down(self.playback.segments, len(self.person))

    @property
    def seconds(self) -> float:
        """How long it took."""
        return len(self.person) / OUTPUT_RATE

    def replies(self) -> Iterator[tuple[Turn, Reply]]:
        """Each turn that was answered, with its answer."""
        return ((turn, turn.reply) for turn in self.turns if turn.reply is not None)


def median_ms(values: Iterable[float | None]) -> float | None:
    """The middle of the values that there are."""
    known = [value for value in values if value is not None]
    return median(known) if known else None
