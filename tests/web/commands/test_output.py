"""Files of commands: there when they are complete, and not before."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from antiphon.web.commands.errors import CommandError
from antiphon.web.commands.output import writing


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "out.bin"
    with writing(str(path)) as output:
        output.write(b"0000abc")
        output.write(b"def")
        assert not path.exists()
        output.amend(b"1234")
    assert path.read_bytes() == b"1234abcdef"
    assert os.listdir(tmp_path) == ["out.bin"]


def test_what_was_there_stays_until_then_and_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")
    with writing(str(path)) as output:
        output.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_fails_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with writing(str(tmp_path / "out.bin")) as output:
            output.write(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert os.listdir(tmp_path) == []


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with writing(str(tmp_path / "link")) as output:
        output.write(b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"x"


def test_others_may_read_it_as_any_file(tmp_path: Path) -> None:
    with writing(str(tmp_path / "out")) as output:
        output.write(b"x")
    (tmp_path / "usual").touch()
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("out", "usual")]
    assert modes[0] == modes[1]


def test_a_pipe_is_written_to_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with writing(str(pipe)) as output:
            output.write(b"sound")
            assert os.read(reader, 10) == b"sound"
            output.amend(b"gone by")
        assert os.read(reader, 10) == b""
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with writing("-") as output:
        output.write(b"\x00\xff")
    assert capfdbinary.readouterr().out == b"\x00\xff"


def test_a_place_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot write .*nowhere.*No such file"):
        with writing(str(tmp_path / "nowhere" / "out")):
            raise AssertionError("opened")
    with pytest.raises(CommandError, match="is a folder") as caught, writing(str(tmp_path)):
        raise AssertionError("opened")
    assert caught.value.misused
