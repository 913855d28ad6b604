"""The arguments of the commands: what they are, and that they cost the others nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from antiphon.codecs.encode import FORMATS as SOUND
from antiphon.web.cli import MISUSED, main
from antiphon.web.commands.arguments import SOUND_FORMATS, TEXT_FORMATS
from antiphon.web.transcripts import FORMATS as TEXT

Capture = pytest.CaptureFixture[str]


def test_the_formats_are_those_that_there_are() -> None:
    assert SOUND_FORMATS == SOUND
    assert sorted(TEXT_FORMATS) == sorted(TEXT)


@pytest.mark.parametrize(
    "arguments",
    [
        ["say", "a", "b"],
        ["say", "a", "--format", "doc"],
        ["say", "a", "--speed", "fast"],
        ["transcribe"],
        ["transcribe", "a", "--format", "doc"],
        ["talk", "now"],
    ],
)
def test_what_can_not_be_understood(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == MISUSED
    assert "usage: antiphon" in capsys.readouterr().err


def test_other_commands_load_nothing_of_them() -> None:
    script = (
        "import sys; from antiphon.web.cli import main; main(['models', 'list']); "
        "print(*sorted(n.rpartition('.')[2] for n in sys.modules if '.commands.' in n), "
        "'websockets' in sys.modules, 'antiphon.engines.pipelines.cascade' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "arguments errors False False"
