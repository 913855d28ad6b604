"""Where a value ends."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.text.json_values import Step, ValueScanner, nests_deeper

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(values, st.sampled_from([None, 2]), st.sampled_from(",} \n]"))
def test_the_end_is_found_where_it_is(value: object, indent: int | None, after: str) -> None:
    text = json.dumps(value, indent=indent)
    scanner = ValueScanner()
    steps = [scanner.feed(char) for char in text]
    assert steps[:-1] == [Step.GOES_ON] * (len(text) - 1)
    if text[-1] in '"}]':
        assert steps[-1] is Step.ENDS
    else:
        assert steps[-1] is Step.GOES_ON
        assert scanner.feed(after) is Step.ENDED_BEFORE


@pytest.mark.parametrize("text", ["[}", "{]", "<", "{'", "[1, <", "}"])
def test_what_cannot_be_json_is_told(text: str) -> None:
    scanner = ValueScanner()
    assert [scanner.feed(char) for char in text][-1] is Step.BREAKS


def test_depth() -> None:
    value: object = "x"
    for n in range(5):
        assert not nests_deeper(value, n)
        value = [{"a": 1}, value] if n % 2 else {"a": value}
        assert nests_deeper(value, n) == (n < 5)
    assert nests_deeper(value, 4)
    assert not nests_deeper(value, 5)
