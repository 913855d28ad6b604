"""The route of the socket that takes text in while its speech goes out."""

from __future__ import annotations

from starlette.websockets import WebSocket

from ..engines.pipeline import Pipeline
from ..realtime.service import RealtimeService
from ..realtime.speech_service import SpeechService
from .access import Gate, Refusal
from .errors import refusal
from .realtime import SUBPROTOCOL, full, not_now
from .socket import StarletteSocket


class SpeechStreamRoute:
    """Opens speech streams."""

    def __init__(
        self, streams: SpeechService, sessions: RealtimeService, pipeline: Pipeline, gate: Gate
    ) -> None:
        """``sessions`` says whether there is room: a stream takes that of a session."""
        self._streams = streams
        self._sessions = sessions
        self._pipeline = pipeline
        self._gate = gate

    async def serve(self, socket: WebSocket) -> None:
        """Serve a stream, or refuse the upgrade with an HTTP answer that says why."""
        offered: list[str] = socket.scope.get("subprotocols", [])
        try:
            self._gate.admit_socket(socket, offered)
        except Refusal as refused:
            answer = refusal(refused.status, refused.code, refused.message)
            await socket.send_denial_response(answer)
            return
        if (busy := not_now(self._sessions, self._pipeline)) is not None:
            await socket.send_denial_response(busy)
            return
        # Reserved before anything is awaited: upgrades that come together share the room.
        place = self._sessions.reserve()
        if place is None:
            await socket.send_denial_response(full())
            return
        with place:
            await socket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
            await self._streams.serve(StarletteSocket(socket))
