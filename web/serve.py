"""Runs a server process: the socket first, then the models, then the clients."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import socket
import sys
from pathlib import Path

import uvicorn

from ..engines.chunks import StageError
from ..engines.deployment import Deployment
from ..engines.media import MediaConfig, check_secret, job_settings
from ..engines.pipelines.cascade import CascadePipeline
from ..engines.stage import StageFailure
from .app import Jobs, Server
from .media.service import worker_command
from .progress import Steps
from .reach import check_reach
from .tls import Tls

SWITCH_SECONDS = 0.001
"""How long a thread may keep the interpreter while the event loop wants it.

Python's default of 5 ms adds up when several stage threads compute.
"""

GOODBYE_SECONDS = 5
"""How long open sessions have to end when the server is told to stop."""

COLLECT_AFTER = (20_000, 20, 20)
"""New objects after which the youngest are searched for cycles, and how often that happens
before older ones are. Python's 700 stalls the loop of 200 sessions for 50 ms now and then."""

PING_SECONDS = 20.0
"""How often a client is asked whether it is there, and how long it has to answer; also what
keeps proxies from closing a line on which nothing is said."""

BASE64_MARGIN = 1.5
"""A message is at most this much longer than the audio in it."""


class ServeError(Exception):
    """The server can't start or had to stop; the message says what to do."""


class Runner(uvicorn.Server):
    """An ASGI server that lets sessions say goodbye before it closes their sockets."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self._server = server

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, end every session with 1001, then all else."""
        await self._server.service.stop()
        await super().shutdown(sockets)


def serve(
    deployment: Deployment,
    cache_root: Path,
    host: str,
    port: int,
    recordings: Path | None = None,
    *,
    data: Path | None = None,
    config: Path | None = None,
) -> None:
    """Serve until told to stop.

    ``data``: the folder of what the server keeps; without one no voices can be added, and no
    pictures and clips are made. ``config``: the file of the deployment, for the worker.

    Raises:
        DeploymentError: the deployment may not be served at this address.
        ServeError: the address is taken, or the models don't start.
    """
    reach = check_reach(deployment.access, host)
    _prepare_process()
    listener = _listen(host, port)
    steps = Steps()
    steps.step(f"starting {deployment.model}")
    voices = data / "voices" if data is not None else None
    pipeline = CascadePipeline(deployment, cache_root, on_progress=steps.step, voices=voices)
    try:
        jobs = jobs_of(deployment.media, data, config)
        server = Server(deployment, pipeline, recordings, keys=reach.keys, jobs=jobs)
    except StageFailure as failure:
        raise ServeError(failure.error.message) from None
    runner = Runner(_config(server, deployment, host, port, reach.tls), server)

    def started(failure: str | None) -> None:
        if failure is not None:
            runner.should_exit = True
        else:
            _spare_the_collector()
            address = f"{reach.scheme}://{_shown(host)}:{listener.getsockname()[1]}/"
            steps.step(f"ready: open {address}")

    server.on_started = started
    steps.step(f"listening on {host}: {reach.who}")
    with listener, asyncio.Runner(loop_factory=_loop) as loop:
        loop.run(runner.serve(sockets=[listener]))
    if server.failure is not None:
        raise ServeError(f"{server.failure} (see `antiphon doctor`)")


def jobs_of(media: MediaConfig | None, data: Path | None, config: Path | None) -> Jobs | None:
    """Where pictures and clips are made, or ``None`` where none are.

    Raises:
        StageFailure: a library or the secret is missing, or the secret is none.
    """
    if media is None or data is None:
        return None
    # Here, not at the top: the database's libraries take a second to load.
    try:
        from ..engines.jobs.sql_desk import SqlDesk
    except ImportError as error:
        if media == MediaConfig():
            # Nobody asked for it: an installation for speech alone does without.
            return None
        message = f"media: needs {error.name}; install antiphon[jobs], or say media: null"
        raise StageFailure(StageError("jobs_missing", message)) from None
    settings = job_settings(media, data)
    check_secret(settings)
    own = config if media.worker == "embedded" else None
    return Jobs(
        SqlDesk(settings),
        worker=worker_command(own, data) if own is not None else None,
        hooks=settings.webhook_secret is not None,
    )


def _prepare_process() -> None:
    # Set before any engine library is loaded: they read these once.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    sys.setswitchinterval(SWITCH_SECONDS)
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )


def _spare_the_collector() -> None:
    """Take what the libraries made out of the garbage collector's sight.

    A full collection over the million objects that they keep for good stops the event
    loop for a tenth of a second. What sessions make is mostly freed without the collector,
    so that it looks less often too.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def _loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            message = f"port {port} is taken: stop what uses it, or pass --port {port + 1}"
        else:
            message = f"cannot listen on {host}:{port}: {error.strerror}; pass another --host"
        raise ServeError(message) from None
    return listener


def _shown(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return "localhost"
    return f"[{host}]" if ":" in host else host


def _config(
    server: Server, deployment: Deployment, host: str, port: int, tls: Tls | None
) -> uvicorn.Config:
    return uvicorn.Config(
        server.app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="websockets-sansio",
        ws_max_size=int(deployment.limits.append_bytes * BASE64_MARGIN),
        ws_per_message_deflate=False,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        timeout_graceful_shutdown=GOODBYE_SECONDS,
        server_header=False,
        ssl_context_factory=None if tls is None else (lambda config, default: tls.context),
    )
