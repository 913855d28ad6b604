"""Running the clients' scripts: several at once, each client against each kind of server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.support.certificates import Certificate, self_signed
from tests.support.server import Server
from tests.support.speech import Speaker

from .report import MEDIA, SPEECH, Client, Report, read_report
from .servers import of_media, scripted, secured
from .speech import write_speech

RUN_SECONDS = 480.0
"""Longest run of one script."""

AT_ONCE = {"scripted": 5, "real": 3, SPEECH: 2, MEDIA: 3}
"""Scripts that run side by side: they pace audio in real time, and so does the server."""


class Runs:
    """Runs each client at most once against each kind of server, and keeps the reports.

    Args:
        speaker: Says what clients say.
        folder: For files of the run.
        request: Gives the servers with real recognizers when they are first needed.
        wanted: Clients and kinds of server that tests will ask for: they run side by side.
    """

    def __init__(
        self,
        speaker: Speaker,
        folder: Path,
        request: pytest.FixtureRequest,
        wanted: Iterable[tuple[Client, str]],
    ) -> None:
        self._folder = folder
        self._request = request
        self._wanted = list(wanted)
        self._speech = write_speech(speaker, folder)
        self._certificate = self_signed(folder)
        self._found: dict[tuple[str, str], Report | str] = {}

    def of(self, client: Client, kind: str) -> Report:
        """Return a client's report.

        The first call for a kind of server runs all that is wanted of that kind.

        Raises:
            AssertionError: the script printed no report, or took too long.
        """
        if (client.name, kind) not in self._found:
            beside = {each.name: each for each, where in self._wanted if where == kind}
            found = [name for name, where in self._found if where == kind]
            missing = {client.name: client, **beside}
            self._run([each for name, each in missing.items() if name not in found], kind)
        report = self._found[client.name, kind]
        assert isinstance(report, Report), report
        return report

    def _run(self, clients: list[Client], kind: str) -> None:
        with ExitStack() as stack:
            urls = {
                secure: stack.enter_context(self._serving(kind, secure))
                for secure in {client.secure for client in clients}
            }
            asyncio.run(self._run_all(clients, kind, urls))

    @contextmanager
    def _serving(self, kind: str, secure: bool) -> Generator[str, None, None]:
        """Run a server of a kind, or use the one that runs; gives its address."""
        if kind == "scripted":
            with scripted(self._folder, self._certificate if secure else None) as url:
                yield url
            return
        if kind == MEDIA:
            with of_media(self._folder) as url:
                yield url
            return
        fixture = "multilingual_server" if kind == SPEECH else "embedded_server"
        server: Server = self._request.getfixturevalue(fixture)
        if not secure:
            yield server.url
            return
        # A second one would load a second language model.
        with secured(server, self._certificate) as url:
            yield url

    async def _run_all(self, clients: list[Client], kind: str, urls: Mapping[bool, str]) -> None:
        free = asyncio.Semaphore(AT_ONCE[kind])

        async def one(client: Client) -> None:
            job = {"url": urls[client.secure], "model": "antiphon", "scripted": kind == "scripted"}
            try:
                command = await asyncio.to_thread(client.command)
                async with free:
                    report = await _report(
                        client, command, {**job, **self._speech}, self._certificate
                    )
            except AssertionError as error:
                self._found[client.name, kind] = f"{client.name}: {error}"
            else:
                self._found[client.name, kind] = report

        async with asyncio.TaskGroup() as tasks:
            for client in clients:
                tasks.create_task(one(client))


async def _report(
    client: Client, command: list[str], job: Mapping[str, object], certificate: Certificate
) -> Report:
    process = await asyncio.create_subprocess_exec(
        *command,
        msgspec.json.encode(job).decode(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=client.folder,
        env={**os.environ, "NODE_EXTRA_CA_CERTS": str(certificate.certificate)},
    )
    try:
        async with asyncio.timeout(RUN_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        raise AssertionError(f"the script did not end in {RUN_SECONDS:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return read_report(output.decode(errors="replace"))
