import pytest

from antiphon.engines.speech.clauses import Pause
from antiphon.engines.speech.voices.seams import Seam, pause_at_end, tail_ms


@pytest.mark.parametrize(
    ("text", "pause"),
    [
        ("The sky is ", Pause.NONE),
        ("Of course, ", Pause.COMMA),
        ("It is. ", Pause.SENTENCE),
        ("It is! 🙂 ", Pause.SENTENCE),
        ("It is. But 🙂 ", Pause.NONE),
        ("a heading\n", Pause.SENTENCE),
        ("a\nheading", Pause.NONE),
        ("and so on, etc. ", Pause.UNSURE),
        ("ask Mr. ", Pause.NONE),
        ("", Pause.NONE),
    ],
)
def test_the_pause_is_read_off_the_end_of_the_text(text: str, pause: Pause) -> None:
    assert pause_at_end(text) is pause


def test_a_sentence_ends_in_more_silence_than_a_comma_and_that_than_a_bare_cut() -> None:
    assert tail_ms("so. ") > tail_ms("so, ") > tail_ms("so ")


def shaped(first: int, last: int, tail: int) -> list[int]:
    return [int(each) for each in Seam(first_sound=first, last_sound=last, tail=tail).picks(10)]


@pytest.mark.parametrize(
    ("tail", "end"),
    [
        (0, []),
        (1, [6]),
        (2, [6, 9]),
        (3, [6, 7, 9]),
        (4, [6, 7, 8, 9]),
        (7, [6, 7, 8, 9, 9, 9, 9]),
        (9, [6, 7, 8, 9, 9, 9, 9, 9, 9]),
    ],
)
def test_the_silence_at_the_end_is_cut_or_held_to_length(tail: int, end: list[int]) -> None:
    assert shaped(0, 6, tail) == [0, 1, 2, 3, 4, 5, *end]


def test_two_frames_are_left_ahead_of_the_first_sound() -> None:
    assert shaped(3, 6, 0) == [1, 2, 3, 4, 5]
    assert shaped(0, 6, 0) == [0, 1, 2, 3, 4, 5]


def test_without_any_silence_none_is_made_up() -> None:
    assert shaped(0, 10, 3) == list(range(10))
