"""What flows between stages: plain, typed, immutable chunks."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Samples: TypeAlias = NDArray[np.float32]
"""Mono samples in [-1, 1], shape ``(n,)``."""


@dataclass(frozen=True, slots=True)
class PcmChunk:
    """Raw audio on its way into a stage or out of the pipeline."""

    pcm: bytes
    """s16le, mono."""

    rate: int
    """Samples per second."""


@dataclass(frozen=True, slots=True)
class SpeechFrames:
    """Speech probabilities of consecutive frames, in the order they were heard."""

    probabilities: tuple[float, ...]
    """One value in 0..1 a frame."""

    frame_ms: int = 20
    """Length of each frame."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token of a transcript, and the natural logarithm of its probability."""

    token: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """What a recognizer understood of one utterance; the last chunk before ``End``."""

    text: str
    """Empty when nothing was said."""

    audio_ms: int
    """Length of the audio that was read."""

    logprobs: tuple[TokenLogprob, ...] = ()
    """Of the text's tokens, where they were asked for and the model tells them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of a long recording, and what was said in it."""

    text: str
    """With the space ahead of it, where the language has spaces: all of them joined are the
    whole text."""

    start_ms: float
    end_ms: float
    """Both from the start of the recording."""

    words: tuple[Word, ...] = ()
    """With times from the start of the recording, where they were asked for."""

    language: str | None = None
    """ISO 639-1, as it was asked for or found."""

    mean_logprob: float = 0.0
    """Of its tokens, natural logarithm."""

    no_speech: float = 0.0
    """Probability that nothing was said."""

    logprobs: tuple[TokenLogprob, ...] = ()
    tokens: tuple[int, ...] = ()
    """Ids of the recognizer's own."""


@dataclass(frozen=True, slots=True)
class TranscriptDelta:
    """A piece of a transcript that is still growing; pieces concatenate to the whole."""

    text: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of generated text; pieces concatenate to the whole."""

    text: str
    tokens: int
    """How many tokens of the model this piece consumed."""


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of a function call; the calls of one answer come one after another."""

    index: int
    """Counts the calls of the answer, from 0."""

    name: str
    arguments: str
    """JSON text; the pieces of one call concatenate to the whole."""

    done: bool
    """Whether this is the call's last piece."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The context was too long: told ahead of any answer, only where messages were left out."""

    dropped: int
    """How many of the oldest messages, system messages not counted, were left out."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A piece of text to be spoken in one breath; the unit of the talker."""

    text: str


@dataclass(frozen=True, slots=True)
class Word:
    """A spoken word and when it sounds."""

    text: str
    start_ms: float
    end_ms: float
    """Both from the first sample of the stream that carries the word."""


@dataclass(frozen=True, slots=True)
class Latents:
    """Frames of a talker for code2wav: one whole clause, or a part of one."""

    frames: NDArray[Any]
    """Shape ``(channels, n)``: float32 numbers, or int32 codes with a row a codebook, as the
    talker's own decoder wants them."""

    words: tuple[Word, ...] = ()
    """Words that begin in these frames or, of a clause in parts, in a later one; times from
    the first of these frames."""

    last: bool = True
    """Whether the clause ends here: the decoder's context does not reach past it."""

    held_ms: float = 0.0
    """For how long the talker was kept from making them, as the listener had enough."""

    clauses: int = 1
    """With :attr:`last`: how many clauses end here, if the talker joins or parts them."""

    lead: NDArray[Any] | None = None
    """With the first frames of a clause: codes that its decoder may have as what was before."""


@dataclass(frozen=True, slots=True)
class SpokenWords:
    """Word times, always ahead of the audio that holds the words."""

    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Timings:
    """When a reply passed each stage, on the monotonic clock of the event loop, seconds.

    Sent once a reply, just ahead of its first audio; ``None`` where it did not pass.
    """

    started_at: float
    first_token_at: float | None = None
    first_clause_at: float | None = None
    talker_at: float | None = None
    code2wav_at: float | None = None
    admitted_at: float | None = None
    """When its first clause was let to the talker; see ``pipelines/gate.py``."""


class EndReason(Enum):
    """Why a stream is over."""

    COMPLETED = "completed"
    LENGTH = "length"
    """The model reached its token limit."""

    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class StageError:
    """What went wrong, in words fit for a client: no prompt, path or traceback."""

    code: str
    message: str
    retry_after_ms: int | None = None
    """Set where trying again helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of the autoregressive model."""

    input_tokens: int = 0
    cached_tokens: int = 0
    """Of the input, how many were found in the prefix cache."""

    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """The last thing every stream yields, exactly once."""

    reason: EndReason
    error: StageError | None = None
    usage: Usage = field(default_factory=Usage)
