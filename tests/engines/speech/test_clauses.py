from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.engines.speech.clauses import (
    HARD_LIMIT,
    ClauseSplitter,
    Pause,
    is_speakable,
    pause_after,
)

PIECES = st.sampled_from(
    "a I the sky Mr. U.S. e.g. 3.5 10:30 1. 42 etc. no. because, and; of well... hm… What? Yes! "
    "“so” *bold* `x` # 🙂 — - 你好。 今天，很好！ (really) www.a.com supercalifragilistic".split()
    + ["\n", "\n\n", " ", "  ", "x" * 70]
)
TEXTS = st.one_of(
    st.lists(PIECES, max_size=60).map(" ".join),
    st.text(alphabet="ab .,!?\n*🙂。一", max_size=600),
    st.text(max_size=80),
)


def clauses(text: str) -> list[str]:
    splitter = ClauseSplitter()
    return [c.text for c in splitter.feed(text) + splitter.flush()]


def shown(text: str) -> list[str]:
    return [clause.strip() for clause in clauses(text)]


@settings(deadline=None)
@given(TEXTS, st.data())
def test_where_the_pieces_end_makes_no_difference(text: str, data: st.DataObject) -> None:
    marks = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    bounds = [0, *sorted(marks), len(text)]
    splitter = ClauseSplitter()
    got = [c.text for a, b in pairwise(bounds) for c in splitter.feed(text[a:b])]
    assert got + [c.text for c in splitter.flush()] == clauses(text)


@settings(deadline=None)
@given(TEXTS)
def test_clauses_concatenate_to_the_text_and_each_can_be_spoken(text: str) -> None:
    got = clauses(text)
    if all(len(run) < HARD_LIMIT for run in _mute_runs(text)):
        said = "".join(got)
        assert text.startswith(said)
        assert not is_speakable(text[len(said) :])
    assert all(is_speakable(clause) for clause in got)
    assert all(len(clause) <= HARD_LIMIT for clause in got)


def _mute_runs(text: str) -> list[str]:
    return [str(run) for run in "".join(" " if is_speakable(c) else "." for c in text).split()]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Certainly. The sky is blue.", "Certainly."),
        ("Well, that is a good question.", "Well, that is a good question."),
        ("Of course, I can do that.", "Of course,"),
        ("The sky is blue because air scatters light.", "The sky is blue"),
        ("The capital city of France is Paris now.", "The capital city of France"),
        ("I would be happy to help you with it.", "I would be happy"),
        ("Tall green trees grow slowly near rivers.", "Tall green trees grow slowly near"),
        ("Yes! It does.", "Yes!"),
        ("It is **done**. Next one.", "It is **done**."),
        ("你好，我是你的助手。你好。", "你好，我是你的助手。"),
    ],
)
def test_the_first_clause_is_short_and_ends_well(text: str, first: str) -> None:
    assert shown(text)[0] == first


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("こんにちは。今日はいい天気ですね。", ["こんにちは。", "今日はいい天気ですね。"]),
        ("そうですね、私もそう思います。", ["そうですね、", "私もそう思います。"]),
        # Without a mark the first ends with a phrase, and not with one that needs the next.
        (
            "空が青いのは太陽の光が空気の中で散らばるからです。",
            ["空が青いのは太陽の光が空気の中で", "散らばるからです。"],
        ),
        (
            "今、空が青いのは太陽の光が空気の中で散らばるからです。",
            ["今、空が青いのは太陽の光が", "空気の中で散らばるからです。"],
        ),
        ("「はい」と彼は言った。OpenAIのAPIだ。", ["「はい」と彼は言った。", "OpenAIのAPIだ。"]),
    ],
)
def test_japanese_is_cut_between_phrases(text: str, want: list[str]) -> None:
    assert shown(text) == want


def test_clauses_of_scripts_without_spaces_take_no_longer_to_say() -> None:
    text = "短い。" + "光" * 400 + "。" + "夕方になると光は長い道を通るので" * 20
    first, *others = clauses(text)
    assert first == "短い。"
    assert "".join(others) == text.removeprefix(first)
    assert max(map(len, others)) == HARD_LIMIT // 2


@pytest.mark.parametrize(
    "kept",
    [
        "Mr. Smith",
        "Dr. Jones",
        "J. R. Tolkien",
        "the U.S. Army",
        "e.g. this",
        "i.e. that",
        "No. 5",
        "3.5 metres",
        "at 10:30 today",
        "on www.a.com today",
        "nuts etc. and bolts",
        "9 a.m. or later",
        "a version 1.2.3 now",
        "St. Mary",
        "the (so-called) end",
    ],
)
def test_a_sentence_is_not_cut_at_what_only_looks_like_its_end(kept: str) -> None:
    # The short first clause is out of the way; what follows is cut at sentence ends only.
    text = f"Yes. Here {kept} it ends."
    assert shown(text) == ["Yes.", f"Here {kept} it ends."]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("No. The other one is it.", ["No.", "The other one is it."]),
        ("Come at 9 a.m. The shop opens.", ["Come at 9 a.m.", "The shop opens."]),
        ("Nuts and bolts etc. They are here.", ["Nuts and bolts etc.", "They are here."]),
        ("So do I. You do it too.", ["So do I.", "You do it too."]),
        ("It was in 1999. They left.", ["It was in 1999.", "They left."]),
        ("He said “go.” They left us.", ["He said “go.”", "They left us."]),
        ("Hello there... I think so.", ["Hello there...", "I think so."]),
    ],
)
def test_a_sentence_ends_where_another_begins(text: str, want: list[str]) -> None:
    assert shown(text) == want


def test_a_list_is_cut_at_its_lines_and_not_at_its_numbers() -> None:
    text = "Here it is:\n\n1. Take the big pan out\n2. Heat it well\n\nDone."
    assert shown(text) == ["Here it is:", "1. Take the big pan out\n2. Heat it well", "Done."]


def test_a_later_clause_ends_at_a_comma_only_when_it_is_long() -> None:
    text = "Yes. In short, the light of the evening takes a longer way, and so it turns red."
    assert shown(text) == [
        "Yes.",
        "In short, the light of the evening takes a longer way,",
        "and so it turns red.",
    ]


def test_short_sentences_after_the_first_are_spoken_together() -> None:
    assert shown("I see. Yes. No. Maybe it is.") == ["I see.", "Yes. No. Maybe it is."]


def test_without_punctuation_a_clause_grows_with_the_one_before() -> None:
    got = shown("word " * 200)
    lengths = [len(clause) for clause in got[:-1]]
    assert lengths[0] == len("word " * 6) - 1
    assert lengths == sorted(lengths)
    assert max(lengths) > 150


@pytest.mark.parametrize("word", ["word", "extraordinarily", "x" * 90])
def test_words_are_not_cut_in_two(word: str) -> None:
    got = shown(f"{word} " * 60)
    assert {each for clause in got for each in clause.split()} == {word}


def test_a_clause_is_out_as_soon_as_its_last_word_is_known() -> None:
    splitter = ClauseSplitter()
    assert splitter.feed("Of course,") == []
    assert [c.text for c in splitter.feed(" ")] == ["Of course, "]


def test_text_without_letters_joins_its_neighbour_or_is_left_out() -> None:
    assert clauses("Hello! 🙂 It is me.") == ["Hello! ", "🙂 It is me."]
    assert clauses("Hello! 🙂") == ["Hello! "]
    assert clauses("... 🙂 --- ") == []


@pytest.mark.parametrize("junk", ["-", " ", "🙂 ", "\n"])
def test_endless_text_without_letters_is_not_kept(junk: str) -> None:
    splitter = ClauseSplitter()
    assert splitter.feed(junk * 1000) == []
    assert len("".join(c.text for c in splitter.feed("Hello there. "))) < 2 * HARD_LIMIT


def test_a_flushed_splitter_starts_anew() -> None:
    splitter = ClauseSplitter()
    first = splitter.feed("Of course, yes") + splitter.flush()
    assert splitter.feed("Of course, yes") + splitter.flush() == first


@pytest.mark.parametrize("text", ["Of course. ", "Of course"])
def test_what_goes_on_after_a_flush_is_not_cut_early(text: str) -> None:
    later = "The light of the evening takes a longer way today."
    splitter = ClauseSplitter()
    splitter.feed(text)
    splitter.flush(goes_on=True)
    assert [c.text for c in splitter.feed(later) + splitter.flush()] == [later]
    splitter.flush(goes_on=True)
    assert len(splitter.feed(later) + splitter.flush()) == 2, "nothing was said before"


def test_first_words_moves_the_early_cut() -> None:
    text = "Tall green trees grow slowly near quiet rivers today"
    splitter = ClauseSplitter(first_words=3)
    assert splitter.feed(text)[0].text.split() == ["Tall", "green", "trees", "grow"]


@pytest.mark.parametrize(
    ("word", "pause"),
    [
        ("sky", Pause.NONE),
        ("sky.", Pause.SENTENCE),
        ('sky?"', Pause.SENTENCE),
        ("**sky!**", Pause.SENTENCE),
        ("sky,", Pause.COMMA),
        ("sky…", Pause.COMMA),
        ("Mr.", Pause.NONE),
        ("(e.g.", Pause.NONE),
        ("etc.", Pause.UNSURE),
        (".", Pause.NONE),
        ("", Pause.NONE),
        ("**", Pause.NONE),
        ("言った。」", Pause.SENTENCE),
    ],
)
def test_pause_after(word: str, pause: Pause) -> None:
    assert pause_after(word) is pause
