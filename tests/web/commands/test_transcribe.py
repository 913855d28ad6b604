"""``antiphon transcribe`` in this process, with a recognizer that hears given lines."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest
from tests.support.files import file_of

from antiphon.codecs.wav import write_wav
from antiphon.engines.catalog import ModelCard
from antiphon.engines.chunks import Segment, StageError
from antiphon.engines.deployment import (
    Deployment,
    ScriptedArConfig,
    ScriptedRecognizerConfig,
    ScriptedTalkerConfig,
    Stages,
)
from antiphon.engines.fetch import FetchError
from antiphon.engines.speech.scripted_recognizer import ScriptedRecognizerStage
from antiphon.engines.stage import StageFailure
from antiphon.web.cli import FAILED, MISUSED, OK, main
from antiphon.web.commands import embedded, transcribe
from antiphon.web.commands.embedded import hearing_alone

Capture = pytest.CaptureFixture[str]

LINES = ("Tell me something.", "About the sky & sea.")
"""Of every five seconds one."""

WHOLE = " ".join(LINES)


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No server, a scripted recognizer, and a folder with a recording of seven seconds."""
    for name in ("ANTIPHON_URL", "ANTIPHON_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path / "models"))
    stages = Stages(
        recognizer=ScriptedRecognizerConfig(lines=LINES),
        ar=ScriptedArConfig(),
        talker=ScriptedTalkerConfig(),
    )

    def scripted(model: str) -> Deployment:
        return Deployment(stages=stages)

    monkeypatch.setattr(transcribe, "hearing_alone", scripted)
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write(folder / "talk.wav")
    return folder


def write(path: Path) -> None:
    path.write_bytes(write_wav(bytes(2 * 16_000 * 7), 16_000))


def test_the_text_is_printed(capfd: Capture) -> None:
    assert main(["transcribe", "talk.wav"]) == OK
    assert capfd.readouterr() == (f"{WHOLE}\n", "")


def test_a_terminal_gets_a_line_for_each_piece(
    monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", Terminal(io.FileIO(1, "w", closefd=False)))
    assert main(["transcribe", "talk.wav"]) == OK
    assert capfd.readouterr().out == f"{LINES[0]}\n{LINES[1]}\n"


def test_json(capfd: Capture) -> None:
    assert main(["transcribe", "talk.wav", "--format", "json"]) == OK
    told = json.loads(capfd.readouterr().out)
    assert told == {"text": WHOLE, "usage": {"type": "duration", "seconds": 7.0}}


@pytest.mark.parametrize("words", [False, True])
def test_verbose_json(words: bool, capfd: Capture) -> None:
    arguments = ["transcribe", "talk.wav", "--format", "verbose_json", *["--words"][: int(words)]]
    assert main(arguments) == OK
    told = json.loads(capfd.readouterr().out)
    assert (told["duration"], told["language"], told["task"]) == (7.0, "en", "transcribe")
    assert [each["start"] for each in told["segments"]] == [0, 5]
    assert ("words" in told) == words
    if words:
        assert [each["word"] for each in told["words"]] == WHOLE.split()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("out.txt", f"{WHOLE}\n"),
        (
            "out.srt",
            f"1\n00:00:00,000 --> 00:00:05,000\n{LINES[0]}\n\n"
            f"2\n00:00:05,000 --> 00:00:07,000\n{LINES[1]}\n\n",
        ),
        (
            "out.VTT",
            f"WEBVTT\n\n00:00:00.000 --> 00:00:05.000\n{LINES[0]}\n\n"
            "00:00:05.000 --> 00:00:07.000\nAbout the sky &amp; sea.\n\n",
        ),
    ],
)
def test_the_suffix_is_the_format(name: str, expected: str, here: Path, capfd: Capture) -> None:
    assert main(["transcribe", "talk.wav", "-o", name]) == OK
    assert (here / name).read_text(encoding="utf-8") == expected
    assert sorted(os.listdir(here)) == sorted(["talk.wav", name])
    assert capfd.readouterr().out == ""


def test_files_of_other_kinds_are_read(here: Path, capfd: Capture) -> None:
    (here / "a.mp3").write_bytes(file_of("mp3"))
    assert main(["transcribe", "a.mp3"]) == OK
    assert capfd.readouterr().out == f"{LINES[0]}\n"


# Several files.


def test_several_are_printed_under_their_names(here: Path, capfd: Capture) -> None:
    write(here / "b.wav")
    assert main(["transcribe", "talk.wav", "b.wav"]) == OK
    assert capfd.readouterr().out == f"talk.wav:\n{WHOLE}\n\nb.wav:\n{WHOLE}\n"
    assert main(["transcribe", "talk.wav", "b.wav", "--format", "json"]) == OK
    told = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(each["file"], each["text"]) for each in told] == [
        ("talk.wav", WHOLE),
        ("b.wav", WHOLE),
    ]


def test_several_go_to_a_folder(here: Path) -> None:
    write(here / "b.wav")
    assert main(["transcribe", "talk.wav", "b.wav", "-o", "texts", "--format", "srt"]) == OK
    assert sorted(os.listdir(here / "texts")) == ["b.srt", "talk.srt"]


def test_one_that_fails_does_not_keep_the_others(here: Path, capfd: Capture) -> None:
    (here / "noise.mp3").write_bytes(b"no sound")
    assert main(["transcribe", "nowhere.mp3", "noise.mp3", "talk.wav", "-o", "texts"]) == FAILED
    said = capfd.readouterr().err.splitlines()
    assert said[0] == "antiphon: cannot read nowhere.mp3: No such file or directory"
    assert said[1].startswith("antiphon: noise.mp3: This is no audio file")
    assert os.listdir(here / "texts") == ["talk.txt"]


def test_files_that_would_be_one_are_refused(here: Path, capfd: Capture) -> None:
    write(here / "talk.mp3")
    assert main(["transcribe", "talk.wav", "talk.mp3", "-o", "texts"]) == MISUSED
    assert "two files would be talk.txt" in capfd.readouterr().err
    assert main(["transcribe", "talk.wav", "talk.mp3", "-o", "talk.wav"]) == MISUSED
    assert "expected a folder" in capfd.readouterr().err


# What is refused.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "a.doc"], "names no format; use one of .txt"),
        (["--words"], "--words: only with --format verbose_json"),
        (["--words", "--translate", "--format", "verbose_json"], "have no times"),
        (["--language", "de", "--translate"], "--language: a translation finds it"),
        (["--model", "whisper-base", "--url", "h:1"], "--model: a server has its own"),
        (["--url", "http://"], "expected a URL"),
    ],
)
def test_what_can_not_be_done(arguments: list[str], message: str, capfd: Capture) -> None:
    assert main(["transcribe", "talk.wav", *arguments]) == MISUSED
    assert message in capfd.readouterr().err


@pytest.mark.parametrize("model", ["parrot", "piper-joe"])
def test_what_is_no_recognizer(model: str, monkeypatch: pytest.MonkeyPatch, capfd: Capture) -> None:
    monkeypatch.setattr(transcribe, "hearing_alone", hearing_alone)
    assert main(["transcribe", "talk.wav", "--model", model]) == MISUSED
    said = capfd.readouterr().err
    assert "whisper-tiny-en" in said
    assert model in said


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("cannot_translate", "; pass --model whisper-base"),
        ("unsupported_language", "; leave out --language, or pass --model whisper-base"),
    ],
)
def test_what_the_recognizer_can_not_do_is_said_with_what_can(
    code: str, hint: str, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    def refuse(*_: object) -> None:
        raise StageFailure(StageError(code, "it can't"))

    monkeypatch.setattr(ScriptedRecognizerStage, "transcribe", refuse)
    assert main(["transcribe", "talk.wav"]) == MISUSED
    assert capfd.readouterr().err == f"antiphon: it can't{hint}\n"


def test_a_recognizer_that_breaks_leaves_no_file(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    async def broken(*_: object) -> Segment:
        raise StageFailure(StageError("broken", "it broke"))

    monkeypatch.setattr(ScriptedRecognizerStage, "_segment", broken)
    assert main(["transcribe", "talk.wav", "-o", "a.txt"]) == FAILED
    assert "it broke" in capfd.readouterr().err
    assert os.listdir(here) == ["talk.wav"]


def test_only_the_recognizer_is_fetched(monkeypatch: pytest.MonkeyPatch, capfd: Capture) -> None:
    asked: list[str] = []

    def unreachable(model: ModelCard, *_: object) -> None:
        asked.append(model.name)
        raise FetchError("check the network")

    monkeypatch.setattr(transcribe, "hearing_alone", hearing_alone)
    monkeypatch.setattr(embedded, "fetch", unreachable)
    assert main(["transcribe", "talk.wav", "--model", "whisper-base"]) == FAILED
    assert asked == ["whisper-base"]
    assert capfd.readouterr().err == "antiphon: check the network\n"


def test_a_file_that_is_not_there(here: Path, capfd: Capture) -> None:
    assert main(["transcribe", "nowhere", "-o", "a.txt"]) == FAILED
    assert capfd.readouterr().err == "antiphon: cannot read nowhere: No such file or directory\n"
    assert os.listdir(here) == ["talk.wav"]


def test_a_file_without_sound(here: Path, capfd: Capture) -> None:
    (here / "a.wav").write_bytes(b"")
    assert main(["transcribe", "a.wav"]) == FAILED
    assert capfd.readouterr() == ("", "antiphon: a.wav: The file is empty.\n")


def test_a_file_that_breaks_off_gives_what_is_there(here: Path, capfd: Capture) -> None:
    whole = (here / "talk.wav").read_bytes()
    (here / "a.wav").write_bytes(whole[: len(whole) * 6 // 7])
    assert main(["transcribe", "a.wav", "--format", "json"]) == OK
    told = json.loads(capfd.readouterr().out)
    assert told["usage"]["seconds"] == pytest.approx(6, abs=0.1)
