"""The realtime socket's route: who may open a session, and of which kind."""

from __future__ import annotations

from starlette.responses import Response
from starlette.websockets import WebSocket

from ..engines.pipeline import Pipeline
from ..realtime.dialect import asked_dialect
from ..realtime.secrets import Opened
from ..realtime.service import RealtimeService
from ..sessions.settings import SessionKind
from .access import Gate, Refusal
from .errors import refusal, sentence
from .socket import StarletteSocket

SUBPROTOCOL = "realtime"
"""What a browser's client asks for and must get; never an element that holds a key."""

STARTING_S, FULL_S = 1, 5
"""When to try again, seconds."""


class RealtimeRoute:
    """Opens sessions."""

    def __init__(self, service: RealtimeService, pipeline: Pipeline, gate: Gate) -> None:
        self._service = service
        self._pipeline = pipeline
        self._gate = gate

    async def serve(self, socket: WebSocket) -> None:
        """Serve a session, or refuse the upgrade with an HTTP answer that says why."""
        offered: list[str] = socket.scope.get("subprotocols", [])
        try:
            guest = self._gate.admit_session(socket, offered)
            begins = guest.secret or Opened()
            kind = _kind(socket, begins)
            if (lacks := self._service.lacks(kind)) is not None:
                raise Refusal(400, lacks.code, sentence(lacks))
        except Refusal as refused:
            answer = refusal(refused.status, refused.code, refused.message)
            await socket.send_denial_response(answer)
            return
        if (busy := not_now(self._service, self._pipeline)) is not None:
            await socket.send_denial_response(busy)
            return
        # Reserved before anything is awaited: upgrades that come together share the room.
        place = self._service.reserve()
        if place is None:
            await socket.send_denial_response(full())
            return
        with place:
            await socket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
            await self._service.serve(
                StarletteSocket(socket),
                extensions=socket.query_params.get("antiphon", "") not in ("", "0", "false"),
                dialect=asked_dialect(socket.headers, offered),
                kind=kind,
                defaults=begins.defaults,
            )


def not_now(service: RealtimeService, pipeline: Pipeline) -> Response | None:
    """Return the answer while nobody is let in, or nothing."""
    if service.stopping:
        return refusal(503, "server_stopping", "The server is stopping.", retry_after_s=FULL_S)
    if not pipeline.readiness.ready:
        return refusal(
            503,
            "server_starting",
            "The models are still loading; try again.",
            retry_after_s=STARTING_S,
        )
    return None


def full() -> Response:
    """Return the answer where there is no room for one more."""
    return refusal(
        503, "too_many_sessions", "The server is full; try again later.", retry_after_s=FULL_S
    )


def _kind(socket: WebSocket, begins: Opened) -> SessionKind:
    """Return what a session is for, from its address and its secret.

    Raises:
        Refusal: the address asks for something that is not here.
    """
    if socket.query_params.get("call_id"):
        raise Refusal(404, "call_id_not_found", "No session found for the provided call_id.")
    intent = socket.query_params.get("intent", "")
    if intent not in ("", "transcription"):
        raise Refusal(
            400, "invalid_intent", "intent must be 'transcription', or absent for a conversation."
        )
    asked = SessionKind.TRANSCRIPTION if intent else None
    if None not in (asked, begins.kind) and asked is not begins.kind:
        raise Refusal(400, "invalid_intent", "This client secret is for a conversation.")
    return begins.kind or asked or SessionKind.REALTIME
