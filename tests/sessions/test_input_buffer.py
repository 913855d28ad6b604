"""Appended audio by its position."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.sessions.conversation import BYTES_PER_MS
from antiphon.sessions.input_buffer import ARRIVALS, InputBuffer


def ms(count: float, value: int = 1) -> bytes:
    return bytes([value, 0]) * int(count * BYTES_PER_MS / 2)


def test_positions_go_on_behind_what_is_forgotten() -> None:
    buffer = InputBuffer()
    buffer.append(ms(100, 1), 1.0)
    buffer.clear()
    buffer.append(ms(50, 2), 2.0)
    assert (buffer.start_ms, buffer.end_ms, buffer.length_ms) == (100, 150, 50.0)
    assert buffer.read(0, 120) == ms(20, 2)
    assert buffer.read(140, 999) == ms(10, 2)
    assert buffer.read(160, 170) == b""


def test_a_part_of_a_millisecond_is_kept() -> None:
    buffer = InputBuffer()
    buffer.append(ms(10.5), 1.0)
    buffer.append(ms(10.25), 1.0)
    assert buffer.end_ms == 20
    assert buffer.length_ms == 20.75
    assert len(buffer.read_all()) == 20.75 * BYTES_PER_MS


def test_the_arrival_of_a_position_is_that_of_the_append_that_reached_it() -> None:
    buffer = InputBuffer()
    buffer.append(ms(20), 1.0)
    buffer.append(ms(20), 2.0)
    assert [buffer.arrival(at) for at in (0, 20, 21, 40, 41)] == [1.0, 1.0, 2.0, 2.0, None]


def test_arrivals_are_bounded() -> None:
    buffer = InputBuffer()
    for number in range(ARRIVALS + 10):
        buffer.append(ms(1), float(number))
    assert buffer.arrival(ARRIVALS + 10) == ARRIVALS + 9


@settings(deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=400), st.integers(-5, 60), st.none()), max_size=30))
def test_it_is_the_end_of_all_that_was_appended(steps: list[bytes | int | None]) -> None:
    buffer, everything, start = InputBuffer(), b"", 0
    for step in steps:
        if isinstance(step, bytes):
            buffer.append(step, 1.0)
            everything += step
        elif step is None:
            buffer.clear()
            start = len(everything)
        else:
            buffer.drop_before(step)
            start = max(start, min(len(everything), step * BYTES_PER_MS))
        assert buffer.read_all() == everything[start:]
        assert buffer.start_ms == start // BYTES_PER_MS
        assert buffer.end_ms == len(everything) // BYTES_PER_MS
        middle = buffer.end_ms // 2
        kept = everything[max(start, middle * BYTES_PER_MS) :]
        assert buffer.read(middle, buffer.end_ms + 1) == kept
