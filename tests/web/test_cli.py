"""The command line: what it prints, and with which status it ends."""

from __future__ import annotations

import socket
from io import BytesIO
from pathlib import Path

import pytest

from antiphon.engines.catalog import card, cards, model_folder, write_marker
from antiphon.engines.deployment import load_deployment, models_named
from antiphon.engines.fetch import FetchError
from antiphon.realtime.recording import Recorder
from antiphon.sessions import events as ev
from antiphon.sessions.settings import Capabilities, Settings
from antiphon.web import cli, demo
from antiphon.web.cli import FAILED, MISUSED, OK, main
from antiphon.web.doctor import Finding
from antiphon.web.paths import config_file

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Empty folders of our own, whatever this machine has."""
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path / "models"))
    monkeypatch.setenv("ANTIPHON_DATA", str(tmp_path / "data"))
    return tmp_path


class Calls:
    """Stands for a function: notes what it is given and returns ``answer``, or raises it."""

    def __init__(self, answer: object = None) -> None:
        self.given: list[tuple[object, ...]] = []
        self._answer = answer

    def __call__(self, *given: object, **_named: object) -> object:
        self.given.append(given)
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


def put_models(folders: Path, config: str) -> None:
    """Make folders that pass for the models of a deployment."""
    for name in models_named(load_deployment(config_file(config))):
        folder = model_folder(card(name), folders / "models")
        folder.mkdir(parents=True)
        write_marker(card(name), folder)


def write_config(folders: Path, text: str) -> str:
    path = folders / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


# Misuse.


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["dance"],
        ["models"],
        ["replay"],
        ["serve", "--port", "many"],
        ["serve", "--port", "65536"],
        ["serve", "--port", "-1"],
    ],
)
def test_what_can_not_be_understood(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == MISUSED
    assert "usage: antiphon" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve", "doctor", "demo", "models fetch"])
def test_a_deployment_that_is_not_there(command: str, capsys: Capture) -> None:
    assert main([*command.split(), "--config", "nowhere.yaml"]) == MISUSED
    assert capsys.readouterr().err == (
        "antiphon: cannot read nowhere.yaml: No such file or directory\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stages: {talker: {modell: x}}", "unknown key `stages.talker.modell`"),
        ("limits: {sessions: 0}", "limits.sessions: expected `int` >= 1"),
        ("stages: [", "is not YAML"),
    ],
)
def test_a_deployment_that_is_wrong(
    text: str, message: str, folders: Path, capsys: Capture
) -> None:
    config = write_config(folders, text)
    assert main(["serve", "--config", config]) == MISUSED
    error = capsys.readouterr().err
    assert error.startswith(f"antiphon: {config}")
    assert message in error


def test_a_deployment_with_a_model_that_nobody_knows(folders: Path, capsys: Capture) -> None:
    config = write_config(folders, "stages: {talker: {model: parrot}}")
    assert main(["serve", "--config", config]) == MISUSED
    assert "no model is called 'parrot'; known are " in capsys.readouterr().err


# serve.


def test_other_machines_are_served_with_a_key_only(capsys: Capture) -> None:
    assert main(["serve", "--config", "scripted", "--host", "0.0.0.0"]) == MISUSED
    said = capsys.readouterr().err
    assert said.startswith("antiphon: --host 0.0.0.0 would let other machines use the server")


def test_a_port_that_is_taken(folders: Path, capsys: Capture) -> None:
    put_models(folders, "scripted")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--config", "scripted", "--port", str(port)]) == FAILED
    assert capsys.readouterr().err == (
        f"antiphon: port {port} is taken: stop what uses it, or pass --port {port + 1}\n"
    )


def test_serving_with_recordings(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    put_models(folders, "scripted")
    served = Calls()
    monkeypatch.setattr("antiphon.web.serve.serve", served)
    assert main(["serve", "--config", "scripted"]) == OK
    assert main(["serve", "--config", "scripted", "--record", "--port", "0"]) == OK
    deployment = load_deployment(config_file("scripted"))
    recordings = folders / "data" / "recordings"
    assert served.given == [
        (deployment, folders / "models", "127.0.0.1", 8000, None),
        (deployment, folders / "models", "127.0.0.1", 0, recordings),
    ]
    assert recordings.stat().st_mode & 0o077 == 0, "what people said is nobody else's to read"


def test_a_data_folder_that_can_not_be_one(folders: Path, capsys: Capture) -> None:
    put_models(folders, "scripted")
    (folders / "file").touch()
    arguments = ["serve", "--config", "scripted", "--record", "--data", str(folders / "file")]
    assert main(arguments) == FAILED
    assert "cannot use the data folder" in capsys.readouterr().err


def test_missing_models_are_fetched_first(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    unreachable = Calls(FetchError("could not download it; check the network"))
    monkeypatch.setattr(cli, "fetch", unreachable)
    assert main(["serve", "--config", "scripted"]) == FAILED
    assert capsys.readouterr().err == "antiphon: could not download it; check the network\n"
    assert [given[0] for given in unreachable.given] == [card("piper-joe")]


def test_an_interrupt_has_the_shells_own_status(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_models(folders, "scripted")
    monkeypatch.setattr("antiphon.web.serve.serve", Calls(KeyboardInterrupt()))
    assert main(["serve", "--config", "scripted"]) == 130


# models, doctor, demo.


def test_models_are_listed_with_where_they_are(folders: Path, capsys: Capture) -> None:
    put_models(folders, "scripted")
    assert main(["models", "list"]) == OK
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == [model.name for model in cards()]
    assert {line[0] for line in lines if line[2] == "here"} == {"piper-joe"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["piper-joe", "smollm2-135m"], ["piper-joe", "smollm2-135m"]),
        (["--config", "scripted"], ["piper-joe"]),
    ],
)
def test_models_are_fetched_by_name_or_deployment(
    arguments: list[str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = Calls()
    monkeypatch.setattr(cli, "fetch", fetched)
    assert main(["models", "fetch", *arguments]) == OK
    assert [given[0] for given in fetched.given] == [card(name) for name in expected]


def test_a_model_that_nobody_knows(capsys: Capture) -> None:
    assert main(["models", "fetch", "parrot"]) == MISUSED
    assert "no model is called 'parrot'" in capsys.readouterr().err


@pytest.mark.parametrize(("healthy", "status"), [(True, OK), (False, FAILED)])
def test_the_doctors_status(
    healthy: bool, status: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    finding = Finding(check="the tongue", ok=healthy, detail="it was shown", mend="show it")
    monkeypatch.setattr(cli, "diagnose", Calls([finding]))
    assert main(["doctor", "--config", "scripted"]) == status
    assert "the tongue" in capsys.readouterr().out


def test_the_demos_status(folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    put_models(folders, "scripted")
    ran = Calls()
    monkeypatch.setattr(demo, "run_demo", ran)
    arguments = ["demo", "--config", "scripted", "--url", "ws://here", "--out", str(folders)]
    assert main(arguments) == OK
    assert ran.given == [("ws://here", config_file("scripted"), folders / "models", folders)]

    monkeypatch.setattr(demo, "run_demo", Calls(demo.DemoError("nobody answered")))
    assert main(arguments) == FAILED
    assert capsys.readouterr().err == "antiphon: nobody answered\n"


# replay.


def test_a_recording_is_printed_step_by_step(folders: Path, capsys: Capture) -> None:
    file = BytesIO()
    recorder = Recorder(file, "seed", Settings(), Capabilities())
    recorder.event(ev.Attached(1000), 50.0)
    recorder.event(ev.AppendAudio(bytes(960)), 50.25)
    recorder.deadline(51.0)
    path = folders / "recording.jsonl"
    path.write_bytes(file.getvalue())
    assert main(["replay", str(path)]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "    0.000  Attached(epoch_s=1000)"
    assert lines[1].startswith("             -> SessionCreated(session_id='sess_")
    assert lines[2:] == [
        "             -> StartListening(listen_id=1)",
        "    0.250  AppendAudio(pcm=<960 bytes>)",
        "             -> FeedListening(listen_id=1, pcm=<960 bytes>)",
        "    1.000  (time passed)",
    ]


def test_what_is_no_recording(folders: Path, capsys: Capture) -> None:
    path = folders / "notes.txt"
    path.write_text("Dear diary,\n", encoding="utf-8")
    assert main(["replay", str(path)]) == MISUSED
    assert f"antiphon: {path}:1: " in capsys.readouterr().err
    assert main(["replay", str(folders / "none")]) == MISUSED
    assert "cannot read" in capsys.readouterr().err
