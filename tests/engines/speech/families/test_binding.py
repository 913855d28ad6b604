"""Marks and codes are looked up; a vocabulary that has not what it must is refused with words."""

from __future__ import annotations

import pytest
from tests.support.vocabularies import FIRST, Letters, compact

from antiphon.engines.speech.families.binding import bind, numbered
from antiphon.engines.speech.families.family import FAMILIES, family
from antiphon.engines.speech.families.table import table
from antiphon.engines.speech.tokens.layout import TokenBlock
from antiphon.engines.stage import StageFailure

from . import made


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_refuses_a_vocabulary_of_another_model(name: str) -> None:
    with pytest.raises(ValueError, match="the vocabulary has no"):
        bind(family(name), compact(["<|im_end|>", "<s>"]))


def test_a_block_is_found_by_its_names() -> None:
    vocabulary = compact(["<|other|>"], made.numbers("<|s_{}|>", 9))
    assert numbered(vocabulary, "<|s_{}|>".format) == TokenBlock(FIRST + 1, 9)


def test_codes_that_do_not_follow_each_other_are_refused() -> None:
    scattered = Letters({"<|s_0|>": 300, "<|s_1|>": 301, "<|s_2|>": 303})
    with pytest.raises(ValueError, match=r"expected <\|s_2\|> to be token 302, .* it is 303"):
        numbered(scattered, "<|s_{}|>".format)


def test_sizes_of_codebooks_are_counted() -> None:
    # Of OuteTTS the last name of a codebook is no code, of Orpheus two tokens are left over.
    assert [b.size for b in bind(family("outetts"), made.outetts(16)).layout.blocks] == [16, 16]
    assert [b.size for b in bind(family("orpheus"), made.orpheus(32)).layout.blocks] == [32] * 7


def test_names_win_over_numbers() -> None:
    audio = [f"<|audio_{book}_{code}|>" for book in range(4) for code in range(8)]
    marks = [mark.name for mark in family("kani").marks.values()]
    vocabulary = compact(marks, audio)
    reader = bind(family("kani"), vocabulary)
    base = FIRST + len(marks)
    assert [block.base for block in reader.layout.blocks] == [base + 8 * n for n in range(4)]
    assert vocabulary.find("<|end_of_speech|>") in reader.stop


def test_a_number_that_is_no_id_of_the_model_is_no_mark() -> None:
    with pytest.raises(ValueError, match="start_of_speech"):
        bind(family("kani"), Letters({"<|startoftext|>": 1}, size=64_400))
    with pytest.raises(ValueError, match="expected 80538 tokens or more, got 80000"):
        bind(family("kani"), Letters({"<|startoftext|>": 1}, size=80_000))


def test_a_family_that_there_is_not() -> None:
    with pytest.raises(StageFailure, match="expected a family out of orpheus, neutts"):
        family("bark")


def test_the_table_has_a_row_a_family() -> None:
    lines = table(["orpheus", "outetts"]).splitlines()
    assert len(lines) == 4
    assert "| orpheus | snac | exact | 82 | 18 tokens, 219 ms | 8 by name |" in lines[2]
    assert "| of recordings, 3 to 15 s |" in lines[3]
