"""Tokens that the models of each family say, written by hand, and the codes in them."""

from __future__ import annotations

import numpy as np

from antiphon.engines.chunks import Word
from antiphon.engines.speech.families.binding import bind
from antiphon.engines.speech.families.family import family
from antiphon.engines.speech.tokens.splitter import Splitter

from . import made


def test_orpheus_says_the_levels_of_snac_in_the_order_of_time() -> None:
    layout = bind(family("orpheus"), made.real_orpheus()).layout
    # By place: 128266 + 4096 * place + code.
    first = [128266 + 5, 132362 + 6, 136458 + 7, 140554 + 8, 144650 + 9, 148746 + 10, 152842 + 11]
    second = [128266, 132362, 136458, 140554 + 4095, 144650, 148746, 152842 + 4095]
    assert made.split(layout, first + second).tolist() == [
        [5, 5, 5, 5, 0, 0, 0, 0],
        [6, 6, 9, 9, 0, 0, 0, 0],
        [7, 8, 10, 11, 0, 4095, 0, 4095],
    ]
    # The first half of a frame is known by its fourth token.
    assert made.split(layout, first[:4]).tolist() == [[5, 5], [6, 6], [7, 8]]


def test_neutts_and_llasa_say_a_code_a_token() -> None:
    for name, text in (("neutts", "<|speech_{}|>"), ("llasa", "<|s_{}|>")):
        vocabulary = made.all_of([name])[name]
        layout = bind(family(name), vocabulary).layout
        tokens = [vocabulary.find(text.format(code)) or 0 for code in (0, 63, 1)]
        assert made.split(layout, tokens).tolist() == [[0, 63, 1]]


def test_kani_opens_its_answer_by_two_marks() -> None:
    layout = bind(family("kani"), made.kani()).layout
    opening = [64405, 64401]
    frames = [64410 + 9, 68442, 72474 + 4031, 76506 + 1, 64410, 68442 + 2, 72474, 76506 + 4031]
    assert made.split(layout, opening + frames).tolist() == [[9, 0], [0, 2], [4031, 0], [1, 4031]]


def test_soprano_says_nothing_but_speech() -> None:
    layout = bind(family("soprano"), made.soprano()).layout
    assert made.split(layout, [0, 2002, 97]).tolist() == [[0, 2002, 97]]


def test_outetts_tells_when_its_words_are_said() -> None:
    vocabulary = made.outetts()
    reader = bind(family("outetts"), vocabulary)
    splitter, markup = Splitter(reader.layout), reader.markup()
    assert markup is not None
    measures = "<|energy_9|><|spectral_centroid_20|><|pitch_30|><|code|>"
    # With a voice, the prompt has opened the first line. The last code of a codebook is none.
    said = (
        f"Hel lo<|features|><|t_0.03|>{measures}<|c1_1|><|c2_63|><|c1_0|><|c2_0|><|word_end|>\n"
        f"<|word_start|>you<|features|><|t_0.50|>{measures}<|c1_64|><|c1_5|><|c2_6|><|word_end|>\n"
        f"<|word_start|><|features|><|t_0.50|>{measures}<|word_end|>\n<|audio_end|>"
    )
    codes: list[list[int]] = [[], []]
    words: list[Word] = []
    for token in vocabulary.encode(said):
        for stretch in splitter.feed([token]):
            words += markup.feed(stretch.markup, stretch.step)
            for row, more in zip(codes, stretch.codes, strict=True):
                row += more.tolist()
    assert codes == [[1, 0, 5], [63, 0, 6]]
    assert [word.text for word in words] == ["Hel lo", "you"]
    times = [(word.start_ms, word.end_ms) for word in words]
    np.testing.assert_allclose(times, [(0, 30), (2000 / 75, 2000 / 75 + 500)])


def test_a_word_without_an_end_is_not_kept() -> None:
    vocabulary = made.outetts()
    markup = bind(family("outetts"), vocabulary).markup()
    assert markup is not None
    lost = vocabulary.encode("<|word_start|>" + 5000 * "a" + "<|features|><|t_0.10|>")
    assert markup.feed(lost, 0) == []
    again = vocabulary.encode("<|word_start|>b<|features|><|t_0.10|>")
    assert markup.feed(again, 3) == [Word("b", 40.0, 140.0)]
