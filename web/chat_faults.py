"""What a chat is told of a stage's failure: status, code and the field at fault. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from starlette.responses import Response

from ..engines.chunks import StageError
from ..engines.pipelines.absent import NO_MODEL, NO_RECOGNIZER
from .errors import envelope, refusal, sentence

_FIELD = re.compile(r"(tools|tool_choice)(\[\d+\])?(\.\w+)?(?=: )")
"""How a message begins that the stages write of a client's functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why there is no answer, or no more of it."""

    status: int
    """Of the response, where nothing of it is sent yet."""

    code: str
    message: str
    param: str | None = None
    retry_after_ms: int | None = None

    def response(self) -> Response:
        """Return it as the whole answer."""
        retry = self.retry_after_ms
        return refusal(
            self.status,
            self.code,
            self.message,
            param=self.param,
            retry_after_s=None if retry is None else math.ceil(retry / 1000),
        )

    def body(self) -> dict[str, object]:
        """Return it as the last event of a stream."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return envelope(
            self.message, kind, self.code, param=self.param, retry_after_ms=self.retry_after_ms
        )


def fault(error: StageError) -> Fault:
    """Return what the client is told of a stage's failure."""
    code, message = error.code, error.message
    if code == "voice_unknown":
        param = "audio.voice"
        return Fault(status=400, code="invalid_value", message=f"{param}: {message}.", param=param)
    if code in ("invalid_value", "context_length_exceeded"):
        found = _FIELD.match(message)
        if found is None:
            return Fault(status=400, code=code, message=message, param="messages")
        param = found[0]
        if found[3]:
            # Here what a function is lies one level deeper.
            param = f"{found[1]}{found[2] or ''}.function{found[3]}"
        return Fault(status=400, code=code, message=param + message[found.end() :], param=param)
    if code in (NO_MODEL.code, NO_RECOGNIZER.code):
        return Fault(status=400, code=code, message=sentence(error))
    if error.retry_after_ms is not None:
        retry = error.retry_after_ms
        return Fault(status=503, code=code, message=message, retry_after_ms=retry)
    return Fault(status=500, code=code, message=message)
