import pytest

from antiphon.engines.speech.voices.kana import sounds


def spelt(kana: str) -> str:
    return "".join(sound for _, sound in sounds(kana))


@pytest.mark.parametrize(
    ("kana", "phonemes"),
    [
        ("アイウエオ", "aiɯeo"),
        ("サシスセソ", "saɕisɨseso"),
        ("ツヅヂズ", "ʦɨzɨʥizɨ"),
        ("キョー", "kʲoː"),
        ("シュッパツ", "ɕɨʔpaʦɨ"),
        ("ヒャク", "çakɯ"),
        ("ファイティング", "ɸaitʲiŋɡɯ"),
        ("ヴァイオリン", "vaioɾʲiɴ"),
        ("フュージョン", "ɸʲɨːʥoɴ"),
        # One that has no sound of its own takes the consonant of the kana ahead.
        ("スィ", "si"),
        ("ワヲン", "βaoɴ"),
    ],
)
def test_kana_are_read(kana: str, phonemes: str) -> None:
    assert spelt(kana) == phonemes


@pytest.mark.parametrize(
    ("kana", "nasal"),
    [
        ("サンポ", "m"),
        ("サンカ", "ŋ"),
        ("サンチ", "ɲ"),
        ("サンド", "n"),
        ("サンシ", "ɴ"),
        ("サン", "ɴ"),
    ],
)
def test_a_nasal_is_made_where_the_next_sound_is(kana: str, nasal: str) -> None:
    assert spelt(kana)[2] == nasal


def test_places_are_told_and_what_is_no_kana_has_no_sound() -> None:
    assert list(sounds("キャ、ッt")) == [(0, "kʲa"), (3, "ʔ")]


@pytest.mark.parametrize("kana", ["ッャ", "ャ", "ン", "ー", "", "アャャ", "ッ"])
def test_anything_is_read_without_an_error(kana: str) -> None:
    assert all(0 <= at < len(kana) and sound for at, sound in sounds(kana))
