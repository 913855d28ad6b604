"""The table in the documentation is the one that is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.web.cli import OK, main

PAGE = Path(__file__).parents[4] / "docs" / "codec-lm.md"


def test_the_documentation_has_the_table_that_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["families"]) == OK
    printed = capsys.readouterr().out
    assert printed in PAGE.read_text(encoding="utf-8"), "paste what `antiphon families` prints"
