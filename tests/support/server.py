"""A whole server in a process of its own, as a user starts it."""

from __future__ import annotations

import os
import queue
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import psutil
import yaml

START_SECONDS = 120.0
"""Longest wait for a server to be ready: the language model loads in 20 to 35 s."""

STOP_SECONDS = 20.0
"""Longest wait for the server and all its processes to end."""

LINES_KEPT = 200

COMMAND = str(Path(sys.executable).with_name("antiphon"))

DEPLOY = Path(__file__).parents[2] / "deploy"


class ServerError(AssertionError):
    """The server did not do what a server must; the message holds what it printed."""


def shipped(name: str) -> dict[str, Any]:
    """Return a deployment that ships, to be changed by a test."""
    data: dict[str, Any] = yaml.safe_load((DEPLOY / f"{name}.yaml").read_text(encoding="utf-8"))
    return data


def write_deployment(deployment: Mapping[str, object], folder: Path) -> Path:
    """Write a deployment file; return its path."""
    path = folder / "deployment.yaml"
    # JSON is YAML.
    path.write_bytes(msgspec.json.encode(deployment))
    return path


class Server:
    """A running ``antiphon serve``; ready once :meth:`start` has returned."""

    def __init__(self, config: Path, *, port: int = 0, authority: Path | None = None) -> None:
        self._trust = ssl.create_default_context(cafile=authority) if authority else None
        self._command = [COMMAND, "serve", "--config", str(config), "--port", str(port)]
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._addresses: queue.Queue[str | None] = queue.Queue()
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self.url = ""
        # Not the usual one of the user, where there may be voices.
        self._data = config.parent / "data"

    @property
    def pid(self) -> int:
        """Process id of the server; also of its session."""
        assert self._process is not None, "the server was not started"
        return self._process.pid

    @property
    def ws_url(self) -> str:
        """Address of the realtime socket."""
        return f"ws{self.url.removeprefix('http')}/v1/realtime"

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.url.rpartition(":")[2])

    @property
    def output(self) -> str:
        """The last lines that the server and its children printed."""
        return "\n".join(self._lines)

    def start(self) -> None:
        """Start, and return once the server says that it is ready."""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A session of its own, so that whatever is left of it can be found and ended.
            start_new_session=True,
            env={
                "ANTIPHON_DATA": str(self._data),
                **os.environ,
                "OMP_WAIT_POLICY": "PASSIVE",
                "HF_HUB_OFFLINE": "1",
            },
        )
        self._reader = threading.Thread(target=self._read, name="server-output")
        self._reader.start()
        try:
            address = self._addresses.get(timeout=START_SECONDS)
        except queue.Empty:
            address = None
        if address is None:
            self.kill()
            raise ServerError(f"the server did not start:\n{self.output}")
        self.url = address
        if not self.ready()["ready"]:
            raise ServerError("the server says it is ready, but /readyz does not")

    def get(self, path: str) -> Any:
        """Return the decoded body of a GET, whatever its status."""
        try:
            with urlopen(self.url + path, timeout=10, context=self._trust) as answer:
                return msgspec.json.decode(answer.read())
        except HTTPError as refused:
            with refused:
                return msgspec.json.decode(refused.read())

    def ready(self) -> Any:
        """Return what ``/readyz`` says."""
        return self.get("/readyz")

    def sessions(self) -> Any:
        """Return what ``/v1/sessions`` says: counters of sessions and stages."""
        return self.get("/v1/sessions")

    def processes(self) -> list[psutil.Process]:
        """Return the living processes of the server's session, itself among them."""
        return [each for each in psutil.process_iter() if _belongs(each, self.pid)]

    def stop(self) -> int:
        """End it as a user would; return its exit status, having seen that nothing is left."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self.wait_end()

    def wait_end(self) -> int:
        """Return the exit status once it has ended, having seen that nothing is left of it."""
        assert self._process is not None
        try:
            status = self._process.wait(STOP_SECONDS)
            _, left = psutil.wait_procs(self.processes(), timeout=5)
            if left:
                raise ServerError(f"the server left processes behind: {left}\n{self.output}")
            return status
        except subprocess.TimeoutExpired:
            raise ServerError(f"the server did not end:\n{self.output}") from None
        finally:
            self.kill()

    def kill(self) -> None:
        """End whatever is left of the server's session, at once. Idempotent."""
        if self._process is None or self._reader is None:
            return
        left = self.processes()
        for process in left:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait(STOP_SECONDS)
        psutil.wait_procs(left, timeout=STOP_SECONDS)
        self._reader.join(STOP_SECONDS)

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.append(line.rstrip())
                if found := re.search(r"ready: open (https?://\S+?)/$", line.rstrip()):
                    self._addresses.put(found[1])
        self._addresses.put(None)


def _belongs(process: psutil.Process, session: int) -> bool:
    try:
        return os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, PermissionError, psutil.Error):
        return False


@contextmanager
def serving(
    config: Path, *, port: int = 0, authority: Path | None = None
) -> Generator[Server, None, None]:
    """Run a server; at the end it has to go by itself and leave nothing behind.

    ``authority`` is the PEM file of whoever signed its certificate, where it speaks TLS.
    """
    server = Server(config, port=port, authority=authority)
    server.start()
    try:
        yield server
        server.stop()
    finally:
        server.kill()


def is_quiet(sessions: Mapping[str, Any]) -> bool:
    """Whether no session is open and no stage has anything to do."""
    busy = [
        value
        for numbers in sessions["stages"].values()
        for name, value in numbers.items()
        if name in ("streams", "jobs", "running", "unfinished")
    ]
    return sessions["open"] == 0 and not any(busy)


def wait_quiet(server: Server, seconds: float = 20.0) -> Any:
    """Return what ``/v1/sessions`` says once nothing is open or running any more."""
    end = time.monotonic() + seconds
    while not is_quiet(told := server.sessions()):
        if time.monotonic() > end:
            raise ServerError(f"the server is not quiet after {seconds:.0f} s: {told}")
        time.sleep(0.05)
    return told
