import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.speech.clauses import Pause
from antiphon.engines.speech.voices.japanese import Symbol
from antiphon.engines.speech.voices.phrasing import (
    COMMA_SYMBOLS,
    LONG_SYMBOLS,
    MOST_SYMBOLS,
    SENTENCE_SYMBOLS,
    phrases,
)


def symbols(text: str) -> list[Symbol]:
    return [Symbol(char, -1 if char == " " else 0) for char in text]


def cut(text: str, at_end: Pause = Pause.NONE) -> list[tuple[str, Pause]]:
    made = phrases(symbols(text), at_end)
    return [("".join(each.char for each in phrase.symbols), phrase.pause) for phrase in made]


LONG = "a" * COMMA_SYMBOLS
SENTENCE = "a" * SENTENCE_SYMBOLS


@pytest.mark.parametrize(
    ("text", "at_end", "wanted"),
    [
        ("aka", Pause.NONE, [("aka", Pause.NONE)]),
        ("aka", Pause.COMMA, [("aka", Pause.COMMA)]),
        # A line ends, so the voice is to fall.
        ("aka", Pause.SENTENCE, [("aka.", Pause.SENTENCE)]),
        ("aka?", Pause.SENTENCE, [("aka?", Pause.SENTENCE)]),
        ("aka, aka.", Pause.NONE, [("aka, aka.", Pause.SENTENCE)]),
        (f"{LONG}, aka.", Pause.NONE, [(f"{LONG},", Pause.COMMA), ("aka.", Pause.SENTENCE)]),
        ("aka. aka", Pause.NONE, [("aka. aka", Pause.NONE)]),
        (f"{SENTENCE}! aka", Pause.NONE, [(f"{SENTENCE}!", Pause.SENTENCE), ("aka", Pause.NONE)]),
        (f"{LONG}, “aka”", Pause.NONE, [(f"{LONG},", Pause.COMMA), ("“aka”", Pause.NONE)]),
        (
            f"“{SENTENCE}.” aka",
            Pause.NONE,
            [(f"“{SENTENCE}.”", Pause.SENTENCE), ("aka", Pause.NONE)],
        ),
        ("", Pause.SENTENCE, []),
        (" , “", Pause.SENTENCE, []),
    ],
)
def test_a_clause_is_cut_at_its_pauses(
    text: str, at_end: Pause, wanted: list[tuple[str, Pause]]
) -> None:
    assert cut(text, at_end) == wanted


def test_a_clause_without_pauses_is_cut_between_words() -> None:
    made = cut(" ".join(["aka"] * 60))
    assert len(made) == 4
    assert all(len(text) <= LONG_SYMBOLS + 4 for text, _ in made)
    assert {pause for _, pause in made} == {Pause.NONE}
    assert all(set(text.split(" ")) == {"aka"} for text, _ in made)


@given(st.text("ak .,!“”—", max_size=600), st.sampled_from(Pause))
def test_no_sound_is_lost_and_no_phrase_endless(text: str, at_end: Pause) -> None:
    made = cut(text, at_end)
    sounds = str.maketrans("", "", " .,!“”—")
    assert "".join(said for said, _ in made).translate(sounds) == text.translate(sounds)
    assert all(said.translate(sounds) for said, _ in made)
    assert all(len(said.rstrip(" .,!“”—").lstrip(" .,!“”—")) <= MOST_SYMBOLS for said, _ in made)
