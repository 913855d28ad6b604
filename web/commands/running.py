"""Running a command's coroutine, so that it can be stopped and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from ..demo_server import Address, DemoError, parse_url
from .arguments import KEY_VARIABLE, URL_VARIABLE
from .errors import CommandError

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main``; a request to terminate stops it as Ctrl-C does.

    Raises:
        KeyboardInterrupt: it was stopped.
    """
    prepare_process()

    async def stoppable() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await main

    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def prepare_process() -> None:
    """Tell the engines' libraries how to behave, as ``serve`` does; they read it when loaded."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def server_address(url: str | None, environ: Mapping[str, str]) -> Address | None:
    """The server that is meant: as named, else by the environment; ``None`` for none.

    Raises:
        CommandError: it is no URL.
    """
    named = environ.get(URL_VARIABLE, "") if url is None else url
    if not named:
        return None
    try:
        return parse_url(named)
    except DemoError as error:
        raise CommandError(str(error), misused=True) from None


def api_key(key: str | None, environ: Mapping[str, str]) -> str | None:
    """The key to send: as given, else of the environment.

    Raises:
        CommandError: it can't be sent.
    """
    found = key or environ.get(KEY_VARIABLE) or None
    if found is not None and not (found.isascii() and found.isprintable() and " " not in found):
        raise CommandError("--key: expected printable ASCII characters, no spaces", misused=True)
    return found
