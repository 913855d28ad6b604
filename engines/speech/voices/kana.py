"""Katakana to phonemes, as Kokoro's Japanese voices were trained to read them."""

from __future__ import annotations

from collections.abc import Iterable

_COLUMNS = (
    # Five kana each, and what they sound like; a row as the syllabary has it.
    ("アイウエオ", "a i ɯ e o"),
    ("ァィゥェォ", "a i ɯ e o"),
    ("カキクケコ", "ka kʲi kɯ ke ko"),
    ("ガギグゲゴ", "ɡa ɡʲi ɡɯ ɡe ɡo"),
    ("サシスセソ", "sa ɕi sɨ se so"),
    ("ザジズゼゾ", "ʣa ʥi zɨ ʣe ʣo"),
    ("タチツテト", "ta ʨi ʦɨ te to"),
    ("ダヂヅデド", "da ʥi zɨ de do"),
    ("ナニヌネノ", "na ɲi nɯ ne no"),
    ("ハヒフヘホ", "ha çi ɸɯ he ho"),
    ("バビブベボ", "ba bʲi bɯ be bo"),
    ("パピプペポ", "pa pʲi pɯ pe po"),
    ("マミムメモ", "ma mʲi mɯ me mo"),
    ("ラリルレロ", "ɾa ɾʲi ɾɯ ɾe ɾo"),
    ("ヤユヨ", "ja jɯ jo"),
    ("ャュョ", "ja jɯ jo"),
    ("ワヰヱヲ", "βa i e o"),
    ("ヷヸヹヺ", "va vʲi ve vo"),
    ("ヮヴヵヶ", "βa vɯ ka ke"),
)

_PALATAL = {
    # What is ahead of a small kana of the row "ャュェョ".
    "キ": "kʲ",
    "ギ": "ɡʲ",
    "シ": "ɕ",
    "ジ": "ʥ",
    "チ": "ʨ",
    "ヂ": "ʥ",
    "ニ": "ɲ",
    "ヒ": "ç",
    "ビ": "bʲ",
    "ピ": "pʲ",
    "ミ": "mʲ",
    "リ": "ɾʲ",
}

_FOREIGN = {
    "イェ": "je",
    "ウィ": "βi",
    "ウェ": "βe",
    "ウォ": "βo",
    "クァ": "kᵝa",
    "クィ": "kᵝi",
    "クェ": "kᵝe",
    "クォ": "kᵝo",
    "グァ": "ɡᵝa",
    "グィ": "ɡᵝi",
    "グェ": "ɡᵝe",
    "グォ": "ɡᵝo",
    "ツァ": "ʦa",
    "ツィ": "ʦʲi",
    "ツェ": "ʦe",
    "ツォ": "ʦo",
    "ティ": "tʲi",
    "テュ": "tʲɨ",
    "ディ": "dʲi",
    "デュ": "dʲɨ",
    "トゥ": "tɯ",
    "ドゥ": "dɯ",
    "ファ": "ɸa",
    "フィ": "ɸʲi",
    "フェ": "ɸe",
    "フォ": "ɸo",
    "フュ": "ɸʲɨ",
    "フョ": "ɸʲo",
    "ヴァ": "va",
    "ヴィ": "vʲi",
    "ヴェ": "ve",
    "ヴォ": "vo",
    "ヴュ": "bʲɨ",
    "ヴョ": "bʲo",
}

_ONE = {
    kana: sound for row, sounds in _COLUMNS for kana, sound in zip(row, sounds.split(), strict=True)
}
_TWO = _FOREIGN | {
    kana + small: consonant + vowel
    for kana, consonant in _PALATAL.items()
    for small, vowel in zip("ャュェョ", "aɨeo", strict=True)
}

_SMALL = frozenset("ァィゥェォャュョ")
"""They change the kana that they follow."""

_NASAL = {
    # By what comes next; "ɴ" ahead of everything else.
    **dict.fromkeys("mpb", "m"),
    **dict.fromkeys("kɡ", "ŋ"),
    **dict.fromkeys("ɲʨʥ", "ɲ"),
    **dict.fromkeys("ntdɾz", "n"),
}

LONG, STOP = "ː", "ʔ"
"""What a long vowel goes on with, and what a doubled consonant begins with."""


def sounds(kana: str) -> Iterable[tuple[int, str]]:
    """Yield where in ``kana``, one word in katakana, a sound begins, and its phonemes.

    What is no kana has no sound.
    """
    at = 0
    while at < len(kana):
        here, behind = kana[at], kana[at + 1 : at + 2]
        step = 1
        if here == "ン":
            sound = _NASAL.get(_ONE.get(behind, " ")[0], "ɴ")
        elif here == "ッ":
            sound = "" if behind in _SMALL else STOP
        elif here == "ー":
            sound = LONG
        elif behind and behind in _SMALL and here in _ONE:
            sound, step = _TWO.get(here + behind) or _ONE[here][:-1] + _ONE[behind], 2
        else:
            sound = "" if at and here in _SMALL else _ONE.get(here, "")
        if sound:
            yield at, sound
        at += step
