"""What is told of a request about pictures and clips that can't be granted."""

from __future__ import annotations

from typing import TypeAlias

from starlette.responses import Response

from ...engines.jobs.desk import JobRefused
from ...engines.jobs.inputs import InputRefused
from ...engines.stage import StageFailure
from ...realtime.refusals import Refused
from ...sessions.errors import Refusal
from ..bodies import TOO_SLOW, BodyTooLarge
from ..errors import as_sentence, bad_request, refusal, sentence
from ..uploads import BadForm

_STATUS = {
    "queue_full": 429,
    "idempotency_mismatch": 409,
    "not_found": 404,
    "not_ready": 409,
    "store_unavailable": 503,
    "input_too_large": 413,
}
"""Of codes that mean something else than a request that can't be understood."""

_AGAIN_S = {"queue_full": 5, "store_unavailable": 2}

MediaRefused: TypeAlias = (
    JobRefused | InputRefused | StageFailure | Refused | Refusal | BadForm | BodyTooLarge
)

REFUSED = (JobRefused, InputRefused, StageFailure, Refused, Refusal, BadForm, BodyTooLarge)
"""All that routes answer with :func:`answer_refused`."""


def answer_refused(error: MediaRefused | TimeoutError) -> Response:
    """The answer, in OpenAI's envelope."""
    if isinstance(error, JobRefused):
        return _told(error.code, error.message, error.param)
    if isinstance(error, InputRefused):
        return _told(error.code, error.message, error.param)
    if isinstance(error, BadForm):
        return refusal(error.status, error.code, error.message, param=error.param)
    if isinstance(error, StageFailure):
        return refusal(503, error.error.code, sentence(error.error))
    if isinstance(error, BodyTooLarge):
        return refusal(413, "request_too_large", "The body is larger than it may be.")
    if isinstance(error, TimeoutError):
        return refusal(408, "request_timeout", TOO_SLOW)
    if isinstance(error, Refused):
        return bad_request(error.error)
    return _told(error.code or "invalid_value", error.message, error.param)


def _told(code: str, message: str, param: str | None) -> Response:
    status = 404 if code == "model_not_found" else _STATUS.get(code, 400)
    return refusal(
        status, code, as_sentence(message), param=param, retry_after_s=_AGAIN_S.get(code)
    )
