"""The contract of a stage: a logical step with its own batching and resources.

A stage is not a process: where it runs is the deployment's matter. One request in
one stage is a stream: chunks go in, typed chunks come out, and the last thing out
is exactly one :class:`~.chunks.End`, on every path.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, TypeVar

from .chunks import End, StageError

RequestT = TypeVar("RequestT", contravariant=True)
InT = TypeVar("InT", contravariant=True)
OutT = TypeVar("OutT", covariant=True)

FRESH_SECONDS = 0.25
"""After so long without a job a model is slow at first: its memory has left the caches,
and on a virtual machine perhaps the processor's reach. Measured with a voice of 60 MB:
25 ms when it ran just before, 55 ms after 0.2 s, 130 ms after 1 s, 300 ms after 3 s.
"""


class StageFailure(Exception):
    """A stage could not serve a request; ``error`` is fit to be shown to a client."""

    def __init__(self, error: StageError) -> None:
        super().__init__(f"{error.code}: {error.message}")
        self.error = error


class StageClosed(StageFailure):
    """The stage is shutting down or has not been started."""

    def __init__(self, stage: str) -> None:
        super().__init__(
            StageError("stage_closed", f"the {stage} stage is not running", retry_after_ms=1000)
        )


class StageStream(Protocol[InT, OutT]):
    """One request in one stage."""

    async def send(self, chunk: InT) -> None:
        """Hand in a chunk; waits while the stage's input bound is reached.

        A chunk sent to a stream that has ended is dropped: the end is on its way out.
        """
        ...

    async def end(self) -> None:
        """Say that no more chunks will be sent. Idempotent."""
        ...

    def __aiter__(self) -> AsyncIterator[OutT | End]:
        """Iterate over the output; the last item is the one ``End``."""
        ...

    def cancel(self) -> None:
        """Stop now. Idempotent, returns at once; the stream ends as cancelled."""
        ...


class Stage(Protocol[RequestT, InT, OutT]):
    """A step of a pipeline, shared by all requests."""

    async def start(self) -> None:
        """Load and warm up; on return the first request is served at full speed.

        Raises:
            StageFailure: the model is missing or does not fit.
        """
        ...

    def open(self, request: RequestT) -> StageStream[InT, OutT]:
        """Begin one request.

        Raises:
            StageClosed: the stage is not running.
        """
        ...

    async def close(self) -> None:
        """End every stream with an error and free all resources. Idempotent."""
        ...
