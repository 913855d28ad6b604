"""The ASGI application: REST routes, the realtime socket, and the page."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..engines.deployment import Deployment
from ..engines.jobs.desk import Desk
from ..engines.media import MediaConfig, served_models
from ..engines.pipeline import Pipeline
from ..engines.stage import StageFailure
from ..realtime.secrets import SecretStore
from ..realtime.service import RealtimeService
from ..realtime.speech_service import SpeechService
from .access import Gate, Guard
from .api_keys import Keys, load_keys
from .chat import ChatRoute
from .client_secrets import ClientSecretRoutes
from .errors import http_error, not_allowed, not_found
from .measures import LAGS, Histogram, Measures
from .media.cards import card_of
from .media.routes import media_routes
from .media.service import MediaService
from .media.studio import studio_route
from .metrics import CONTENT_TYPE, Metrics
from .realtime import RealtimeRoute
from .request_ids import RequestIds
from .speech import SpeechRoute
from .speech_request import STOCK_SPEECH_VOICES
from .speech_stream import SpeechStreamRoute
from .transcriptions import TranscriptionRoutes
from .voices import VoiceRoutes
from .watchdog import Watchdog

logger = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"

SOCKETS = ("/v1/realtime", "/openai/realtime", "/openai/v1/realtime")
"""Where sessions are opened; the latter two are what Azure's clients ask for."""

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data: blob:; "
        "media-src 'self' blob:; "
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
        self,
        deployment: Deployment,
        pipeline: Pipeline,
        recordings: Path | None = None,
        *,
        keys: Keys | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        """``keys`` are those of the deployment, read from its file here if not given. ``jobs``:
        where pictures and clips are made; without, there are none.

        Raises:
            DeploymentError: the file of keys can't be used.
            StageFailure: a model of pictures or clips can't be.
        """
        access = deployment.access
        self._deployment = deployment
        self._pipeline = pipeline
        measures = Measures()
        self.service = RealtimeService(deployment, pipeline, recordings, on_measured=measures.note)
        secrets = SecretStore()
        self._gate = Gate(access, load_keys(access) if keys is None else keys, secrets)
        self._realtime = RealtimeRoute(self.service, pipeline, self._gate)
        streams = SpeechService(deployment, pipeline, self.service, STOCK_SPEECH_VOICES)
        self._speech_stream = SpeechStreamRoute(streams, self.service, pipeline, self._gate)
        self._secrets = ClientSecretRoutes(self.service, pipeline, secrets, deployment.model)
        self._speech = SpeechRoute(pipeline, deployment.limits, streams.levels)
        self._transcriptions = TranscriptionRoutes(pipeline, deployment.limits)
        self._chat = ChatRoute(pipeline, deployment)
        self._voices = VoiceRoutes(pipeline, self._is_operator)
        self.media = _media(deployment.media, jobs, self._gate)
        lags = Histogram(LAGS)
        self._watchdog = Watchdog(lags.observe)
        self._metrics = Metrics(measures, self.service, pipeline, self._watchdog, lags)
        self._failure: str | None = None
        self.on_started: Callable[[str | None], None] = lambda failure: None
        """Told once the pipeline is ready, or why it will not be."""

        self.app = Starlette(
            routes=self._routes(),
            middleware=[
                Middleware(RequestIds),
                Middleware(PageHeaders),
                Middleware(
                    CORSMiddleware,
                    allow_origins=access.origins,
                    allow_methods=["*"],
                    allow_headers=["*"],
                ),
                # Inside: a browser asks what it may send without sending any key.
                Middleware(Guard, gate=self._gate),
            ],
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
            studio_route(self.media),
            Route("/healthz", _healthz),
            Route("/readyz", self._readyz),
            Route("/metrics", self._serve_metrics),
            Route("/v1/models", self._models),
            Route("/v1/sessions", self._sessions),
            Route("/v1/models/{model}", self._model),
            *self._secrets.routes(),
            *self._transcriptions.routes(),
            *self._voices.routes(),
            *self._speech.routes(),
            *self._chat.routes(),
            *(media_routes(self.media) if self.media is not None else ()),
            *(WebSocketRoute(path, self._realtime.serve) for path in SOCKETS),
            WebSocketRoute("/v1/audio/speech/stream", self._speech_stream.serve),
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
            if self.media is not None:
                await self.media.close()

    async def _start(self) -> None:
        try:
            await asyncio.to_thread(self._load)
            await asyncio.gather(self._pipeline.start(), self._start_media())
        except StageFailure as failure:
            self._failure = failure.error.message
        except Exception:
            logger.exception("the pipeline did not start")
            self._failure = "the pipeline did not start"
        self.on_started(self._failure)

    async def _start_media(self) -> None:
        if self.media is not None:
            await self.media.start()

    def _load(self) -> None:
        """Load what requests need, so that the first one need not."""
        self._speech.prepare()
        # Files are passed on with it; importing it takes 0.3 s.
        importlib.import_module("anyio._backends._asyncio")

    async def _readyz(self, _request: Request) -> Response:
        readiness = self._pipeline.readiness
        body = {"ready": readiness.ready, "stages": dict(readiness.stages)}
        if readiness.ready:
            return JSONResponse(body)
        return JSONResponse(body, status_code=503, headers={"Retry-After": "1"})

    async def _sessions(self, request: Request) -> Response:
        """Tell an operator what is going on."""
        if not self._is_operator(request):
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
                    "p50_ms": loop.p50_ms,
                    "p99_ms": loop.p99_ms,
                    "worst_ms": loop.worst_ms,
                },
            }
        )

    async def _serve_metrics(self, request: Request) -> Response:
        if not self._is_operator(request):
            return await not_found(request, None)
        return Response(self._metrics.scrape(), headers={"Content-Type": CONTENT_TYPE})

    def _is_operator(self, request: Request) -> bool:
        """Whether it comes from who has a key, or without keys from this machine."""
        # The guard has seen to the key.
        return self._gate.keyed or _is_local(request)

    async def _models(self, _request: Request) -> Response:
        return JSONResponse({"object": "list", "data": list(self._cards().values())})

    async def _model(self, request: Request) -> Response:
        card = self._cards().get(request.path_params["model"])
        return JSONResponse(card) if card else await not_found(request, None)

    def _cards(self) -> dict[str, dict[str, object]]:
        own: dict[str, object] = {"capabilities": list(self._deployment.capabilities)}
        said = {self._deployment.model: own}
        if self.media is not None:
            said |= {each.name: card_of(each) for each in self.media.models.values()}
        return {
            name: {"id": name, "object": "model", "created": 0, "owned_by": "antiphon", **more}
            for name, more in said.items()
        }


@dataclass(frozen=True, slots=True)
class Jobs:
    """Where pictures and clips are made."""

    desk: Desk
    worker: Sequence[str] | None = None
    """The command of the server's own worker; without, others do the jobs."""

    hooks: bool = False
    """Whether workers can tell of ends; see ``media.webhook_secret_file``."""


def _media(config: MediaConfig | None, jobs: Jobs | None, gate: Gate) -> MediaService | None:
    if config is None or jobs is None:
        return None
    models = served_models(config)
    return MediaService(config, models, jobs.desk, gate, worker=jobs.worker, hooks=jobs.hooks)


def _is_local(request: Request) -> bool:
    return request.client is not None and request.client.host in ("127.0.0.1", "::1")


async def _page(_request: Request) -> Response:
    return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})


async def _healthz(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


class PageHeaders:
    """ASGI middleware that adds to every answer what protects the page."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; sockets as they are."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_more)
