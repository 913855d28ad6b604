"""``antiphon say`` in this process: what it writes, plays and refuses."""

from __future__ import annotations

import io
import os
import sys
import wave
from pathlib import Path

import av
import pytest
from tests.support.devices import FakeDevices
from tests.support.server import write_deployment

from antiphon.codecs.encode import EncoderMissing
from antiphon.engines.catalog import ModelCard
from antiphon.engines.chunks import StageError
from antiphon.engines.fetch import FetchError
from antiphon.engines.pipeline import VoiceCard
from antiphon.engines.pipelines.cascade import CascadePipeline
from antiphon.engines.speech.scripted_talker import ScriptedTalkerStage
from antiphon.engines.stage import StageFailure
from antiphon.web.cli import FAILED, MISUSED, OK, main
from antiphon.web.commands import embedded, say
from antiphon.web.commands.sound import RATE

Capture = pytest.CaptureFixture[str]

TEXT = "This takes some time to say."
WORD_MS = 100
SPOKEN_MS = 6 * WORD_MS


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A deployment whose voice is a tone, and whose other stages have no model that is here."""
    talker = {"use": "scripted", "hertz": 440, "ms_per_word": WORD_MS}
    return str(write_deployment({"stages": {"talker": talker}}, tmp_path))


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No server and no models; a folder of its own."""
    for name in ("ANTIPHON_URL", "ANTIPHON_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path / "models"))
    monkeypatch.setenv("ANTIPHON_DATA", str(tmp_path / "data"))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> FakeDevices:
    devices = FakeDevices()
    monkeypatch.setattr(say, "PortAudioDevices", lambda: devices)
    return devices


def samples_of(path: Path) -> int:
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, RATE)
        assert len(file.readframes(RATE * 60)) == 2 * file.getnframes()
        return int(file.getnframes())


def test_a_wav_file_says_how_long_it_is(config: str, surroundings: Path, capsys: Capture) -> None:
    assert main(["say", TEXT, "-o", "out.wav", "--config", config]) == OK
    assert samples_of(surroundings / "out.wav") == SPOKEN_MS * RATE // 1000
    assert os.listdir(surroundings) == ["out.wav"]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "container", "codec"),
    [
        ("a.mp3", "mp3", "mp3float"),
        ("a.OGG", "ogg", "opus"),
        ("a.opus", "ogg", "opus"),
        ("a.aac", "aac", "aac"),
        ("a.flac", "flac", "flac"),
    ],
)
def test_the_suffix_is_the_format(
    config: str, surroundings: Path, name: str, container: str, codec: str
) -> None:
    assert main(["say", TEXT, "-o", name, "--config", config]) == OK
    with av.open(str(surroundings / name)) as file:
        assert file.format.name == container
        (stream,) = file.streams.audio
        assert stream.codec_context.name == codec
        seconds = sum(frame.samples / frame.sample_rate for frame in file.decode(stream))
    assert SPOKEN_MS / 1000 <= seconds < SPOKEN_MS / 1000 + 0.2


def test_the_format_can_be_said(config: str, surroundings: Path) -> None:
    assert main(["say", TEXT, "-o", "sound", "--format", "pcm", "--config", config]) == OK
    assert (surroundings / "sound").stat().st_size == 2 * SPOKEN_MS * RATE // 1000


def test_speed(config: str, surroundings: Path) -> None:
    assert main(["say", TEXT, "-o", "a.wav", "--speed", "2", "--config", config]) == OK
    assert samples_of(surroundings / "a.wav") == SPOKEN_MS * RATE // 2000


def test_standard_output_has_the_sound_alone(
    config: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["say", TEXT, "-o", "-", "--config", config]) == OK
    sound = capfdbinary.readouterr().out
    assert sound[:4] == b"RIFF"
    assert len(sound) == 44 + 2 * SPOKEN_MS * RATE // 1000


class Pipe(io.TextIOWrapper):
    def __init__(self, data: bytes, *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize("arguments", [["-"], []])
def test_a_pipe_is_read(
    arguments: list[str], config: str, surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Pipe(b"one two\nthree"))
    assert main(["say", *arguments, "-o", "a.wav", "--config", config]) == OK
    assert samples_of(surroundings / "a.wav") == 3 * WORD_MS * RATE // 1000


def test_a_long_text_of_a_file_is_said_whole(config: str, surroundings: Path) -> None:
    (surroundings / "text").write_text("word and more words. " * 300, encoding="utf-8")
    assert main(["say", "--file", "text", "-o", "a.pcm", "--config", config]) == OK
    assert (surroundings / "a.pcm").stat().st_size == 2 * 1200 * WORD_MS * RATE // 1000


def test_nothing_to_pronounce_is_a_little_silence(
    config: str, surroundings: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mute:
        def __init__(self, *_: object) -> None:
            pass

        async def speak(self, *_: object) -> object:
            return
            yield b""

    monkeypatch.setattr(say, "EmbeddedVoice", Mute)
    assert main(["say", "...", "-o", "a.wav", "--config", config]) == OK
    assert samples_of(surroundings / "a.wav") == RATE // 10
    assert "nothing in this text that can be pronounced" in capsys.readouterr().err


def test_voices_are_listed_and_others_refused(
    config: str, monkeypatch: pytest.MonkeyPatch, surroundings: Path, capsys: Capture
) -> None:
    cards = (
        VoiceCard(name="joe", language="en", summary="A man"),
        VoiceCard(name="ann", language=""),
    )
    monkeypatch.setattr(ScriptedTalkerStage, "voices", ("joe", "ann"))
    monkeypatch.setattr(CascadePipeline, "voice_cards", cards)
    assert main(["say", "--list-voices", "--config", config]) == OK
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert lines == [["joe", "en", "A man"], ["ann"]]
    assert main(["say", "hi", "-o", "a.wav", "--voice", "bob", "--config", config]) == MISUSED
    assert "--voice: expected one of joe, ann, got 'bob'" in capsys.readouterr().err
    assert os.listdir(surroundings) == []


# Aloud.


def test_without_a_file_it_is_played(config: str, devices: FakeDevices) -> None:
    assert main(["say", TEXT, "--output", "Studio", "--config", config]) == OK
    (speaker,) = devices.loudspeakers
    assert len(speaker.pcm) == 2 * SPOKEN_MS * RATE // 1000
    assert speaker.closed
    assert devices.named == ["Studio"]
    assert not devices.microphones


def test_beside_a_file_it_is_played_when_asked_for(
    config: str, surroundings: Path, devices: FakeDevices
) -> None:
    assert main(["say", TEXT, "--play", "-o", "a.pcm", "--config", config]) == OK
    assert (surroundings / "a.pcm").read_bytes() == bytes(devices.loudspeakers[0].pcm)
    assert main(["say", TEXT, "-o", "b.pcm", "--config", config]) == OK
    assert len(devices.loudspeakers) == 1


def test_without_a_device(
    config: str, surroundings: Path, devices: FakeDevices, capsys: Capture
) -> None:
    devices.missing = "there is no loudspeaker: buy one"
    assert main(["say", TEXT, "--config", config]) == FAILED
    said = capsys.readouterr().err
    assert said == ("antiphon: there is no loudspeaker: buy one, or write a file with -o out.wav\n")
    assert main(["say", TEXT, "--play", "-o", "a.wav", "--config", config]) == FAILED
    assert "a.wav is written all the same" in capsys.readouterr().err
    assert samples_of(surroundings / "a.wav") == SPOKEN_MS * RATE // 1000


# Models.


def test_only_the_voice_is_fetched(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    asked: list[str] = []

    def unreachable(model: ModelCard, *_: object) -> None:
        asked.append(model.name)
        raise FetchError("check the network")

    monkeypatch.setattr(embedded, "fetch", unreachable)
    assert main(["say", "hi", "-o", "a.wav"]) == FAILED
    assert asked == ["piper-joe"]
    assert capsys.readouterr().err == "antiphon: check the network\n"


# What is refused.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([" ", "-o", "a.wav"], "there is no text to speak"),
        (["hi", "--file", "x", "-o", "a.wav"], "the text or --file, not both"),
        (["--file", "nowhere", "-o", "a.wav"], "cannot read nowhere: No such file"),
        (["hi", "-o", "a.doc"], "names no format; use one of .mp3"),
        (["hi", "-o", "a"], "names no format"),
        (["hi", "--format", "mp3"], "--format: only with -o"),
        (["hi", "-o", "a.wav", "--speed", "9"], "--speed: expected 0.25 to 4"),
        (["hi", "-o", "a.wav", "--loudness", "-5"], "--loudness: expected -36 to -12 LUFS"),
        (["hi", "-o", "a.wav", "--speed", "nan"], "--speed: expected 0.25 to 4"),
        (["hi", "-o", "a.wav", "--config", "c", "--url", "h:1"], "leave out --url"),
        (["hi", "-o", "a.wav", "--url", "ftp://h"], "expected a URL"),
        (["hi", "-o", "a.wav", "--url", "h:1", "--key", "a b"], "--key: expected printable"),
    ],
)
def test_what_can_not_be_done(
    arguments: list[str], message: str, surroundings: Path, capsys: Capture
) -> None:
    assert main(["say", *arguments]) == MISUSED
    said = capsys.readouterr().err
    assert said.startswith("antiphon: ")
    assert message in said
    assert said.count("\n") == 1
    assert os.listdir(surroundings) == []


def test_a_terminal_has_no_text_to_speak(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(sys, "stdin", Pipe(b"", terminal=True))
    assert main(["say"]) == MISUSED
    assert "what shall be said?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"\xff\xfe", "UTF-8"), (b"a" * (say.TEXT_BYTES + 1), "more than 8 MiB")],
)
def test_a_pipe_of_what_is_no_text(
    data: bytes, message: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(sys, "stdin", Pipe(data))
    assert main(["say", "-o", "a.wav"]) == MISUSED
    assert f"standard input: {'more' if 'more' in message else 'expected'}" in (
        said := capsys.readouterr().err
    )
    assert message in said


def test_a_format_that_can_not_be_made_here(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def missing(form: str) -> None:
        raise EncoderMissing("encoding needs PyAV")

    monkeypatch.setattr(say, "new_encoder", missing)
    assert main(["say", "hi", "-o", "a.mp3", "--config", config]) == FAILED
    assert "pip install 'antiphon[opus]'" in capsys.readouterr().err


def test_a_place_that_can_not_be_written(config: str, capsys: Capture) -> None:
    assert main(["say", "hi", "-o", "nowhere/a.wav", "--config", config]) == FAILED
    assert "cannot write nowhere/a.wav: No such file or directory" in capsys.readouterr().err


def test_a_failure_on_the_way_leaves_no_file(
    config: str, surroundings: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    class Breaks:
        def __init__(self, pipeline: object) -> None:
            pass

        async def speak(self, *_: object) -> object:
            yield bytes(4800)
            assert [name.endswith(".part") for name in os.listdir(surroundings)] == [True]

            raise StageFailure(StageError("broken", "the voice broke"))

    monkeypatch.setattr(say, "EmbeddedVoice", Breaks)
    assert main(["say", "hi", "-o", "a.wav", "--config", config]) == FAILED
    assert capsys.readouterr().err == "antiphon: the voice broke\n"
    assert os.listdir(surroundings) == []


def test_an_interrupt_leaves_no_file(
    config: str, surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        def __init__(self, pipeline: object) -> None:
            pass

        async def speak(self, *_: object) -> object:
            yield bytes(4800)
            raise KeyboardInterrupt

    monkeypatch.setattr(say, "EmbeddedVoice", Interrupted)
    assert main(["say", "hi", "-o", "a.wav", "--config", config]) == 130
    assert os.listdir(surroundings) == []
