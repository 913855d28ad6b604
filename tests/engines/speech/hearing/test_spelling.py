from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.chunks import TokenLogprob
from antiphon.engines.speech.hearing.spelling import fit_tokens, spell_tokens


def by_bytes(tokens: Sequence[int]) -> str:
    """A decoder whose tokens are single bytes."""
    return bytes(tokens).decode(errors="replace")


def tokens_of(*words: str) -> list[TokenLogprob]:
    return [TokenLogprob(word, -float(number)) for number, word in enumerate(words, start=1)]


def test_tokens_that_are_one_character_together_are_as_probable_as_all_of_them() -> None:
    spelled = spell_tokens([(byte, -0.5) for byte in "aé€😀".encode()], by_bytes)
    assert spelled == (
        TokenLogprob("a", -0.5),
        TokenLogprob("é", -1.0),
        TokenLogprob("€", -1.5),
        TokenLogprob("😀", -2.0),
    )


@given(st.text())
def test_tokens_of_a_text_spell_it(text: str) -> None:
    spelled = spell_tokens([(byte, -1.0) for byte in text.encode(errors="replace")], by_bytes)
    assert "".join(each.token for each in spelled) == text.encode(errors="replace").decode()


@given(st.binary(max_size=20))
def test_bytes_that_are_no_text_lose_no_token(garbage: bytes) -> None:
    spelled = spell_tokens([(byte, -1.0) for byte in garbage], by_bytes)
    assert sum(each.logprob for each in spelled) == -len(garbage)


@pytest.mark.parametrize(
    ("words", "text", "fitted"),
    [
        ([" What", " time", "?"], "What time?", ["What", " time", "?"]),
        ([" ", " Yes", ".", " "], "Yes.", ["Yes", "."]),
        ([" no", " no", " no", " no"], "no no", ["no", " no"]),
        ([" Yes", ".  "], "Yes. ", ["Yes", ". "]),
        ([" Yes"], "No", []),
        ([" Yes"], "Yes, please", []),
        ([], "", []),
    ],
)
def test_fitted_tokens_are_exactly_the_text(words: list[str], text: str, fitted: list[str]) -> None:
    assert [each.token for each in fit_tokens(tokens_of(*words), text)] == fitted


def test_fitted_tokens_keep_their_probability() -> None:
    assert fit_tokens(tokens_of(" ", " a", "b"), "ab") == (
        TokenLogprob("a", -2.0),
        TokenLogprob("b", -3.0),
    )
