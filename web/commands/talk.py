"""``antiphon talk``: a spoken conversation in a terminal."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus, WebSocketException

from ...engines.catalog import default_cache_root
from ...engines.deployment import load_deployment, models_named
from ...realtime.client import MAX_FRAME, RealtimeClient
from ..demo_server import Address, DemoError, OwnServer, RunningServer, own_server
from ..paths import DEFAULT_CONFIG, config_file
from .conversation import Conversation, configure
from .embedded import fetch_models
from .errors import CommandError
from .portaudio import PortAudioDevices
from .running import api_key, run, server_address
from .screen import Screen
from .sound import Devices, SoundError
from .status import Status

HINT = "Put headphones on: from a loudspeaker it hears itself. Ctrl-C ends the conversation."


def run_talk(args: argparse.Namespace, devices: Devices | None = None) -> int:
    """Do what the arguments ask for; return the exit status.

    Raises:
        CommandError: there is no server or no device; the message says what to do.
        KeyboardInterrupt: it was stopped before the conversation had begun.
    """
    devices = devices or PortAudioDevices()
    if args.list_devices:
        for line in devices.listing():
            print(line)  # noqa: T201
        return 0
    config: str | None = args.config
    address = None
    if config is None:
        address = server_address(args.url, os.environ)
    elif args.url:
        raise CommandError("--config is for a server of its own: leave out --url", misused=True)
    talk = _Talk(devices, args.input, args.output, api_key(args.key, os.environ))
    file = config_file(config or DEFAULT_CONFIG)
    if address is None:
        names = models_named(load_deployment(file))
        fetch_models(names, default_cache_root(os.environ), talk.status)
    try:
        run(talk.run(address, file))
    except KeyboardInterrupt:
        # How a conversation ends.
        if not talk.begun:
            raise
    except SoundError as error:
        raise CommandError(
            f"{error}; without devices, `antiphon serve` talks in a browser"
        ) from None
    except DemoError as error:
        raise CommandError(str(error)) from None
    return 0


class _Talk:
    """One conversation, from the devices to the goodbye."""

    def __init__(
        self, devices: Devices, microphone: str | None, speaker: str | None, key: str | None
    ) -> None:
        self._devices = devices
        self._microphone = microphone
        self._speaker = speaker
        self._key = key
        self.status = Status()
        self.begun = False
        """Whether there was a conversation."""

    async def run(self, address: Address | None, config: Path) -> None:
        """Talk until cancelled."""
        speaker = self._devices.loudspeaker(self._speaker)
        try:
            # What it hears until the server is ready is nobody's business.
            self._devices.microphone(self._microphone).close()
            async with self._server(address, config) as server:
                await server.wait_ready()
                self.status.clear()
                async with self._session(server.address) as client:
                    screen = Screen()
                    model = await configure(client)
                    screen.note(f"Connected to {model}. {HINT}")
                    microphone = self._devices.microphone(self._microphone)
                    self.begun = True
                    try:
                        await Conversation(client, microphone, speaker, screen).hold()
                    finally:
                        microphone.close()
        finally:
            self.status.clear()
            speaker.close()

    @asynccontextmanager
    async def _server(
        self, address: Address | None, config: Path
    ) -> AsyncGenerator[OwnServer | RunningServer]:
        if address is not None:
            yield RunningServer(address)
            return
        cache_root = default_cache_root(os.environ)
        self.status.step(f"starting a server with {config.name}")
        async with own_server(config, cache_root, self.status.step) as server:
            yield server

    @asynccontextmanager
    async def _session(self, address: Address) -> AsyncGenerator[RealtimeClient]:
        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        opening = connect(
            f"{address.socket_url}?antiphon=1",
            additional_headers=headers,
            max_size=MAX_FRAME,
            compression=None,
        )
        try:
            socket = await opening
        except InvalidStatus as refused:
            hint = ""
            if refused.response.status_code == 401:
                hint = ": pass --key or set ANTIPHON_API_KEY"
            raise CommandError(f"the server opens no session ({refused}){hint}") from None
        except (OSError, WebSocketException) as error:
            raise CommandError(f"the server opens no session: {error}") from None
        async with socket:
            yield RealtimeClient(socket)
