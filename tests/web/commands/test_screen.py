"""What is printed of a conversation, and of progress."""

from __future__ import annotations

import io

from antiphon.web.commands.screen import CUT, WIDEST, Screen
from antiphon.web.commands.status import Status


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_who_said_what() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.note("Connected.")
    screen.heard("What is it?")
    for word in ("It", "is", "blue."):
        screen.word(word)
    screen.end()
    screen.heard("")
    assert out.getvalue().splitlines() == [
        "Connected.",
        "you       What is it? ",
        "antiphon  It is blue. ",
        "you       (nothing) ",
    ]


def test_what_was_cut_off_is_marked() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.word("It")
    screen.cut("is blue.")
    screen.cut("Never begun.")
    screen.heard("Stop.")
    assert out.getvalue().splitlines() == [
        f"antiphon  It {CUT} is blue. ",
        f"antiphon  {CUT} Never begun. ",
        "you       Stop. ",
    ]


def test_a_note_does_not_run_into_a_reply() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.word("It")
    screen.note("The server: no.")
    assert out.getvalue() == "antiphon  It \nThe server: no.\n"


def test_long_lines_are_wrapped() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.heard("word " * 100)
    lines = out.getvalue().splitlines()
    assert len(lines) > 1
    assert all(len(line) <= WIDEST for line in lines)
    assert all(line.startswith(" " * 10) for line in lines[1:])


def test_colours_on_a_terminal_alone() -> None:
    out = Terminal()
    Screen(out).heard("Hello.")
    assert "\x1b[36mHello.\x1b[0m" in out.getvalue()


def test_progress_is_drawn_on_a_terminal_and_wiped_away() -> None:
    out = Terminal()
    status = Status(out)
    status.show("half")
    status.show("a moment later")
    status.clear()
    status.clear()
    assert out.getvalue() == "\r\x1b[Khalf\r\x1b[K"


def test_where_nobody_watches_only_what_stays_is_printed() -> None:
    out = io.StringIO()
    status = Status(out)
    status.show("half")
    status.step("loading")
    status.clear()
    status.last("done")
    status.line("something is wrong")
    assert out.getvalue() == "something is wrong\n"
