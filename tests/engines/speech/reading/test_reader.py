"""Properties that hold for any text."""

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.engines.speech.clauses import is_speakable
from antiphon.engines.speech.reading.marks import is_mark
from antiphon.engines.speech.reading.reader import Reader, align, normalize
from antiphon.engines.speech.reading.tokens import LONGEST

GROWTH = 20
"""Characters that one may become: ``√`` is "the square root of", between two spaces."""

HELD = 8
"""Words at most that are held back, those of a telephone number included."""

WORDS = (
    "a I the sky Mr. Dr. St. U.S. e.g. etc. no. No. p. 3.5 10:30 1. 42 2026 29 Nov Nov. VIII Henry "
    "$3.50 £1m million km 5km 20°C 3–5 3-5 1/2 50% -5 p.m. am (555) 123-4567 +1 555 020 #1 #tag "
    "@me v2.1 1990s '90s * - – + = × & / and/or a+b x² **bold** `x` [a](b) ](c) https://a.com/b "
    "me@a.com 🙂 👍🏽 — … wait... What? “so” FAQ WHO 你好。 今天2026年 ___ ``` | # > "
    "supercalifragilistic"
).split()
PIECES = st.sampled_from([*WORDS, "\n", "\n\n", " ", "\r\n", "x" * LONGEST, "7" * (LONGEST + 9)])
TEXTS = st.one_of(
    st.lists(PIECES, max_size=40).map(" ".join),
    st.lists(PIECES, max_size=40).map("".join),
    st.text(alphabet="aeIVx0159 .,:/-–+$€%°#@*_[]()<>≠√^=~&;|'’\n🙂½²年", max_size=300),
    st.text(max_size=80),
)
PROSE = st.lists(
    st.sampled_from(
        "the sky is blue, because air scatters light. And I said: “Yes!” Why? It's a well-known "
        "fact; nobody (not even she) minds… Paris NASA 3 42 1,000 3rd 50%".split()
        + ["over\n\nthen", "one\ntwo"]
    ),
    min_size=1,
    max_size=30,
).map(" ".join)


@given(TEXTS, st.data())
def test_where_the_pieces_end_makes_no_difference(text: str, data: st.DataObject) -> None:
    marks = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    bounds = [0, *sorted(marks), len(text)]
    reader = Reader()
    got = "".join(reader.feed(text[a:b]) for a, b in pairwise(bounds)) + reader.flush()
    assert got == normalize(text)
    # It is as new.
    assert reader.feed(text) + reader.flush() == got


@given(PROSE)
def test_prose_stays_as_it_is(text: str) -> None:
    assert normalize(text) == text


@given(TEXTS, st.sampled_from(["en", "de"]))
def test_what_has_letters_or_digits_is_never_empty(text: str, language: str) -> None:
    # A ticked box or a tag has letters, too, but is markup.
    if any(is_speakable(word) and not is_mark(word, True) for word in text.split()):
        assert is_speakable(normalize(text, language))


@given(TEXTS)
def test_it_grows_within_bounds(text: str) -> None:
    assert len(normalize(text)) <= GROWTH * len(text)


@given(TEXTS)
def test_spans_are_in_order_and_within_the_text(text: str) -> None:
    at = 0
    for span in align(text):
        assert at <= span.start <= span.stop <= len(text)
        assert (span.start == span.stop) == (not span.text.strip())
        at = span.stop


@given(TEXTS)
def test_white_space_is_a_space_or_line_breaks(text: str) -> None:
    read = normalize(text)
    assert "  " not in read
    assert "\n\n\n" not in read
    assert all(char in " \n" for char in read if char.isspace())


@given(st.lists(PIECES, max_size=40).map(" ".join))
def test_only_a_few_words_are_held_back(text: str) -> None:
    reader = Reader()
    written = 0
    for char in text:
        written += 1
        for span in reader.read(char):
            held = text[span.stop : written]
            assert len(held.split()) <= HELD


@settings(max_examples=15)
@given(
    st.sampled_from(
        [
            "1",
            ".",
            "1.",
            "1,",
            "-1",
            "1/",
            "((",
            "](",
            "a@",
            "a.",
            "*",
            "_a",
            "I ",
            "1 ",
            "+1 ",
            "🙂",
            "年",
            "#",
            "$1-",
            "http://",
            "²",
            "x²",
            "1:",
            "'",
            "A-",
        ]
    ),
    st.sampled_from(["", "x", "!", "\n"]),
)
def test_a_long_nasty_text_is_read_at_once(unit: str, end: str) -> None:
    text = unit * (100_000 // len(unit)) + end
    start = time.process_time()
    normalize(text)
    # A few seconds would do; a quadratic one takes minutes.
    assert time.process_time() - start < 20


def test_plain_words_are_read_as_soon_as_they_are_complete() -> None:
    reader = Reader()
    assert reader.feed("Certainly.") == ""
    assert reader.feed(" The sk") == "Certainly. The "
    assert reader.feed("y is") == "sky "
    assert reader.feed("\n") == "is\n"


@pytest.mark.parametrize(
    ("pieces", "read"),
    [
        (["I paid $", "3", ".5", "0 "], ["I paid ", "", "", ""]),
        (["I have 3 ", "apples ", "now"], ["I have ", "3 apples ", ""]),
        (["In 2026 ", "we "], ["In ", "twenty twenty-six we "]),
        (["It is 5 ", "km ", "away "], ["It is ", "5 kilometers ", "away "]),
        (["Dr. ", "Smith ", "said "], ["", "Doctor Smith ", "said "]),
        (["for $3.50, ", "and"], ["for 3 dollars and 50 cents, ", ""]),
    ],
)
def test_what_may_still_change_is_held_back(pieces: list[str], read: list[str]) -> None:
    reader = Reader()
    assert [reader.feed(piece) for piece in pieces] == read


def test_paragraphs_survive() -> None:
    text = "# Title\n\n\n\nOne  line.\r\n\r\n- first\n- second\n\n---\n\nEnd. "
    assert normalize(text) == "Title\n\nOne line. \n\nfirst\nsecond\n\nEnd. "


def test_spans_say_where_words_were_written() -> None:
    text = "It cost $3.50 on 29 Nov. 🙂 Yes"
    spans = [(span.text, text[span.start : span.stop]) for span in align(text) if span.text.strip()]
    assert spans == [
        ("It", "It"),
        ("cost", "cost"),
        ("3 dollars and 50 cents", "$3.50"),
        ("on", "on"),
        ("the 29th of November.", "29 Nov."),
        ("Yes", "Yes"),
    ]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Das kostet **3,50 €** 🙂 am 3. Mai", "Das kostet 3,50 € am 3. Mai"),
        ("siehe https://www.beispiel.de/a?b", "siehe beispiel.de"),
        ("Dr.  Schmidt\n\n\nund", "Dr. Schmidt\n\nund"),
        ("[hier](https://a.de/b) und me@a.de", "hier und me@a.de"),
    ],
)
def test_in_other_languages_only_marks_and_addresses_change(written: str, read: str) -> None:
    assert normalize(written, "de-AT") == read


def test_a_region_makes_no_difference() -> None:
    assert normalize("5 km", "en-GB") == normalize("5 km", "en_US") == "5 kilometers"


def test_an_address_longer_than_a_token_is_left_out_whole() -> None:
    assert normalize(f"see https://a.com/{'b' * 700} now") == "see a dot com now"
