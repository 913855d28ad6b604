"""How finished something sounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.sessions.finished import Finish, judge, longest_silence_ms, silence_ms
from antiphon.sessions.settings import Eagerness

FINISHED = [
    "What time is it?",
    "Turn on the lights.",
    "I would like a cup of tea, please.",
    "Stop!",
    "He said “come here.”",
    "What are you looking at?",
    "Yes",
    "yes.",
    "No, thank you",
    "Okay",
    "I don’t.",
    "I am 25.",
    "It was in 1999.",
    "I feel well. Thanks.",
]
UNFINISHED = [
    "",
    "   ",
    "I would like to",
    "I would like a",
    "I went to the store and.",
    "and",
    "Well,",
    "So...",
    "Let me think…",
    "First –",
    "um",
    "It is, uh.",
    "You know.",
    "Well",
    "My favourite is the.",
    "Because",
    "Tell me about my",
]
UNCLEAR = [
    "turn on the lights",
    "That is what I was talking about.",
    "I feel well.",
    "555-123-4567 890",
]
DICTATED = [
    "My number is 555 123",
    "555-1234.",
    "It is five five five",
    "0171.",
    "+49",
    "My phone number is 555.",
    "1, 2, 3, 4",
]
OTHERS = [
    ("今日はいい天気ですね。", Finish.FINISHED),
    ("你好吗？", Finish.FINISHED),
    ("我想要，", Finish.UNFINISHED),
    ("क्या हाल है।", Finish.FINISHED),
    ("كيف حالك؟", Finish.FINISHED),
    ("Τι κάνεις\u037e", Finish.FINISHED),
    ("Je voudrais…", Finish.UNFINISHED),
    ("Où est la gare", Finish.UNCLEAR),
]


@pytest.mark.parametrize(
    ("finish", "text"),
    [
        *((Finish.FINISHED, text) for text in FINISHED),
        *((Finish.UNFINISHED, text) for text in UNFINISHED),
        *((Finish.UNCLEAR, text) for text in UNCLEAR),
        *((Finish.DICTATED, text) for text in DICTATED),
    ],
)
def test_english_is_judged_by_its_last_words(finish: Finish, text: str) -> None:
    assert judge(text) is finish
    assert judge(text, "en") is finish


@pytest.mark.parametrize(("text", "finish"), OTHERS)
def test_other_languages_are_judged_by_punctuation(text: str, finish: Finish) -> None:
    assert judge(text) is finish


def test_english_words_mean_nothing_in_another_language() -> None:
    assert judge("Ich komme um acht an.", "de") is Finish.FINISHED
    assert judge("Ich komme um acht an.", "en-US") is Finish.UNFINISHED


def test_what_is_not_known_is_unfinished() -> None:
    assert judge(None) is Finish.UNFINISHED


@pytest.mark.parametrize("eagerness", Eagerness)
def test_the_less_finished_the_longer_the_wait(eagerness: Eagerness) -> None:
    order = (Finish.FINISHED, Finish.UNCLEAR, Finish.DICTATED, Finish.UNFINISHED)
    waits = [silence_ms(finish, eagerness) for finish in order]
    assert waits == sorted(waits)
    assert 300 <= waits[0] <= 500
    assert waits[-1] == longest_silence_ms(eagerness)


def test_the_longest_waits_are_those_of_the_protocol() -> None:
    order = (Eagerness.LOW, Eagerness.MEDIUM, Eagerness.AUTO, Eagerness.HIGH)
    assert [longest_silence_ms(each) for each in order] == [8000, 4000, 4000, 2000]


@given(st.text(max_size=40), st.sampled_from([None, "", "en", "de", "xx"]))
def test_any_text_can_be_judged(text: str, language: str | None) -> None:
    assert judge(text, language) in Finish


@given(st.lists(st.sampled_from("yes 12 - , . ... and 0 um the ?! ’ five".split()), max_size=6))
def test_any_mixture_of_words_can_be_judged(those: list[str]) -> None:
    assert judge(" ".join(those)) in Finish
