import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.speech.hearing.guess import (
    Guess,
    collapse,
    is_doubtful,
    is_runaway,
    is_silence,
)


def guess(text: str, **fields: float) -> Guess:
    known = {"mean_logprob": -0.3, "no_speech": 0.05} | fields
    return Guess(
        text=text,
        mean_logprob=known["mean_logprob"],
        no_speech=known["no_speech"],
        finished=bool(known.get("finished", True)),
        language_probability=known.get("language_probability", 1.0),
    )


@pytest.mark.parametrize(
    ("found", "silent"),
    [
        (guess("What time is it?"), False),
        (guess("Stop.", no_speech=0.48, mean_logprob=-1.2), False),
        (guess("you", no_speech=0.99, mean_logprob=-1.1), True),
        (guess("I'm so sorry.", no_speech=0.85, mean_logprob=-0.1), True),
        (guess("I don't know.", no_speech=0.7, mean_logprob=-1.5), True),
        (guess("I don't know.", no_speech=0.7, mean_logprob=-0.5), False),
        (guess(" . . . . ."), True),
        (guess(""), True),
    ],
)
def test_words_heard_into_noise_are_silence(found: Guess, silent: bool) -> None:
    assert is_silence(found) is silent


@pytest.mark.parametrize(
    ("found", "seconds", "doubtful"),
    [
        (guess("Please send the package to twelve Oak Street."), 2.5, False),
        (guess("My number is five five five, two three four."), 3.0, False),
        (guess("Yes."), 0.3, False),
        (guess("Yes.", finished=False), 0.3, True),
        (guess("P her off the light.", mean_logprob=-1.1), 1.0, True),
        (guess("Call me back. Call me back."), 3.0, True),
        (guess("No, no, no."), 1.0, True),
        (guess("In the end it was late and we had to go home by bus."), 1.0, True),
        (guess("365 " * 30), 20.0, True),
        (guess("It was $3. $0. $0. $0. $"), 3.0, True),
        (guess("Call me back.", language_probability=0.4), 1.0, True),
    ],
)
def test_a_decoder_that_lost_its_way_is_noticed(
    found: Guess, seconds: float, doubtful: bool
) -> None:
    assert is_doubtful(found, seconds) is doubtful


def test_only_what_nobody_can_have_said_is_a_runaway() -> None:
    refrain = guess("I said no. " * 4)
    assert is_doubtful(refrain, 5.0)
    assert not is_runaway(refrain, 5.0)
    assert is_runaway(refrain, 1.0)
    assert is_runaway(guess("Yes.", finished=False), 5.0)


@pytest.mark.parametrize(
    ("text", "once"),
    [
        ("Yes. Yes. Yes. Yes.", "Yes."),
        ("Well, turn it off. Turn it off. Turn it off. Turn it", "Well, turn it off."),
        ("No, no.", "No, no."),
        ("one two three one two three", "one two three one two three"),
        ("", ""),
    ],
)
def test_only_loops_are_collapsed(text: str, once: str) -> None:
    assert collapse(text) == once


@given(st.lists(st.sampled_from("abc"), max_size=30))
def test_what_is_left_of_a_loop_begins_the_text(letters: list[str]) -> None:
    text = " ".join(letters)
    assert text.startswith(collapse(text))
    assert bool(collapse(text)) == bool(text)
