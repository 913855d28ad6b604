"""``antiphon say``: a text as a file of sound, or aloud."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...codecs.encode import FORMATS, Encoder, EncoderMissing, new_encoder
from ...codecs.loudness import LOUDEST, QUIETEST
from ...codecs.pcm import SAMPLE_BYTES
from ...codecs.wav import wav_header
from ...engines.catalog import default_cache_root
from ...engines.deployment import Deployment, load_deployment, models_named
from ...engines.pipeline import VoiceCard
from ...engines.stage import StageFailure
from ..demo_server import Address
from ..paths import DEFAULT_CONFIG, config_file, data_folder
from ..sound import NOTHING
from ..speech_request import FASTEST, SLOWEST
from .embedded import EmbeddedVoice, fetch_models, running, speaking_alone
from .errors import CommandError
from .output import STDOUT, Output, writing
from .portaudio import PortAudioDevices
from .remote import RemoteServer
from .running import api_key, run, server_address
from .sound import RATE, Devices, Loudspeaker, SoundError, play, play_out
from .status import Status

TEXT_BYTES = 8 << 20
"""Most of a text that is read: about two weeks of speech."""

WAV_BYTES = 1 << 32
"""A WAV file's header can't say more."""

SUFFIXES = {f".{form}": form for form in FORMATS} | {".ogg": "opus", ".oga": "opus"}


class Voice(Protocol):
    """Whoever speaks."""

    async def voices(self) -> list[VoiceCard]:
        """What can be asked for, the default one first."""
        ...

    def speak(
        self, text: str, voice: str | None, speed: float, loudness: float | None = None
    ) -> AsyncGenerator[bytes]:
        """Yield speech as it is made: s16le mono, 24 kHz. ``loudness``: LUFS."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was asked for, checked."""

    text: str
    out: str | None
    form: str
    play: bool
    voice: str | None
    speed: float
    loudness: float | None
    output: str | None
    """The sound device."""


def run_say(args: argparse.Namespace, devices: Devices | None = None) -> int:
    """Do what the arguments ask for; return the exit status.

    Raises:
        CommandError: it can't be done; what was incomplete is gone.
    """
    config: str | None = args.config
    address = None
    if config is None:
        address = server_address(args.url, os.environ)
    elif args.url:
        raise CommandError("--config is for speech without a server: leave out --url", misused=True)
    key = api_key(args.key, os.environ)
    order = None if args.list_voices else _order(args)
    status = Status()
    if address is not None:
        opened = _server(address, key)
    else:
        deployment = speaking_alone(load_deployment(config_file(config or DEFAULT_CONFIG)))
        cache_root = default_cache_root(os.environ)
        fetch_models(models_named(deployment), cache_root, status)
        opened = _here(deployment, cache_root, status)
    return run(_Say(order, status, devices or PortAudioDevices()).run(opened))


@asynccontextmanager
async def _server(address: Address, key: str | None) -> AsyncGenerator[Voice]:
    yield RemoteServer(address, key)


@asynccontextmanager
async def _here(deployment: Deployment, cache_root: Path, status: Status) -> AsyncGenerator[Voice]:
    # Voices that were added to a server on this machine can be used as well.
    voices = data_folder(None, os.environ) / "voices"
    async with running(deployment, cache_root, status, voices=voices) as pipeline:
        yield EmbeddedVoice(pipeline)


def _order(args: argparse.Namespace) -> Order:
    out: str | None = args.out
    if not SLOWEST <= args.speed <= FASTEST:
        raise CommandError(f"--speed: expected {SLOWEST} to {FASTEST:g}", misused=True)
    if args.loudness is not None and not QUIETEST <= args.loudness <= LOUDEST:
        what = f"--loudness: expected {QUIETEST:g} to {LOUDEST:g} LUFS"
        raise CommandError(what, misused=True)
    form = _form(out, args.format)
    if out == STDOUT and sys.stdout.isatty():
        raise CommandError("-o -: a terminal shows no sound; send it to a pipe or a file")
    return Order(
        text=_text(args.text, args.file),
        out=out,
        form=form,
        play=args.play or out is None,
        voice=args.voice,
        speed=args.speed,
        loudness=args.loudness,
        output=args.output,
    )


def _form(out: str | None, asked: str | None) -> str:
    if asked is not None and out is None:
        raise CommandError("--format: only with -o", misused=True)
    if asked is not None or out is None:
        return asked or "pcm"
    if out == STDOUT:
        return "wav"
    form = SUFFIXES.get(Path(out).suffix.lower())
    if form is None:
        known = ", ".join(SUFFIXES)
        raise CommandError(
            f"-o {out}: the suffix names no format; use one of {known}, or --format", misused=True
        )
    return form


def _text(given: str | None, file: Path | None) -> str:
    if given is not None and file is not None:
        raise CommandError("give the text or --file, not both", misused=True)
    if given is not None and given != "-":
        text = given
    else:
        text = _read(file)
    if not text.strip():
        raise CommandError("there is no text to speak", misused=True)
    return text


def _read(file: Path | None) -> str:
    named = "standard input" if file is None else str(file)
    try:
        if file is not None:
            with file.open("rb") as opened:
                data = opened.read(TEXT_BYTES + 1)
        elif sys.stdin.isatty():
            raise CommandError(
                'what shall be said? `antiphon say "Hello."`, --file, or a pipe', misused=True
            )
        else:
            data = sys.stdin.buffer.read(TEXT_BYTES + 1)
        if len(data) > TEXT_BYTES:
            raise CommandError(f"{named}: more than {TEXT_BYTES >> 20} MiB of text", misused=True)
        return data.decode()
    except OSError as error:
        raise CommandError(f"cannot read {named}: {error.strerror}", misused=True) from None
    except UnicodeDecodeError:
        raise CommandError(f"{named}: expected text in UTF-8", misused=True) from None


class _Say:
    """One order being carried out."""

    def __init__(self, order: Order | None, status: Status, devices: Devices) -> None:
        """``order``: ``None`` lists the voices."""
        self._order = order
        self._status = status
        self._devices = devices
        self._failed = False

    async def run(self, opened: AbstractAsyncContextManager[Voice]) -> int:
        """Have a voice do what was asked for; return the exit status."""
        if self._order is None:
            async with opened as voice:
                _list(await voice.voices())
            return 0
        # Before anything is loaded: what stands in the way is said at once.
        encoder = _encoder(self._order)
        speaker = self._speaker(self._order)
        try:
            async with opened as voice:
                await self._speak(voice, self._order, encoder, speaker)
        except StageFailure as failure:
            raise CommandError(failure.error.message) from None
        finally:
            self._status.clear()
            if speaker is not None:
                speaker.close()
            if encoder is not None:
                encoder.close()
        return 1 if self._failed else 0

    def _speaker(self, order: Order) -> Loudspeaker | None:
        if not order.play:
            return None
        try:
            return self._devices.loudspeaker(order.output)
        except SoundError as error:
            if order.out is None:
                raise CommandError(f"{error}, or write a file with -o out.wav") from None
            self._failed = True
            self._status.line(f"antiphon: {error}; {order.out} is written all the same")
            return None

    async def _speak(
        self, voice: Voice, order: Order, encoder: Encoder | None, speaker: Loudspeaker | None
    ) -> None:
        made = _Made(self._status, timed=speaker is None)
        said = voice.speak(order.text, order.voice, order.speed, order.loudness)
        async with aclosing(said) as pieces:
            if encoder is None or order.out is None:
                await _deliver(pieces, made, None, speaker)
            else:
                with writing(order.out) as output:
                    file = _File(output, encoder, order.form)
                    await _deliver(pieces, made, file, speaker)
        if made.samples:
            self._status.last(f"{order.out or 'played'}: {made}")
        else:
            self._status.line("antiphon: there is nothing in this text that can be pronounced")


async def _deliver(
    pieces: AsyncGenerator[bytes], made: _Made, file: _File | None, speaker: Loudspeaker | None
) -> None:
    """Write and play; where both is done, the file is made as fast as it is heard."""
    async for pcm in pieces:
        made.add(pcm)
        if file is not None:
            await file.add(pcm)
        if speaker is not None:
            await play(speaker, pcm)
    if speaker is not None:
        await play_out(speaker)
    if file is not None:
        if not made.samples:
            await file.add(NOTHING)
        await file.finish()


class _File:
    """Sound in its format, on its way into a file."""

    def __init__(self, output: Output, encoder: Encoder, form: str) -> None:
        self._output = output
        self._encoder = encoder
        self._form = form
        self._bytes = 0

    async def add(self, pcm: bytes) -> None:
        """Write what is ready."""
        self._bytes += len(pcm)
        await self._in_thread(lambda: self._output.write(self._encoder.feed(pcm)))

    async def finish(self) -> None:
        """Write the rest; a WAV file learns how long it is, where it can be gone back to."""
        await self._in_thread(self._finish)

    def _finish(self) -> None:
        self._output.write(self._encoder.finish())
        if self._form == "wav" and self._bytes < WAV_BYTES - (1 << 10):
            self._output.amend(wav_header(RATE, self._bytes))

    async def _in_thread(self, job: Callable[[], None]) -> None:
        work = asyncio.get_running_loop().run_in_executor(None, job)
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            # A thread can't be cancelled: encoder and file are its own until it is done.
            self._output.stop()
            await asyncio.wait([work])
            raise


class _Made:
    """How much was made, shown as it grows."""

    def __init__(self, status: Status, *, timed: bool) -> None:
        """``timed``: whether it is made as fast as can be, and not as fast as it is heard."""
        self._status = status
        self._timed = timed
        self._started = time.monotonic()
        self._took = 0.0
        self.samples = 0

    def add(self, pcm: bytes) -> None:
        """Count a piece."""
        self.samples += len(pcm) // SAMPLE_BYTES
        self._took = time.monotonic() - self._started
        if self.samples:
            self._status.show(str(self))

    def __str__(self) -> str:
        """So much in so many seconds."""
        seconds = self.samples / RATE
        if not self._timed:
            return f"{seconds:.1f} s of speech"
        return f"{seconds:.1f} s of speech in {self._took:.1f} s, RTF {self._took / seconds:.2f}"


def _encoder(order: Order) -> Encoder | None:
    if order.out is None:
        return None
    try:
        return new_encoder(order.form)
    except EncoderMissing as error:
        raise CommandError(
            f"{error}: run `pip install 'antiphon[opus]'`, or write a .wav file"
        ) from None


def _list(voices: list[VoiceCard]) -> None:
    for each in voices:
        line = f"{each.name:24} {each.language:3} {each.summary}".rstrip()
        print(line)  # noqa: T201
