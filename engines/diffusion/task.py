"""What is asked of a diffusion model, and what it tells on the way.

Plain data: it is kept with the job, so that any worker can begin the work or go on with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

Kind: TypeAlias = Literal["image", "video"]

Frames: TypeAlias = NDArray[np.uint8]
"""``(count, height, width, 3)``, RGB."""


class MediaTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One picture or clip, with everything that decides what it looks like."""

    kind: Kind
    model: str
    """As the deployment names it."""

    prompt: str
    negative_prompt: str = ""
    width: int
    height: int
    steps: int
    guidance: float
    seed: int
    frames: int = 1
    frames_per_second: int = 0
    """Of a clip; 0 for a picture."""

    inputs: dict[str, str] = {}
    """Artefacts that go in, by the name that the family gives them: ``image``, ``mask``,
    ``video``; each a key of the artefact store, a picture as PNG."""

    strength: float = 1.0
    """How much of ``image`` is made anew, 0 to 1."""

    adapters: dict[str, float] = {}
    """LoRA adapters of the deployment, and their weights."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step is done."""

    done: int
    of: int
    ms: float
    """What it took."""

    preview: bytes | None = None
    """The picture as it forms, JPEG of at most 256 pixels a side; not with every step."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that is needed to go on after ``done`` steps, by the same code and weights."""

    done: int
    state: bytes


@dataclass(frozen=True, slots=True)
class Picture:
    """The end: what was made."""

    frames: Frames
    audio: NDArray[np.float32] | None = None
    """``(channels, n)``, of models that make sound as well."""

    audio_rate: int = 0
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    """What a user needs to make it again: the scheduler, the model's revision, versions."""


Told: TypeAlias = Step | Checkpoint | Picture


class TaskFailed(Exception):
    """A task could not be carried out; the message is fit for a client."""

    def __init__(self, code: str, message: str, *, retry: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry = retry
        """Whether trying again may help."""


class TaskCancelled(Exception):
    """It was told to stop."""
