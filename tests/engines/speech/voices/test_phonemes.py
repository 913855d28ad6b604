import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.engines.speech.voices.phonemes import Phonemizer, spoken_form
from antiphon.engines.stage import StageFailure

SYMBOLS = "^_$ .,;:!?abdefhijklmnoprstuvwzæðŋɐɑɔəɚɛɜɡɪɹɾʃʊʌʒθˈˌːʔ̩ᵻ"
ID_MAP = {symbol: (number,) for number, symbol in enumerate(SYMBOLS)}


def phonemizer() -> Phonemizer:
    return Phonemizer("en-us", ID_MAP)


def read(text: str) -> list[str]:
    """The groups of a text, as symbols."""
    sequence = phonemizer().ids(text)
    if sequence is None:
        return []
    return [
        "".join(SYMBOLS[i] for i in sequence.ids[start:stop:2]) for start, stop in sequence.groups
    ]


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("It is **very** `good`.", "It is very good."),
        ("# A heading\nand text", "A heading, and text"),
        ("One\n\nTwo\n", "One. Two,"),
        ("One,\nTwo!\n\nThree", "One, Two! Three"),
        ("Hello 🙂 there 👩🏽‍🚀!", "Hello there."),
        ("Good 🙂. Bye", "Good. Bye"),
        ("see [the docs](http://a.b/c) now", "see the docs now"),
        ("3*4 is 12", "3 times 4 is 12"),
        ("snake_case", "snake case"),
        ("Mr. Smith met Dr. Jones", "Mr Smith met Dr Jones"),
        ("J. R. Tolkien of the U.S. Army", "J R Tolkien of the U S Army"),
        ("at 20° it costs $3.50", "at 20° it costs $3.50"),
        ("word — word", "word, word"),
        ("- one\n- two", "one, two"),
        ("a\x00b\ud800c", "abc"),
        ("*** --- 🙂", ""),
        ("", ""),
    ],
)
def test_markup_is_not_read_aloud(text: str, spoken: str) -> None:
    assert spoken_form(text) == spoken


@pytest.mark.models
@pytest.mark.parametrize(
    ("text", "groups"),
    [("the sky", 2), ("of the sky", 2), ("42", 2), ("Yes! No.", 2), ("Mr. Smith", 2), ("🙂", 0)],
)
def test_groups_are_the_runs_of_sounds(text: str, groups: int) -> None:
    assert len(read(text)) == groups


@pytest.mark.models
def test_sentences_are_joined_with_a_space() -> None:
    sequence = phonemizer().ids("Sure! I can.")
    assert sequence is not None
    symbols = "".join(SYMBOLS[i] for i in sequence.ids[::2])
    assert symbols.startswith("^")
    assert "! a" in symbols
    assert SYMBOLS[sequence.ids[-1]] == "$"


@pytest.mark.models
@settings(deadline=None, max_examples=60)
@given(st.text(max_size=40))
def test_any_text_gives_ids_in_order_or_nothing(text: str) -> None:
    sequence = phonemizer().ids(text)
    if sequence is not None:
        edges = [edge for group in sequence.groups for edge in group]
        assert edges == sorted(edges)
        assert 0 < edges[0]
        assert edges[-1] < len(sequence.ids)
        assert all(i in range(len(SYMBOLS)) for i in sequence.ids)


@pytest.mark.models
def test_sounds_of_a_word_are_those_it_has_in_a_text() -> None:
    sounds = phonemizer().sounds
    assert sounds("sky,") == len(read("sky")[0])
    assert sounds("42") == sum(map(len, read("42")))
    assert sounds("🙂") == 0


def test_without_piper_the_failure_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "piper.phonemize_espeak", None)
    with pytest.raises(StageFailure, match=r"pip install 'antiphon\[piper\]'"):
        phonemizer()
