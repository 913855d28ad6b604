"""The sound devices of this machine, by way of the package ``sounddevice`` and PortAudio."""

from __future__ import annotations

import asyncio
import importlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, cast

from ...codecs.pcm import SAMPLE_BYTES
from ...codecs.resample import StreamResampler
from .sound import RATE, Loudspeaker, Meter, Microphone, SoundError

BLOCK_MS = 20
"""Of what a device hands over or takes at once."""

PLAY_SECONDS = 0.08
"""From a loudspeaker's buffer to the ear: with less, a busy machine stutters; with more, it
falls silent later when it is interrupted."""

HEARD_BLOCKS = 250
"""What is heard and not yet taken, 5 s; beyond it the oldest is let go."""

QUEUED_MS = 120_000.0
"""What is to be played, at most; a server sends some seconds ahead."""

SILENT_SECONDS = 10.0
"""A microphone that says nothing for so long, not even silence, is gone."""

PACKAGE = "playing and recording need the package sounddevice: run `pip install 'antiphon[device]'`"
LIBRARY = (
    "the package sounddevice finds no PortAudio: install it with the system's packages "
    "(libportaudio2 on Debian and Ubuntu, portaudio elsewhere)"
)

Callback = Callable[[Any, int, Any, Any], None]
"""Is handed the buffer, how many samples it has, and two things that are not used."""


class _Stream(Protocol):
    @property
    def latency(self) -> float: ...

    def start(self) -> None: ...

    def close(self) -> None: ...


class Library(Protocol):
    """What is used of ``sounddevice``."""

    @property
    def PortAudioError(self) -> type[Exception]:
        """What all else raises."""
        ...

    def query_devices(self, device: int | str | None = None, kind: str | None = None) -> Any:
        """Describe one device, or all."""
        ...

    def check_input_settings(self, **settings: Any) -> None:
        """Raise where a microphone can't be used so."""
        ...

    def check_output_settings(self, **settings: Any) -> None:
        """Raise where a loudspeaker can't be used so."""
        ...

    def RawInputStream(self, **settings: Any) -> _Stream:
        """Record."""
        ...

    def RawOutputStream(self, **settings: Any) -> _Stream:
        """Play."""
        ...


def load_library() -> Library:
    """Import ``sounddevice``, which looks for PortAudio.

    Raises:
        SoundError: one of them is not there; the message says what to install.
    """
    try:
        return cast(Library, importlib.import_module("sounddevice"))
    except ImportError:
        raise SoundError(PACKAGE) from None
    except OSError:
        raise SoundError(LIBRARY) from None


class PortAudioDevices:
    """The devices of this machine; nothing is loaded before one is asked for."""

    def __init__(self, load: Callable[[], Library] | None = None) -> None:
        self._load = load_library if load is None else load
        self._library: Library | None = None

    def microphone(self, named: str | None) -> Microphone:
        """Open a microphone, and begin to record; needs a running event loop."""
        library = self._loaded()
        device, rate = self._choose(named, "input")
        blocks = _Blocks(StreamResampler(rate, RATE))
        with _failing(library, f"the microphone {device['name']} can't be opened", "--input"):
            stream = library.RawInputStream(
                callback=blocks.callback, latency="low", **_settings(device, rate)
            )
            stream.start()
        blocks.keep(stream)
        return blocks

    def loudspeaker(self, named: str | None) -> Loudspeaker:
        """Open a loudspeaker, and begin to play silence."""
        library = self._loaded()
        device, rate = self._choose(named, "output")
        queue = _Queue(rate)
        with _failing(library, f"the loudspeaker {device['name']} can't be opened", "--output"):
            stream = library.RawOutputStream(
                callback=queue.callback, latency=PLAY_SECONDS, **_settings(device, rate)
            )
            stream.start()
        queue.keep(stream)
        return queue

    def listing(self) -> list[str]:
        """A line for each device: its number, its name, and what it can do."""
        library = self._loaded()
        with _failing(library, "the sound devices can't be listed", "--input and --output"):
            found: Sequence[Mapping[str, Any]] = library.query_devices()
            defaults = {kind: self._default(kind) for kind in ("input", "output")}
        if not found:
            raise SoundError("there are no sound devices: plug one in")
        return [_line(number, each, defaults) for number, each in enumerate(found)]

    def _loaded(self) -> Library:
        if self._library is None:
            self._library = self._load()
        return self._library

    def _default(self, kind: str) -> str | None:
        library = self._loaded()
        with suppress(library.PortAudioError, ValueError):
            return str(library.query_devices(kind=kind)["name"])
        return None

    def _choose(self, named: str | None, kind: str) -> tuple[Mapping[str, Any], int]:
        """The device, and a rate that it has: ours where it can."""
        library = self._loaded()
        what = {"input": "microphone", "output": "loudspeaker"}[kind]
        if named is None:
            found = f"there is no {what}"
            chosen: int | str | None = None
        else:
            found = f"no {what} is called {named!r}, or several are"
            chosen = int(named) if named.isdecimal() else named
        with _failing(library, found, f"--{kind}"):
            device: Mapping[str, Any] = library.query_devices(chosen, kind)
        check = library.check_input_settings if kind == "input" else library.check_output_settings
        try:
            check(device=device["index"], channels=1, dtype="int16", samplerate=RATE)
        except (library.PortAudioError, ValueError):
            return device, round(device["default_samplerate"])
        return device, RATE


def _settings(device: Mapping[str, Any], rate: int) -> dict[str, Any]:
    return {
        "samplerate": rate,
        "blocksize": rate * BLOCK_MS // 1000,
        "device": device["index"],
        "channels": 1,
        "dtype": "int16",
    }


def _line(number: int, device: Mapping[str, Any], defaults: Mapping[str, str | None]) -> str:
    kinds = {"input": "microphone", "output": "loudspeaker"}
    can = [
        what + (" (default)" if defaults[kind] == device["name"] else "")
        for kind, what in kinds.items()
        if device[f"max_{kind}_channels"]
    ]
    return f"{number:4}  {device['name']}: {', '.join(can) or 'nothing'}"


@contextmanager
def _failing(library: Library, what: str, option: str) -> Generator[None]:
    """Turn what the library raises into our error."""
    try:
        yield
    except (library.PortAudioError, ValueError):
        raise SoundError(
            f"{what}: `antiphon talk --list-devices` shows what there is; choose with {option}"
        ) from None


class _Device:
    """Something that is closed once."""

    _stream: _Stream | None = None

    def keep(self, stream: _Stream) -> None:
        """Take over what is to be closed."""
        self._stream = stream

    def close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()


class _Blocks(_Device):
    """A :class:`Microphone`."""

    def __init__(self, resampler: StreamResampler) -> None:
        self._resampler = resampler
        self._loop = asyncio.get_running_loop()
        self._heard: asyncio.Queue[bytes] = asyncio.Queue(HEARD_BLOCKS)

    def callback(self, data: Any, _samples: int, _time: object, _status: object) -> None:
        """Take a block; called in a thread of the library's."""
        # A loop that is closed has nobody who listens.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._put, bytes(data))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._stream is not None:
            try:
                async with asyncio.timeout(SILENT_SECONDS):
                    block = await self._heard.get()
            except TimeoutError:
                raise SoundError(
                    "the microphone has gone: plug it in, or choose another with --input"
                ) from None
            if pcm := self._resampler.feed(block):
                yield pcm

    def _put(self, block: bytes) -> None:
        if self._heard.full():
            self._heard.get_nowait()
        self._heard.put_nowait(block)


class _Queue(_Device):
    """A :class:`Loudspeaker`. Its lock is held for as long as copying takes."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._clock = time.monotonic
        self._resampler = StreamResampler(RATE, rate)
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._written = 0.0
        """All that was queued and not dropped, ms."""

        self._holds_back = False
        """Whether the resampler may."""

        self._meter = Meter()

    def write(self, pcm: bytes) -> None:
        with self._lock:
            self._written += len(pcm) / SAMPLE_BYTES * 1000 / RATE
            self._holds_back = True
            self._waiting += self._resampler.feed(pcm)
            if self._ms(len(self._waiting)) > QUEUED_MS:
                raise SoundError("the server sends far more sound than is played; try again")

    def finish(self) -> None:
        with self._lock:
            self._waiting += self._resampler.flush()
            self._holds_back = False

    def callback(self, data: Any, _samples: int, _time: object, _status: object) -> None:
        """Fill a block; called in a thread of the library's."""
        size = len(data)
        with self._lock:
            piece = bytes(self._waiting[:size])
            del self._waiting[:size]
            latency = 0.0 if self._stream is None else self._stream.latency
            self._meter.hand(self._ms(len(piece)), self._clock() + latency)
        data[:] = piece.ljust(size, b"\0")

    def position_ms(self) -> float:
        with self._lock:
            return self._position()

    def left_ms(self) -> float:
        with self._lock:
            return max(0.0, self._written - self._position())

    def shorten(self, left_ms: float) -> None:
        with self._lock:
            position = self._position()
            self._written = min(self._written, position + left_ms)
            on_its_way = self._meter.handed_ms - position
            if left_ms < on_its_way:
                # It will sound, and counts for nothing: nobody can stop it any more.
                self._meter.restart(position)
                self._meter.hand(left_ms, self._clock())
            kept = max(0, round((left_ms - on_its_way) * self._rate / 1000)) * SAMPLE_BYTES
            del self._waiting[kept:]
            self._resampler.flush()
            self._holds_back = False

    def _position(self) -> float:
        sounded = self._meter.sounded_ms(self._clock())
        if not self._waiting and not self._holds_back and sounded == self._meter.handed_ms:
            # Another rate has a sample more or less: such differences must not add up.
            self._meter.restart(self._written)
            return self._written
        return min(sounded, self._written)

    def _ms(self, size: int) -> float:
        return size / SAMPLE_BYTES * 1000 / self._rate
