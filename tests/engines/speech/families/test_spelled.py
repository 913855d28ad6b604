"""Figures as words."""

from __future__ import annotations

import pytest

from antiphon.engines.speech.families.spelled import spelled


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 and 12, 40; 99.", "zero and twelve, forty; ninety-nine."),
        ("1,234 or 1000006", "one thousand two hundred thirty-four or one million six"),
        ("-3.50% (-7)", "minus three point five zero percent (minus seven)"),
        ("1st 22nd 30th 112th", "first twenty-second thirtieth one hundred twelfth"),
        ("B2B, 3D", "B two B, three D"),
        ("12345678901234567", "one two three four five six seven eight nine zero one two three "),
        ("none", "none"),
    ],
)
def test_figures_are_words(text: str, said: str) -> None:
    assert spelled(text).startswith(said)
    assert not any(char.isdigit() for char in spelled(text))
