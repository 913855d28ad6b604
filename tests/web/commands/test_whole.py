"""The commands with real models, real servers and real signals."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from tests.conftest import SCRIPTED_LINE, SCRIPTED_QUESTION
from tests.support.devices import FakeDevices
from tests.support.server import COMMAND, Server, wait_quiet, write_deployment
from tests.support.speech import Ear, Speaker, plain_words, word_error_rate

from antiphon.web.cli import MISUSED, OK, main
from antiphon.web.commands.screen import CUT
from antiphon.web.commands.talk import HINT, run_talk

Capture = pytest.CaptureFixture[str]
Factory = pytest.TempPathFactory

TEXT = "The light of the evening takes a longer way, and so it turns red."

WAIT_SECONDS = 40.0


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("ANTIPHON_URL", "ANTIPHON_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTIPHON_DATA", str(tmp_path.parent / f"{tmp_path.name}-data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def wait_until(is_so: Callable[[], bool]) -> None:
    """Return once another thread or process has made it so."""
    end = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


# In this process.


@pytest.mark.models
def test_what_is_said_here_is_understood_here(here: Path, tmp_path_factory: Factory) -> None:
    # Without variation it is said, and so heard, in the same way in every run.
    voice = {"stages": {"talker": {"use": "piper", "variation": 0}}}
    config = str(write_deployment(voice, tmp_path_factory.mktemp("steady")))
    assert main(["say", TEXT, "-o", "a.mp3", "--url", "", "--config", config]) == OK
    verbose = ["--format", "verbose_json", "--words"]
    assert main(["transcribe", "a.mp3", "-o", "a.json", *verbose]) == OK
    told = json.loads((here / "a.json").read_text(encoding="utf-8"))
    assert word_error_rate(TEXT, told["text"]) < 0.1
    starts = [word["start"] for word in told["words"]]
    assert starts == sorted(starts)
    assert starts[-1] < told["duration"]


# With a server.


@pytest.mark.models
@pytest.mark.server
def test_a_server_speaks(
    scripted_server: Server, here: Path, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_URL", scripted_server.url)
    assert main(["say", TEXT, "-o", "a.pcm"]) == OK
    assert word_error_rate(TEXT, ear.hear((here / "a.pcm").read_bytes())) < 0.1
    wait_quiet(scripted_server)


@pytest.mark.models
@pytest.mark.server
def test_a_server_refuses(scripted_server: Server, here: Path, capsys: Capture) -> None:
    asked = ["say", "hi", "-o", "a.wav", "--voice", "nobody", "--url", scripted_server.url]
    assert main(asked) == MISUSED
    assert "'nobody'" in capsys.readouterr().err
    assert os.listdir(here) == []


@pytest.mark.models
@pytest.mark.server
def test_a_server_transcribes(
    scripted_server: Server, here: Path, speaker: Speaker, capfd: Capture
) -> None:
    asked = ["--url", scripted_server.url]
    assert main(["say", TEXT, "-o", "a.wav", *asked]) == OK
    assert main(["transcribe", "a.wav", *asked]) == OK
    assert capfd.readouterr().out == f"{SCRIPTED_QUESTION}\n"
    assert main(["transcribe", "a.wav", "-o", "a.srt", *asked]) == OK
    assert f"\n{SCRIPTED_QUESTION}\n" in (here / "a.srt").read_text(encoding="utf-8")
    (here / "b.wav").write_bytes(b"no sound")
    assert main(["transcribe", "b.wav", *asked]) == MISUSED
    assert "the server refused: This is no audio file" in capfd.readouterr().err
    wait_quiet(scripted_server)


# Talking.


@contextmanager
def stopped(devices: FakeDevices, script: Callable[[], None]) -> Generator[None]:
    """Run a script in a thread, then stop the conversation, whatever became of it."""
    failures: list[AssertionError] = []

    def run() -> None:
        try:
            script()
        except AssertionError as error:
            failures.append(error)
        finally:
            devices.stop()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        # Nothing that was expected has a meaning then.
        if failures:
            raise failures[0]


def children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def arguments(**given: object) -> argparse.Namespace:
    usual = dict.fromkeys(("url", "key", "config", "input", "output"))
    return argparse.Namespace(**{**usual, "list_devices": False, **given})


@pytest.mark.models
@pytest.mark.server
def test_a_conversation_with_an_interruption(
    scripted_server: Server, speaker: Speaker, ear: Ear, capsys: Capture
) -> None:
    devices = FakeDevices()
    question = speaker.say(SCRIPTED_QUESTION).pcm
    printed: list[str] = []

    def shows(pattern: str) -> bool:
        printed.append(capsys.readouterr().out)
        return re.search(pattern, "".join(printed), re.DOTALL) is not None

    def script() -> None:
        wait_until(lambda: shows(re.escape(HINT)))
        devices.microphones[-1].hear(question)
        wait_until(lambda: shows("you +Tell me something.*antiphon +Certainly. The sky is"))
        devices.microphones[-1].hear(question)
        wait_until(lambda: shows(re.escape(CUT) + ".*you +Tell me .*antiphon +Certainly. The"))

    with stopped(devices, script):
        status = run_talk(arguments(url=scripted_server.url, input="0", output="1"), devices)
    assert status == OK
    assert devices.named == ["1", "0", "0"]
    (loudspeaker,) = devices.loudspeakers
    assert loudspeaker.closed
    assert all(each.closed for each in devices.microphones)
    assert loudspeaker.dropped > 0
    heard = plain_words(ear.hear(bytes(loudspeaker.pcm)))
    assert heard[:3] == plain_words(SCRIPTED_LINE)[:3]
    wait_quiet(scripted_server)


@pytest.mark.server
def test_a_server_is_started_for_it_and_ends_with_it(capsys: Capture) -> None:
    devices, others = FakeDevices(), children()
    started: set[psutil.Process] = set()

    def script() -> None:
        wait_until(lambda: HINT in capsys.readouterr().out)
        started.update(children() - others)

    with stopped(devices, script):
        assert run_talk(arguments(config="silent"), devices) == OK
    assert started
    assert children() == others


@pytest.mark.server
def test_talking_can_be_stopped_before_it_begins() -> None:
    devices, others = FakeDevices(), children()

    def script() -> None:
        wait_until(lambda: children() > others)

    with stopped(devices, script), pytest.raises(KeyboardInterrupt):
        run_talk(arguments(config="silent"), devices)
    assert devices.loudspeakers[0].closed
    assert children() == others


# Signals and pipes.


def config(tmp_path: Path, pace: int) -> str:
    """A deployment that needs no model, outside the folder that is looked at."""
    talker = {"use": "scripted", "hertz": 440, "pace": pace}
    folder = tmp_path.parent / f"{tmp_path.name}-config"
    folder.mkdir()
    return str(write_deployment({"stages": {"talker": talker}}, folder))


@pytest.fixture
def slow(tmp_path: Path) -> str:
    """It speaks no faster than it is heard."""
    return config(tmp_path, 1)


@pytest.fixture
def fast(tmp_path: Path) -> str:
    """It soon has spoken more than a pipe holds."""
    return config(tmp_path, 0)


@pytest.mark.server
@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_half_file_and_no_process(
    told: signal.Signals, slow: str, here: Path
) -> None:
    command = [COMMAND, "say", "word " * 1000, "-o", "a.wav", "--config", slow]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        wait_until(lambda: any(each.stat().st_size > 44 for each in here.glob(".a.wav.*.part")))
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(told)
        _, said = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 130
    assert said == b""
    assert os.listdir(here) == []
    assert not [each for each in family if each.is_running()]


@pytest.mark.server
def test_a_reader_that_takes_nothing_does_not_keep_it(fast: str) -> None:
    command = [COMMAND, "say", "word " * 1000, "-o", "-", "--config", fast]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(4) == b"RIFF"
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 130


@pytest.mark.server
def test_a_reader_that_goes_away_ends_it(slow: str) -> None:
    command = [COMMAND, "say", "word " * 1000, "-o", "-", "--config", slow]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(4) == b"RIFF"
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 1
    assert said == b"antiphon: cannot write standard output: Broken pipe\n"
