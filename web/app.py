"""The ASGI application: REST routes, the realtime socket, and the page."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from ..engines.deployment import Deployment
from ..engines.pipeline import Pipeline
from ..engines.stage import StageFailure
from ..realtime.service import RealtimeService
from .errors import envelope, http_error, not_allowed, not_found
from .socket import StarletteSocket
from .watchdog import Watchdog

logger = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"

SUBPROTOCOL = "realtime"
"""What a browser's client asks for and must get; never an element that holds a key."""

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data:; "
        "style-src 'self'; script-src 'self'; worker-src 'self' blob:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self), camera=(self)",
}


class Server:
    """One deployment being served: its pipeline, its sessions, its routes."""

    def __init__(
        self, deployment: Deployment, pipeline: Pipeline, recordings: Path | None = None
    ) -> None:
        self._deployment = deployment
        self._pipeline = pipeline
        self.service = RealtimeService(deployment, pipeline, recordings)
        self._watchdog = Watchdog()
        self._failure: str | None = None
        self.on_started: Callable[[str | None], None] = lambda failure: None
        """Told once the pipeline is ready, or why it will not be."""

        self.app = Starlette(
            routes=self._routes(),
            middleware=[Middleware(BaseHTTPMiddleware, dispatch=_add_headers)],
            exception_handlers={404: not_found, 405: not_allowed, Exception: http_error},
            lifespan=self._lifespan,
        )

    @property
    def failure(self) -> str | None:
        """Why the pipeline did not start, if it did not."""
        return self._failure

    def _routes(self) -> list[BaseRoute]:
        return [
            Route("/", _page),
            Route("/healthz", _healthz),
            Route("/readyz", self._readyz),
            Route("/v1/models", self._models),
            Route("/v1/sessions", self._sessions),
            Route("/v1/models/{model}", self._model),
            WebSocketRoute("/v1/realtime", self._realtime),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncGenerator[None]:
        # In the background: health, page and readiness answer while models load.
        starting = asyncio.create_task(self._start(), name="pipeline-start")
        self._watchdog.start()
        try:
            yield
        finally:
            await self._watchdog.stop()
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await self._pipeline.close()

    async def _start(self) -> None:
        try:
            await self._pipeline.start()
        except StageFailure as failure:
            self._failure = failure.error.message
        except Exception:
            logger.exception("the pipeline did not start")
            self._failure = "the pipeline did not start"
        self.on_started(self._failure)

    async def _readyz(self, _request: Request) -> Response:
        readiness = self._pipeline.readiness
        body = {"ready": readiness.ready, "stages": dict(readiness.stages)}
        if readiness.ready:
            return JSONResponse(body)
        return JSONResponse(body, status_code=503, headers={"Retry-After": "1"})

    async def _sessions(self, request: Request) -> Response:
        """Tell the operator of this machine what is going on; nobody else."""
        if not _is_local(request):
            return await not_found(request, None)
        loop = self._watchdog.statistics()
        if request.query_params.get("reset") == "loop":
            self._watchdog.reset()
        return JSONResponse(
            {
                "open": self.service.open_sessions,
                "opened": self.service.opened,
                "sessions": self.service.statistics(),
                "stages": {name: dict(of) for name, of in self._pipeline.statistics().items()},
                "loop": {
                    "beats": loop.beats,
                    "stalls_over_20ms": loop.stalls,
                    "worst_ms": loop.worst_ms,
                },
            }
        )

    async def _models(self, _request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._card()]})

    async def _model(self, request: Request) -> Response:
        name = request.path_params["model"]
        if name != self._deployment.model:
            return await not_found(request, None)
        return JSONResponse(self._card())

    def _card(self) -> dict[str, object]:
        return {
            "id": self._deployment.model,
            "object": "model",
            "created": 0,
            "owned_by": "antiphon",
        }

    async def _realtime(self, socket: WebSocket) -> None:
        if (refusal := self._refusal(socket)) is not None:
            await socket.send_denial_response(refusal)
            return
        offered: list[str] = socket.scope.get("subprotocols", [])
        await socket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        extensions = socket.query_params.get("antiphon", "") not in ("", "0", "false")
        await self.service.serve(StarletteSocket(socket), extensions=extensions)

    def _refusal(self, socket: WebSocket) -> Response | None:
        """Return the answer to an upgrade that can't be granted."""
        if not _same_origin(socket):
            return _denied(403, "origin_not_allowed", "This origin may not open a session.")
        if socket.query_params.get("intent") == "transcription":
            return _denied(400, "invalid_intent", "Transcription sessions are not served here.")
        if not self._pipeline.readiness.ready:
            return _denied(
                503, "server_starting", "The models are still loading; try again.", retry_s=1
            )
        if self.service.full:
            return _denied(
                503, "too_many_sessions", "The server is full; try again later.", retry_s=5
            )
        return None


def _same_origin(socket: WebSocket) -> bool:
    """Whether the page that asks is ours: browsers let any page open any socket."""
    origin = socket.headers.get("origin")
    if origin is None:
        return True
    return origin.partition("://")[2] == socket.headers.get("host", "")


def _is_local(request: Request) -> bool:
    return request.client is not None and request.client.host in ("127.0.0.1", "::1")


def _denied(status: int, code: str, message: str, retry_s: int | None = None) -> Response:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    retry_ms = None if retry_s is None else retry_s * 1000
    headers = {} if retry_s is None else {"Retry-After": str(retry_s)}
    return JSONResponse(
        envelope(message, kind, code, retry_ms), status_code=status, headers=headers
    )


async def _page(_request: Request) -> Response:
    return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})


async def _healthz(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _add_headers(request: Request, call_next: RequestResponseEndpoint) -> Response:
    response = await call_next(request)
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response
