"""A worker as a process: its signals, its parent, and its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, BinaryIO, NoReturn

import sqlalchemy as sa

from ..diffusion.diffuser import Diffuser
from ..stage import StageFailure
from .making import Encode
from .settings import JobSettings
from .worker import Hooks, Worker

LOG = logging.getLogger(__name__)

LEAVE_SECONDS = 9.5
"""From the signal to the end of the process, at most."""

CLOSE_SECONDS = 2.0
"""For the models to let go, after the jobs were given back."""


async def work(
    settings: JobSettings,
    diffusers: Mapping[str, Diffuser],
    encode: Encode,
    *,
    hooks: Callable[[sa.Engine], Hooks] | None = None,
    parent: BinaryIO | None = None,
    on_loaded: Callable[[str], None] = lambda name: None,
) -> None:
    """Load the models, telling ``on_loaded`` each one's name, and carry out jobs.

    It ends with SIGTERM, or when the pipe ``parent`` closes, as its other end is in a process that
    has died; with SIGINT where there is no ``parent``, which ends it otherwise.

    Raises:
        StageFailure: a model can't be loaded.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def leave() -> None:
        if not stop.is_set():
            stop.set()
            # Whatever hangs: a database, a store, a model.
            limit = threading.Timer(LEAVE_SECONDS, leave_now, (1,))
            limit.daemon = True
            limit.start()

    for number in (signal.SIGTERM,) if parent is not None else (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)
    if parent is not None:
        threading.Thread(
            target=_await_end, args=(parent, loop, leave), name="parent", daemon=True
        ).start()
    try:
        for name, each in diffusers.items():
            await each.start()
            on_loaded(name)
        if not stop.is_set():
            await Worker(settings, diffusers, encode, hooks=hooks).run(stop)
    finally:
        closing = (each.close() for each in diffusers.values())
        await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), CLOSE_SECONDS)


def _await_end(
    parent: BinaryIO, loop: asyncio.AbstractEventLoop, leave: Callable[[], None]
) -> None:
    while parent.read(1):
        pass
    loop.call_soon_threadsafe(leave)


def run(working: Coroutine[Any, Any, None]) -> NoReturn:
    """Run :func:`work`, and end the process: with status 1 where it failed, which is logged."""
    status = 1
    try:
        asyncio.run(working)
        status = 0
    except StageFailure as failure:
        LOG.error("the worker can't start: %s", failure)
    except Exception:
        LOG.exception("the worker failed")
    finally:
        leave_now(status)


def leave_now(status: int = 0) -> NoReturn:
    """End the process at once: threads of the queue's library would be waited for else, and may
    wait themselves for a job that another worker has now."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
