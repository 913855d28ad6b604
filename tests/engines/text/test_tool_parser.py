"""What a model writes becomes text and calls, wherever its pieces end."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.chunks import CallDelta
from antiphon.engines.deployment import DeploymentError, ToolDialect, parse_deployment
from antiphon.engines.text.tool_parser import HEAD_CHARS, ToolParser

HERMES = ToolDialect()
NAMES = frozenset({"get_weather", "get_time"})
OSLO = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
TIME = '<tool_call>{"name":"get_time","arguments":{}}</tool_call>'

Made = str | tuple[str, str]


def parse(pieces: Sequence[str], dialect: ToolDialect = HERMES) -> list[Made]:
    """Texts and whole calls, after checking the order of the pieces of each call."""
    parser = ToolParser(dialect, NAMES)
    out = [made for piece in pieces for made in parser.feed(piece)] + parser.flush()
    whole: list[Made] = []
    current: CallDelta | None = None
    calls = 0
    for made in out:
        if isinstance(made, str):
            assert made
            assert current is None, "no text within a call"
            if whole and isinstance(whole[-1], str):
                whole[-1] += made
            else:
                whole.append(made)
            continue
        if current is None:
            assert made.index == calls
            calls += 1
            current = CallDelta(made.index, made.name, "", False)
        assert (made.index, made.name) == (current.index, current.name)
        current = CallDelta(made.index, made.name, current.arguments + made.arguments, made.done)
        if made.done:
            whole.append((current.name, current.arguments))
            current = None
    assert current is None, "every call is done"
    return whole


WEATHER_CALL = ("get_weather", '{"city": "Oslo"}')
TIME_CALL = ("get_time", "{}")

CASES: list[tuple[str, list[Made]]] = [
    ("Hello there.", ["Hello there."]),
    (OSLO, [WEATHER_CALL]),
    (TIME, [TIME_CALL]),
    (f"Let me see.\n{OSLO}", ["Let me see.\n", WEATHER_CALL]),
    (f"\n {OSLO}\n{TIME}\n", [WEATHER_CALL, TIME_CALL]),
    (f"One.{OSLO} Two.{TIME} Three.", ["One.", WEATHER_CALL, " Two.", TIME_CALL, " Three."]),
    ("  \n", ["  \n"]),
    ("a < b <tool", ["a < b <tool"]),
    ("<<tool_call", ["<<tool_call"]),
    (
        '<tool_call>[{"name":"get_time","arguments":{}}, '
        '{"name":"get_weather","arguments":{"city": "Oslo"}}]</tool_call>',
        [TIME_CALL, WEATHER_CALL],
    ),
    # The order of the keys, and keys that nobody asked for.
    ('<tool_call>{"arguments": {"a": [1, {}]}, "name": "get_time"}</tool_call>',
     [("get_time", '{"a": [1, {}]}')]),
    ('<tool_call>{"id": 7, "x": {"name": "no"}, "name": "get_time", "arguments": null}</tool_call>',
     [("get_time", "null")]),
    ('<tool_call>{"name": "get_time"}</tool_call>', [TIME_CALL]),
    ('<tool_call>{"name": "get\\u005ftime", "arguments": {}}</tool_call>', [TIME_CALL]),
    # Marks, brackets and quotes within a string are its own.
    (
        '<tool_call>{"name": "get_time", "arguments": {"a": "}\\"</tool_call>"}}</tool_call>',
        [("get_time", '{"a": "}\\"</tool_call>"}')],
    ),
    ('<tool_call>{"name": "get_time", "arguments": "{\\"a\\": 1}"}</tool_call>',
     [("get_time", '"{\\"a\\": 1}"')]),
    # What is no call is text.
    ("<tool_call> or not", ["<tool_call> or not"]),
    ('<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
     ['<tool_call>{"name": "rm", "arguments": {}}</tool_call>']),
    ('<tool_call>{"name": 5, "arguments": {}}', ['<tool_call>{"name": 5, "arguments": {}}']),
    ('<tool_call>{"arguments": {}}', ['<tool_call>{"arguments": {}}']),
    (f"<tool_call>{OSLO}", ["<tool_call>", WEATHER_CALL]),
    (f'<tool_call>{{"oops {TIME}', ['<tool_call>{"oops ', TIME_CALL]),
    # Stopped in the middle.
    ("<tool_call>", ["<tool_call>"]),
    ('<tool_call>{"name": "get_t', ['<tool_call>{"name": "get_t']),
    ('<tool_call>{"name": "get_time"', [("get_time", "")]),
    ('<tool_call>{"name": "get_time", "arguments": {"a": "b', [("get_time", '{"a": "b')]),
    ('<tool_call>{"name": "get_time", "arguments": {}', [TIME_CALL]),
    ('<tool_call>{"name": "get_time", "arguments": {}}</tool_', [TIME_CALL]),
    # Not quite right.
    ('<tool_call>{"name": "get_time", "arguments": {}</tool_call> So.', [TIME_CALL, " So."]),
    ('<tool_call>{"name": "get_time", "arguments": {}}}]</tool_call>', [TIME_CALL]),
    ('<tool_call>{"name": "get_time", "arguments": {}}\nSo.', [TIME_CALL, "So."]),
    (f'<tool_call>{{"name": "get_time", "arguments": {{}}}}\n{OSLO}', [TIME_CALL, WEATHER_CALL]),
    ("<tool_call>{\"name\": \"get_time\", \"arguments\": {'a': 1}}</tool_call> So.",
     [("get_time", "{'a': 1}}"), " So."]),
    ('<tool_call>{"name": "get_time", "arguments": {"a": 1]}</tool_call>',
     [("get_time", '{"a": 1]}')]),
    ('<tool_call>{"name": "get_time", "arguments": {"a": 1</tool_call>',
     [("get_time", '{"a": 1')]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "made"), CASES)
def test_whole_and_character_by_character(text: str, made: list[Made]) -> None:
    assert parse([text]) == made
    assert parse(list(text)) == made


@given(st.data())
def test_where_pieces_end_makes_no_difference(data: st.DataObject) -> None:
    parts = st.sampled_from([text for text, _ in CASES] + ["<tool_call>", "{", '"', "\\", "}", " "])
    text = "".join(data.draw(st.lists(parts, max_size=5)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert parse(pieces) == parse([text])


@given(st.text(alphabet='<tol_ca>/{}[]":,\\ nmegi1', max_size=200))
def test_nothing_that_is_no_call_is_lost(text: str) -> None:
    assert parse(list(text)) == ([text] if text else [])


arguments = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@given(arguments, st.sampled_from([None, 1]), st.booleans())
def test_arguments_are_passed_on_exactly(
    value: dict[str, object], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    written = f'<tool_call>{{"name": "get_time", "arguments": {text}}}</tool_call>'
    assert parse([written]) == [("get_time", text)]


def test_a_name_is_told_at_once_and_arguments_as_they_come() -> None:
    parser = ToolParser(HERMES, NAMES)
    assert parser.feed('<tool_call>{"name": "get_weather"') == [
        CallDelta(0, "get_weather", "", False)
    ]
    assert parser.feed(', "arguments": ') == []
    assert parser.feed('{"city": "Os') == [CallDelta(0, "get_weather", '{"city": "Os', False)]
    assert parser.feed('lo"}') == [CallDelta(0, "get_weather", 'lo"}', True)]
    assert parser.feed("}</tool_call>") == []
    assert parser.flush() == []


def test_text_is_held_back_only_where_it_may_be_a_mark() -> None:
    parser = ToolParser(HERMES, NAMES)
    assert parser.feed("Let me see. <to") == ["Let me see. "]
    assert parser.feed("uch>") == ["<touch>"]


@pytest.mark.parametrize("text", ["So. <tool_call>", 'So. <tool_call>{"name": "get_'])
def test_the_beginning_of_a_call_that_is_cut_off_is_no_text(text: str) -> None:
    parser = ToolParser(HERMES, NAMES)
    assert parser.feed(text) == ["So. "]
    assert parser.flush(cut=True) == []


@pytest.mark.parametrize("rest", ["", "\n", "\n<tool", "\n<tool_call>\n{", " Done."])
def test_there_is_no_text_where_only_calls_are_wanted(rest: str) -> None:
    parser = ToolParser(HERMES, NAMES, only_calls=True)
    made = parser.feed(f"Well. {TIME}{rest}") + parser.flush(cut=True)
    assert made == [CallDelta(0, "get_time", "{}", True)]


def test_another_dialect() -> None:
    dialect = ToolDialect(start="[CALL]", end="[/CALL]", name_key="fn", arguments_key="parameters")
    text = 'Yes. [CALL]{"fn": "get_time", "parameters": {"name": "arguments"}}[/CALL]'
    assert parse(list(text), dialect) == ["Yes. ", ("get_time", '{"name": "arguments"}')]


@pytest.mark.parametrize("dialect", [{"start": "|", "end": "|"}, {"name_key": "arguments"}])
def test_a_dialect_that_could_not_be_read_is_refused(dialect: dict[str, str]) -> None:
    with pytest.raises(DeploymentError, match=r"stages\.ar\.tool_dialect: expected two marks"):
        parse_deployment({"stages": {"ar": {"use": "vllm", "tool_dialect": dialect}}})


def test_what_never_becomes_a_call_is_held_back_within_bounds() -> None:
    parser = ToolParser(HERMES, NAMES)
    written = '<tool_call>{"' + "x" * (HEAD_CHARS + 10)
    assert "".join(str(made) for made in parser.feed(written)) == written


def test_many_marks_that_come_to_nothing_do_no_harm() -> None:
    text = '<tool_call>{"' * 2000
    assert parse([text]) == [text]
