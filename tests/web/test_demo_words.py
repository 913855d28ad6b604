import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.web.demo_words import WordErrors, spoken_words, word_errors


@pytest.mark.parametrize(
    ("said", "heard", "errors", "words"),
    [
        ("The sky is blue.", "the sky is blue", 0, 4),
        ("The sky is blue.", "The sky is new", 1, 4),
        ("The sky is blue.", "sky is blue", 1, 4),
        ("The sky is blue.", "The sky it is blue.", 1, 4),
        ("2 + 2 = 4", "Two plus two equals four.", 0, 5),
        ("It’s late", "it's late", 0, 2),
        ("Hello there.", "", 2, 2),
        ("", "You", 1, 0),
    ],
)
def test_errors_are_counted_by_words_as_they_sound(
    said: str, heard: str, errors: int, words: int
) -> None:
    assert word_errors(said, heard) == WordErrors(errors, words)


def test_the_rate_is_of_the_words_said() -> None:
    assert word_errors("one two three four", "one too three").rate == 0.5
    assert word_errors("", "").rate == 0


WORDS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=8).map(" ".join)


@given(WORDS, WORDS)
def test_errors_are_a_distance(one: str, other: str) -> None:
    errors = word_errors(one, other).errors
    assert errors == word_errors(other, one).errors
    assert (errors == 0) == (spoken_words(one) == spoken_words(other))
    assert errors >= abs(len(one.split()) - len(other.split()))
    assert errors <= max(len(one.split()), len(other.split()))
