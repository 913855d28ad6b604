"""A piece is read once or twice, as it is wanted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.engines.chunks import Word
from antiphon.engines.speech.hearing.guess import Guess
from antiphon.engines.speech.hearing.passages import Passage
from antiphon.engines.speech.hearing.reading import Wanted, read_piece
from antiphon.engines.speech.hearing.windows import FULL_SECONDS, RATE

HISS = np.random.default_rng(0).normal(0, 0.1, 2 * RATE).astype(np.float32)


class Guesser:
    def __init__(self, *guesses: Guess) -> None:
        self.guesses = list(guesses)
        self.asked: list[dict[str, Any]] = []

    def guess(self, samples: NDArray[np.float32], **asked: Any) -> Guess:
        self.asked.append(asked)
        return self.guesses.pop(0)


def said(
    text: str, *, mean_logprob: float = -0.2, no_speech: float = 0.1, finished: bool = True
) -> Guess:
    words = tuple(Word(each, 0, 100) for each in text.split())
    passage = Passage(text=" " + text, start=0, end=2, words=words)
    return Guess(
        text=text,
        mean_logprob=mean_logprob,
        no_speech=no_speech,
        finished=finished,
        passages=(passage,),
    )


def test_what_is_sure_is_read_once_and_as_it_is_wanted() -> None:
    model = Guesser(said("Hello there."))
    wanted = Wanted(language="de", prompt="Hi", translate=True, words=True, temperature=0.5)
    assert read_piece(model, wanted, HISS) == (said("Hello there."), 0)
    (asked,) = model.asked
    assert (asked["language"], asked["prompt"], asked["translate"]) == ("de", "Hi", True)
    assert (asked["words"], asked["temperature"], asked["logprobs"]) == (True, 0.5, False)


def test_what_is_doubtful_is_read_again_in_the_full_window_without_the_prompt() -> None:
    model = Guesser(said("Hm.", mean_logprob=-2.0, no_speech=0.2), said("Hello."))
    assert read_piece(model, Wanted(prompt="Hi", translate=True), HISS) == (said("Hello."), 1)
    assert model.asked[1]["seconds"] == FULL_SECONDS
    assert "prompt" not in model.asked[1]
    assert model.asked[1]["translate"]
    again = Guesser(said("Hm.", mean_logprob=-2.0, no_speech=0.2))
    assert read_piece(again, Wanted(), HISS, once=True) == (None, 0)


def test_silence_is_not_read_and_noise_is_nothing() -> None:
    model = Guesser(said("Thank you.", no_speech=0.9))
    assert read_piece(model, Wanted(), np.zeros(RATE, np.float32)) == (None, 0)
    assert read_piece(model, Wanted(), np.zeros(3, np.float32)) == (None, 0)
    assert not model.asked
    assert read_piece(model, Wanted(), HISS) == (None, 0)


def test_a_loop_is_said_once_also_in_its_passages() -> None:
    loop = said("go on " * 20, finished=False)
    found, tries = read_piece(Guesser(loop, loop), Wanted(words=True), HISS)
    assert found is not None
    assert (found.text, tries) == ("go on", 1)
    (passage,) = found.passages
    assert (passage.text, len(passage.words), passage.end) == (" go on", 2, 2)
