"""HTTP errors in OpenAI's envelope."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..engines.chunks import StageError
from ..sessions.errors import ErrorInfo


def envelope(
    message: str,
    kind: str,
    code: str | None = None,
    *,
    param: str | None = None,
    retry_after_ms: int | None = None,
) -> dict[str, object]:
    """Return the body of an error answer; with a time where trying again helps."""
    error: dict[str, object] = {"message": message, "type": kind, "param": param, "code": code}
    if retry_after_ms is not None:
        error["retry_after_ms"] = retry_after_ms
    return {"error": error}


def refusal(
    status: int,
    code: str,
    message: str,
    *,
    param: str | None = None,
    retry_after_s: int | None = None,
) -> Response:
    """Return the answer to a request, or an upgrade, that can't be granted."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    headers: dict[str, str] = {}
    retry_ms = None
    if retry_after_s is not None:
        headers["Retry-After"] = str(retry_after_s)
        retry_ms = retry_after_s * 1000
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    body = envelope(message, kind, code, param=param, retry_after_ms=retry_ms)
    return JSONResponse(body, status_code=status, headers=headers)


def sentence(error: StageError) -> str:
    """Return the message of a stage as a sentence."""
    return as_sentence(error.message)


def as_sentence(message: str) -> str:
    """Return a message with a capital at its begin and one full stop at its end."""
    return f"{message[:1].upper()}{message[1:].rstrip('.')}."


def bad_request(error: ErrorInfo) -> Response:
    """Refuse what the core or the wire finds wrong with a request."""
    return refusal(400, error.code or "invalid_value", error.message, param=error.param)


async def not_found(request: Request, _error: Exception | None) -> Response:
    """Answer a request for something that is not here."""
    message = f"Unknown request URL: {request.method} {request.url.path}."
    return JSONResponse(envelope(message, "invalid_request_error", "unknown_url"), status_code=404)


async def not_allowed(request: Request, error: Exception) -> Response:
    """Answer a request by a method that this address does not have."""
    message = f"Not allowed to {request.method} on {request.url.path}."
    return JSONResponse(
        envelope(message, "invalid_request_error", "method_not_allowed"),
        status_code=405,
        headers=error.headers if isinstance(error, HTTPException) else None,
    )


async def http_error(_request: Request, _error: Exception) -> Response:
    """Answer a request that failed for our reasons; the log has the rest."""
    return JSONResponse(
        envelope("The server had an error.", "server_error", "internal_error"), status_code=500
    )
