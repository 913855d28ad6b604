import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.engines.speech.voices.japanese import MARKS, Pronouncer, Spoken
from antiphon.engines.stage import StageFailure

PRONOUNCER = Pronouncer(frozenset(["持って", "持っていく"]))


def read(text: str) -> Spoken:
    spoken = PRONOUNCER.read(text)
    assert spoken is not None
    return spoken


def spelt(text: str) -> str:
    return "".join(symbol.char for symbol in read(text).symbols)


@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        ("私は学校へ行きます。", "βataɕi βa ɡaʔkoː e ikʲi masɨ."),
        ("はい、そうです！", "hai, soː desɨ!"),
        ("彼女は「おはよう」と言った。", "kanoʥo βa “ohajoː” to iʔta."),
        ("第3回", "dai saɴ kai"),
        ("20日", "haʦɨka"),
        ("10時30分", "ʥɨː ʥi saɴ ʥɨʔpɯɴ"),
        ("1,980円", "seɴ kʲɨː çakɯ haʨi ʥɨː eɴ"),
        ("3.14", "saɴ teɴ iʨi joɴ"),
        ("60％", "ɾokɯ ʥɨʔpaːsento"),
        ("CPU", "ɕiːpʲiːjɯː"),
        ("iPhone", "aiɸoɴ"),
        # Open JTalk does not know it, so it is spelt.
        ("Thank", "tʲiːeiʨieːenɯkeː"),
        ("ｶﾀｶﾅ", "katakana"),
        ("**重要**😀", "ʥɨːjoː"),
        ("[地図](https://example.com/a?b=1)を見て", "ʨizɨ o mʲi te"),
        ("https://example.com/を見て", "o mʲi te"),
    ],
)
def test_a_text_is_read(text: str, phonemes: str) -> None:
    assert spelt(text) == phonemes


def test_words_of_the_list_stand_together_the_longest_first() -> None:
    assert spelt("本を持って") == "hoɴ o moʔte"
    assert spelt("本を持っていく") == "hoɴ o moʔteikɯ"
    plain = Pronouncer().read("本を待っていく")
    assert plain
    assert "".join(symbol.char for symbol in plain.symbols) == "hoɴ o maʔte ikɯ"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("今日はとても良い天気ですね。", ["今日は", "とても", "良い", "天気ですね。"]),
        ("彼は「はい」と言った。", ["彼は", "「はい」", "と", "言った。"]),
        ("2026年11月30日、晴れ", ["2026年", "11月", "30日、", "晴れ"]),
        ("電話は03-1234-5678です", ["電話は", "03-1234-5678です"]),
        ("これは Thank you です。", ["これは", "Thank", "you", "です。"]),
        ("😀 はい　いいえ\nどうぞ 。", ["😀", "はい", "いいえ", "どうぞ", "。"]),
    ],
)
def test_words_are_phrases_as_written(text: str, words: list[str]) -> None:
    assert list(read(text).words) == words


def test_each_phoneme_knows_its_word() -> None:
    spoken = read("猫が、鳴く。")
    said = ["".join(s.char for s in spoken.symbols if s.word == word) for word in range(2)]
    assert spoken.words == ("猫が、", "鳴く。")
    assert said == ["nekoɡa,", "nakɯ."]
    assert {s.word for s in spoken.symbols if s.char == " "} == {-1}


@pytest.mark.parametrize(
    "text", ["", " \n", "。。。", "😀", "**", "https://example.com/", "привет"]
)
def test_nothing_to_pronounce_is_none(text: str) -> None:
    assert PRONOUNCER.read(text) is None


def test_a_kanji_of_another_language_is_left_out() -> None:
    spoken = read("「你好」と言う")
    assert "".join(spoken.words) == "「你好」と言う"
    assert "to" in "".join(s.char for s in spoken.symbols)


PIECES = [
    "今日は",
    "、",
    "。",
    "「",
    "」",
    "20",
    "1,5",
    "-",
    "円",
    " ",
    "\n",
    "　",
    "Thank",
    "iPhone",
]
ODD = [
    "(",
    "）",
    "ー",
    "っ",
    "々",
    "ゝ",
    "你",
    "😀",
    "(^^)",
    "*",
    "がっこう",
    "ｶﾞ",
    "㈱",
    "Ⅲ",
    "é",
    "\u3099",
]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES + ODD), max_size=12).map("".join) | st.text(max_size=20))
def test_whatever_is_read_its_words_are_the_text(text: str) -> None:
    spoken = PRONOUNCER.read(text)
    if spoken is None:
        return
    assert "".join(spoken.words) == "".join(text.split())
    assert all(word and not any(map(str.isspace, word)) for word in spoken.words)
    sounding = [symbol.word for symbol in spoken.symbols if symbol.is_sound]
    assert sounding == sorted(sounding)
    assert 0 <= sounding[0] <= sounding[-1] < len(spoken.words)


def test_marks_are_no_sounds() -> None:
    silent = {
        symbol.char for symbol in read("あ。い、う「え」お！？").symbols if not symbol.is_sound
    }
    assert silent == {".", ",", " ", "“", "”", "!", "?"}
    assert silent - {" "} <= set(MARKS.values())


def test_without_open_jtalk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopenjtalk", None)
    with pytest.raises(StageFailure, match=r"antiphon\[japanese\]") as failed:
        Pronouncer()
    assert failed.value.error.code == "package_missing"
