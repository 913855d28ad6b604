"""What a model writes, as it is written, taken apart into text and calls of functions: pure.

A call begins with the dialect's mark and holds a JSON object with a name and arguments.
It counts as one once a name on offer has been read; what turns out to be none is text
like any other. From then on nothing of it becomes text, and its arguments are passed on
as they are written, character by character as they stand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Set
from typing import TypeAlias

import msgspec

from ..chunks import CallDelta
from ..deployment import ToolDialect
from .json_values import Step, ValueScanner

HEAD_CHARS = 16_384
"""Characters after a mark within which a name has to come, or the mark was only text."""

_SPACE = frozenset(" \t\r\n")
_State: TypeAlias = Callable[[str], None]


class ToolParser:
    """Takes pieces of any size; where they end makes no difference to what is told.

    White space ahead of all text and around calls is dropped where calls are made.
    """

    def __init__(self, dialect: ToolDialect, names: Set[str], *, only_calls: bool = False) -> None:
        """``names``: the functions on offer; ``only_calls``: what is not one is dropped."""
        self._only_calls = only_calls
        self._dialect = dialect
        self._names = names
        self._state: _State = self._in_text
        self._out: list[str | CallDelta] = []
        self._unread: deque[str] = deque()
        self._text = ""
        """Certain, but not told yet."""

        self._blank = ""
        """White space that is text only if text follows it."""

        self._wrote = False
        """Whether text has been written since the beginning or the last call."""

        self._held = ""
        """What may be the beginning of a mark."""

        self._head = ""
        """Read since a mark while no name is known: text again if no call comes of it."""

        self._listed = False

        self._calls = 0
        self._piece = ""
        self._told = False
        """Whether the call that is open has been told of."""

        self._new_object()

    def feed(self, text: str) -> list[str | CallDelta]:
        """Take a piece; return texts and pieces of calls, in order."""
        self._unread.extend(text)
        while self._unread:
            self._state(self._unread.popleft())
            if len(self._head) > HEAD_CHARS:
                self._break()
        return self._take()

    def flush(self, *, cut: bool = False) -> list[str | CallDelta]:
        """Return what is left when the model has stopped; a call that is open is done.

        ``cut``: it was stopped. The beginning of a call without a name is no text then.
        """
        if self._state == self._in_text:
            self._write(self._held)
        elif self._state == self._after:
            self._write("" if self._dialect.end.startswith(self._held) else self._held)
        elif self._name is None:
            self._write("" if cut else self._dialect.start + self._head)
        elif not self._done:
            self._piece += self._held
            self._finish()
        self._held = ""
        if not self._calls and self._blank:
            self._text, self._blank = self._text + self._blank, ""
        self._state = self._in_text
        return self._take()

    def _take(self) -> list[str | CallDelta]:
        self._tell_text()
        if self._name is not None and not self._done:
            self._tell_call(done=False)
        out, self._out = self._out, []
        return out

    # What has been read.

    def _write(self, text: str) -> None:
        """Pass text on, white space first only when something follows it."""
        for char in text:
            if not self._wrote and char in _SPACE:
                self._blank += char
                continue
            self._text += self._blank + char
            self._blank, self._wrote = "", True

    def _tell_text(self) -> None:
        if self._text and not self._only_calls:
            self._out.append(self._text)
        self._text = ""

    def _tell_call(self, *, done: bool) -> None:
        if self._name is not None and (self._piece or done or not self._told):
            self._out.append(CallDelta(self._calls - 1, self._name, self._piece, done))
            self._piece, self._told = "", True

    def _new_object(self) -> None:
        self._name: str | None = None
        self._early: str | None = None
        """Arguments that came ahead of the name."""

        self._done = False
        self._key = ""
        self._value = ValueScanner()
        self._token = ""

    def _named(self, name: str) -> None:
        self._tell_text()
        self._blank = ""
        self._wrote = False
        self._calls += 1
        self._name, self._told, self._head = name, False, ""
        if self._early is not None:
            self._piece = self._early
            self._finish()

    def _finish(self) -> None:
        self._tell_call(done=True)
        self._done = True

    # One method a place in the text; each takes the next character.

    def _in_text(self, char: str) -> None:
        start = self._dialect.start
        self._held += char
        while not start.startswith(self._held):
            self._write(self._held[0])
            self._held = self._held[1:]
        if self._held == start:
            self._begin()

    def _begin(self) -> None:
        self._held = ""
        self._head = ""
        self._listed = False
        self._new_object()
        self._state = self._before_object

    def _before_object(self, char: str) -> None:
        self._head += char
        if char == "[" and not self._listed:
            self._listed = True
        elif char == "{":
            self._state = self._before_key
        elif char not in _SPACE:
            self._break()

    def _before_key(self, char: str) -> None:
        self._note(char)
        if char == '"':
            self._value, self._token = ValueScanner(), char
            self._value.feed(char)
            self._state = self._in_key
        elif char == "}":
            self._end_object()
        elif char not in _SPACE and char != ",":
            self._break(char)

    def _in_key(self, char: str) -> None:
        self._note(char)
        self._token += char
        if self._value.feed(char) is Step.ENDS:
            self._key = _decoded(self._token) or ""
            self._state = self._before_colon

    def _before_colon(self, char: str) -> None:
        self._note(char)
        if char == ":":
            self._state = self._before_value
        elif char not in _SPACE:
            self._break(char)

    def _before_value(self, char: str) -> None:
        if char in _SPACE:
            self._note(char)
            return
        self._value, self._token = ValueScanner(), ""
        self._state = self._in_value
        self._in_value(char)

    def _in_value(self, char: str) -> None:
        step = self._value.feed(char)
        if step is Step.ENDED_BEFORE:
            self._unread.appendleft(char)
            self._end_value()
            return
        self._note(char)
        if step is Step.BREAKS:
            self._break(char)
            return
        if self._streams:
            self._piece += char
        else:
            self._token += char
        if step is Step.ENDS:
            self._end_value()

    @property
    def _streams(self) -> bool:
        """Whether the value that is being read is the arguments of a call that is open."""
        known = self._name is not None and not self._done
        return known and self._key == self._dialect.arguments_key

    def _end_value(self) -> None:
        self._state = self._before_key
        if self._streams:
            self._finish()
        elif self._key == self._dialect.arguments_key and self._early is None:
            self._early = self._token
        elif self._key == self._dialect.name_key and self._name is None:
            name = _decoded(self._token)
            if name is not None and name in self._names:
                self._named(name)
            else:
                self._break()

    def _end_object(self) -> None:
        if self._name is None:
            self._break()
            return
        if not self._done:
            # A function without arguments, which some models leave out.
            self._piece = self._piece or "{}"
            self._finish()
        self._state = self._after

    def _after(self, char: str) -> None:
        """Between the end of a call's object and its mark, or what comes in its place."""
        end, start = self._dialect.end, self._dialect.start
        self._held += char
        if self._held == end:
            self._held = ""
            self._state = self._in_text
        elif self._held == start:
            self._begin()
        elif end.startswith(self._held) or start.startswith(self._held):
            return
        elif self._held == char and (char in _SPACE or char in ",]}"):
            self._held = ""
        elif self._held == char == "{" and self._listed:
            self._held, self._head = "", char
            self._new_object()
            self._state = self._before_key
        else:
            self._read_again(self._held)

    def _in_ruins(self, char: str) -> None:
        """In a call that is no JSON any more; all up to its mark belongs to it."""
        end = self._dialect.end
        self._held += char
        while not end.startswith(self._held):
            if not self._done:
                self._piece += self._held[0]
            self._held = self._held[1:]
        if self._held == end:
            self._held = ""
            if not self._done:
                self._finish()
            self._state = self._in_text

    def _note(self, char: str) -> None:
        if self._name is None:
            self._head += char

    def _break(self, char: str = "") -> None:
        """What was read since the mark can't be a call, or not be more of one."""
        if self._name is None:
            self._write(self._dialect.start)
            self._read_again(self._head)
        else:
            self._state = self._in_ruins
            self._unread.extendleft(char)

    def _read_again(self, text: str) -> None:
        self._held = self._head = ""
        self._state = self._in_text
        self._unread.extendleft(reversed(text))


def _decoded(token: str) -> str | None:
    """The string that a piece of JSON stands for; ``None`` where it stands for another thing."""
    try:
        value: object = msgspec.json.decode(token.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, str) else None
