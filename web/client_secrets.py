"""The routes that make ephemeral client secrets, as the GA and the beta protocol have them."""

from __future__ import annotations

import secrets as random
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..engines.pipeline import Pipeline
from ..realtime.dialect import Dialect
from ..realtime.refusals import Refused, wrong_type
from ..realtime.secrets import Issued, Opened, SecretStore, StoreFull
from ..realtime.service import RealtimeService
from ..realtime.wire_session import session_object, session_patch
from ..sessions.errors import ErrorInfo, Refusal
from ..sessions.ids import IdSource
from ..sessions.settings import SessionKind
from .bodies import TOO_SLOW, BodyTooLarge, read_body
from .errors import bad_request, refusal
from .leaving import NOBODY

Json = dict[str, Any]

BODY_BYTES = 512 * 1024
"""More than instructions and functions of the largest size that a session takes."""

BETA_SECONDS = 60
"""A secret of the beta protocol lives for a minute, whatever is asked for."""


class _ExpiresAfter(msgspec.Struct):
    anchor: Literal["created_at"] = "created_at"
    seconds: Annotated[int, Meta(ge=10, le=7200)] = 600


class _SecretIn(msgspec.Struct):
    expires_after: _ExpiresAfter | None = None
    session: msgspec.Raw = msgspec.Raw(b"null")


class _Kind(msgspec.Struct):
    type: Literal["realtime", "transcription"] | None = None


class ClientSecretRoutes:
    """Makes secrets; what their sessions begin with is checked here, not when they open."""

    def __init__(
        self, service: RealtimeService, pipeline: Pipeline, secrets: SecretStore, model: str
    ) -> None:
        self._service = service
        self._pipeline = pipeline
        self._secrets = secrets
        self._model = model

    def routes(self) -> list[Route]:
        """The three routes."""
        return [
            Route("/v1/realtime/client_secrets", self._make, methods=["POST"]),
            Route("/v1/realtime/sessions", self._make_beta, methods=["POST"]),
            Route(
                "/v1/realtime/transcription_sessions",
                self._make_beta_transcription,
                methods=["POST"],
            ),
        ]

    async def _make(self, request: Request) -> Response:
        return await self._answer(request, self._ga)

    async def _make_beta(self, request: Request) -> Response:
        return await self._answer(request, lambda body: self._beta(body, SessionKind.REALTIME))

    async def _make_beta_transcription(self, request: Request) -> Response:
        return await self._answer(request, lambda body: self._beta(body, SessionKind.TRANSCRIPTION))

    async def _answer(self, request: Request, make: Callable[[bytes], Json]) -> Response:
        if not self._pipeline.readiness.ready:
            # Voices are known once the models are loaded.
            message = "The models are still loading; try again."
            return refusal(503, "server_starting", message, retry_after_s=1)
        try:
            made = make(await read_body(request, BODY_BYTES))
        except ClientDisconnect:
            return Response(status_code=NOBODY)
        except TimeoutError:
            return refusal(408, "request_timeout", TOO_SLOW)
        except BodyTooLarge:
            message = f"The body may have at most {BODY_BYTES // 1024} KiB."
            return refusal(413, "request_too_large", message)
        except StoreFull as full:
            return refusal(
                429,
                "too_many_client_secrets",
                "Too many client secrets are waiting to expire.",
                retry_after_s=full.retry_after_s,
            )
        except Refused as refused:
            return bad_request(refused.error)
        except Refusal as refused:
            return bad_request(refused.info(None))
        return JSONResponse(made, headers={"Cache-Control": "no-store"})

    def _ga(self, body: bytes) -> Json:
        asked = _decoded(body)
        life = asked.expires_after or _ExpiresAfter()
        raw = bytes(asked.session)
        if raw == b"null":
            issued, session = self._issue(b"{}", None, life.seconds, Dialect.GA)
        else:
            issued, session = self._issue(raw, _kind(raw), life.seconds, Dialect.GA)
        return {"value": issued.value, "expires_at": issued.expires_at, "session": session}

    def _beta(self, body: bytes, kind: SessionKind) -> Json:
        issued, session = self._issue(body, kind, BETA_SECONDS, Dialect.BETA)
        secret = {"value": issued.value, "expires_at": issued.expires_at}
        return {**session, "client_secret": secret}

    def _issue(
        self, raw: bytes, kind: SessionKind | None, seconds: int, dialect: Dialect
    ) -> tuple[Issued, Json]:
        """Make a secret for sessions that begin with ``raw``; ``None`` leaves their kind open."""
        shown = kind or SessionKind.REALTIME
        patch = session_patch(raw, shown)
        settings = self._service.settings(shown, patch)
        opened = Opened(kind, patch)
        issued = self._secrets.issue(opened, size=len(raw), seconds=seconds)
        session_id = IdSource(random.token_hex(16)).next("sess")
        # Not the secret's expiry: a session's own time begins when it is opened.
        session = session_object(session_id, settings, 0, self._model, dialect)
        return issued, session


def _decoded(body: bytes) -> _SecretIn:
    try:
        return msgspec.json.decode(body, type=_SecretIn)
    except msgspec.ValidationError as error:
        raise Refused(wrong_type(error, None)) from None
    except (msgspec.DecodeError, RecursionError):
        raise Refused(ErrorInfo("invalid_json", "The body is not valid JSON.")) from None


def _kind(raw: bytes) -> SessionKind:
    try:
        name = msgspec.json.decode(raw, type=_Kind).type
    except msgspec.ValidationError as error:
        raise Refused(wrong_type(error, None, "session")) from None
    return SessionKind(name or "realtime")
