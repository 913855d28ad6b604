"""The devices of a machine, with a library that pretends to have some."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.fakes import tone
from tests.support.loop import run_simulated

from antiphon.web.commands.portaudio import (
    HEARD_BLOCKS,
    LIBRARY,
    PACKAGE,
    QUEUED_MS,
    PortAudioDevices,
    load_library,
)
from antiphon.web.commands.sound import RATE, SoundError

LATENCY = 0.08


class Stream:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.latency = LATENCY
        self.state = "made"

    @property
    def callback(self) -> Callable[..., None]:
        callback: Callable[..., None] = self.settings["callback"]
        return callback

    def start(self) -> None:
        self.state = "started"

    def close(self) -> None:
        self.state = "closed"

    def block(self, size: int = 2 * RATE // 50) -> bytes:
        """What a loudspeaker asks for next."""
        data = bytearray(b"\x55" * size)
        self.callback(memoryview(data), size // 2, None, None)
        return bytes(data)


class Library:
    """As ``sounddevice`` behaves, with two devices: only the first has our rate."""

    class PortAudioError(Exception):
        pass

    def __init__(self, devices: int = 2) -> None:
        names = ("Studio", "Headset")[:devices]
        self.devices = [
            {
                "name": name,
                "index": number,
                "max_input_channels": 1,
                "max_output_channels": 0 if number else 2,
                "default_samplerate": 48_000.0,
            }
            for number, name in enumerate(names)
        ]
        self.streams: list[Stream] = []
        self.refuses = False

    def query_devices(self, device: int | str | None = None, kind: str | None = None) -> Any:
        if device is None and kind is None:
            return self.devices
        if device is None:
            found = self.devices[:1]
        elif isinstance(device, int):
            found = [each for each in self.devices if each["index"] == device]
        else:
            found = [each for each in self.devices if device in str(each["name"])]
        if not found:
            raise ValueError("no such device") if device is not None else self.PortAudioError(-1)
        return found[0]

    def check_input_settings(self, **settings: Any) -> None:
        assert settings["samplerate"] == RATE
        if settings["device"]:
            raise self.PortAudioError("Invalid sample rate")

    check_output_settings = check_input_settings

    def RawInputStream(self, **settings: Any) -> Stream:
        if self.refuses:
            raise self.PortAudioError("Device unavailable")
        self.streams.append(Stream(settings))
        return self.streams[-1]

    RawOutputStream = RawInputStream


def devices_of(library: Library) -> PortAudioDevices:
    return PortAudioDevices(lambda: library)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def importing(error: Exception) -> Callable[[str], object]:
        def importing(name: str) -> object:
            assert name == "sounddevice"
            raise error

        return importing

    for error, message in ((ImportError(), PACKAGE), (OSError("PortAudio"), LIBRARY)):
        monkeypatch.setattr(importlib, "import_module", importing(error))
        with pytest.raises(SoundError) as caught:
            load_library()
        assert str(caught.value) == message


def test_devices_are_listed() -> None:
    assert devices_of(Library()).listing() == [
        "   0  Studio: microphone (default), loudspeaker (default)",
        "   1  Headset: microphone",
    ]


def test_a_machine_without_any() -> None:
    with pytest.raises(SoundError, match="no sound devices: plug one in"):
        devices_of(Library(devices=0)).listing()


@pytest.mark.parametrize(
    ("named", "message"), [(None, "there is no microphone"), ("9", "'9'"), ("Radio", "'Radio'")]
)
def test_a_device_that_is_not_there(named: str | None, message: str) -> None:
    async def main() -> None:
        with pytest.raises(SoundError, match=message) as caught:
            devices_of(Library(devices=0)).microphone(named)
        assert "--list-devices" in str(caught.value)
        assert "--input" in str(caught.value)

    asyncio.run(main())


def test_a_device_that_is_in_use() -> None:
    library = Library()
    library.refuses = True
    with pytest.raises(SoundError, match="loudspeaker Studio can't be opened.*--output"):
        devices_of(library).loudspeaker(None)


# The microphone.


def test_what_is_heard_comes_in_order_and_at_our_rate() -> None:
    async def main() -> None:
        library = Library()
        microphone = devices_of(library).microphone("Headset")
        (stream,) = library.streams
        assert stream.settings["samplerate"] == 48_000
        assert stream.settings["blocksize"] == 960
        assert stream.state == "started"
        wave = np.sin(np.arange(48_000) * 2 * np.pi * 440 / 48_000) * 8000
        pcm = wave.astype("<i2").tobytes()

        def record() -> None:
            for at in range(0, len(pcm), 1920):
                stream.callback(pcm[at : at + 1920], 960, None, None)

        await asyncio.to_thread(record)
        heard = bytearray()
        async for piece in microphone:
            heard += piece
            if len(heard) > 0.9 * 2 * RATE:
                break
        found = np.abs(np.fft.rfft(np.frombuffer(bytes(heard[: 2 * RATE * 9 // 10]), "<i2")))
        assert np.argmax(found) / 0.9 == pytest.approx(440, abs=2)
        microphone.close()
        microphone.close()
        assert stream.state == "closed"

    asyncio.run(main())


def test_of_what_nobody_takes_the_oldest_is_let_go() -> None:
    async def main() -> None:
        library = Library()
        microphone = devices_of(library).microphone(None)
        for number in range(HEARD_BLOCKS + 10):
            library.streams[0].callback(number.to_bytes(2, "little"), 1, None, None)
        # Handed over one by one on the loop, before this is.
        passed = asyncio.Event()
        asyncio.get_running_loop().call_soon(passed.set)
        await passed.wait()
        heard: list[int] = []
        async for piece in microphone:
            heard.append(int.from_bytes(piece, "little"))
            if len(heard) == HEARD_BLOCKS:
                break
        assert heard == list(range(10, HEARD_BLOCKS + 10))
        microphone.close()

    asyncio.run(main())


def test_a_microphone_that_is_pulled_out() -> None:
    async def main() -> None:
        microphone = devices_of(Library()).microphone(None)
        with pytest.raises(SoundError, match="the microphone has gone"):
            await anext(aiter(microphone))

    run_simulated(main())


def test_blocks_that_come_when_all_is_over_are_nobodys() -> None:
    library = Library()

    async def main() -> None:
        devices_of(library).microphone(None)

    asyncio.run(main())
    library.streams[0].callback(bytes(960), 480, None, None)


# The loudspeaker.


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


def test_sound_is_played_and_silence_where_there_is_none() -> None:
    library = Library()
    speaker = devices_of(library).loudspeaker(None)
    (stream,) = library.streams
    assert stream.block() == bytes(960)
    speaker.write(tone(30))
    assert stream.block() == tone(20)
    assert stream.block() == tone(10) + bytes(480)
    assert stream.block() == bytes(960)
    speaker.close()
    speaker.close()
    assert stream.state == "closed"


def opened(library: Library) -> Any:
    return devices_of(library).loudspeaker(None)


def test_what_was_handed_over_counts_when_it_sounds(clock: Clock) -> None:
    library = Library()
    speaker = opened(library)
    speaker.write(tone(40))
    assert (speaker.position_ms(), speaker.left_ms()) == (0, 40)
    library.streams[0].block()
    clock.now += LATENCY
    assert speaker.position_ms() == pytest.approx(0)
    clock.now += 0.015
    assert speaker.position_ms() == pytest.approx(15)
    library.streams[0].block()
    clock.now += LATENCY + 0.020
    assert (speaker.position_ms(), speaker.left_ms()) == pytest.approx((40, 0))


def test_what_is_dropped_is_not_heard_and_does_not_count(clock: Clock) -> None:
    library = Library()
    speaker = opened(library)
    speaker.write(tone(100))
    library.streams[0].block()
    clock.now += LATENCY + 0.010
    speaker.shorten(0)
    assert (speaker.position_ms(), speaker.left_ms()) == pytest.approx((10, 0))
    assert library.streams[0].block() == bytes(960)
    clock.now += 1
    assert speaker.position_ms() == pytest.approx(10)
    speaker.write(tone(20, 500))
    assert library.streams[0].block() == tone(20, 500)
    clock.now += LATENCY + 0.005
    assert speaker.position_ms() == pytest.approx(15)


def test_a_part_of_what_is_queued_can_be_kept(clock: Clock) -> None:
    library = Library()
    speaker = opened(library)
    speaker.write(tone(100))
    library.streams[0].block()
    speaker.shorten(50)
    assert speaker.left_ms() == pytest.approx(50)
    assert [library.streams[0].block() for _ in range(2)] == [tone(20), tone(10) + bytes(480)]
    clock.now += 1
    assert speaker.position_ms() == pytest.approx(50)


def test_at_another_rate_all_that_was_queued_is_heard_in_the_end(clock: Clock) -> None:
    library = Library()
    library.devices[0]["default_samplerate"] = 16_000.0
    library.devices[0]["index"] = 7
    speaker = opened(library)
    (stream,) = library.streams
    assert stream.settings["samplerate"] == 16_000
    for said in range(1, 6):
        speaker.write(tone(33.3))
        speaker.finish()
        for _ in range(3):
            stream.block(640)
            clock.now += 0.02
        clock.now += LATENCY
        assert speaker.position_ms() == pytest.approx(said * 799 / 24, abs=0.01)
        assert speaker.left_ms() == 0


def test_a_server_that_sends_without_end_is_stopped() -> None:
    speaker = devices_of(Library()).loudspeaker(None)
    speaker.write(tone(QUEUED_MS - 1000))
    with pytest.raises(SoundError, match="far more sound"):
        speaker.write(tone(2000))
