"""What a session tells a client that asked for something impossible.

Peer input never raises out of the core: it becomes an :class:`ErrorInfo` in an effect.
Inside the core, :class:`Refusal` carries one from where it is noticed to the edge.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """One error as the wire shows it."""

    code: str | None
    message: str
    param: str | None = None
    """The field at fault, as a dotted path."""

    event_id: str | None = None
    """Id of the client's event at fault, where it had one."""

    type: str = "invalid_request_error"
    retry_after_ms: int | None = None
    """Set where trying again helps."""


class Refusal(Exception):
    """A client's request can't be carried out; nothing has been changed."""

    def __init__(
        self,
        code: str | None,
        message: str,
        param: str | None = None,
        *,
        kind: str = "invalid_request_error",
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.kind = kind
        """Which kind of error a client sees."""

        self.retry_after_ms = retry_after_ms

    def info(self, event_id: str | None) -> ErrorInfo:
        """Return the error for the client's event ``event_id``."""
        return ErrorInfo(
            self.code,
            self.message,
            self.param,
            event_id,
            type=self.kind,
            retry_after_ms=self.retry_after_ms,
        )
