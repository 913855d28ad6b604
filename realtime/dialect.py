"""The two dialects of the Realtime protocol, and which of them a connection speaks.

A connection speaks one dialect. What it asks for when it connects counts until the first
update of its session shows a shape; that shape then decides, once and for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

_HEADER = "openai-beta"
_HEADER_VALUE = "realtime=v1"
_SUBPROTOCOLS = frozenset({"openai-beta.realtime-v1", "openai-beta.realtime=v1"})
"""The second is a misspelling that some clients have."""


class Dialect(Enum):
    """How events and their members are named."""

    GA = "ga"
    """The current names: ``session.type``, ``response.output_audio.delta``."""

    BETA = "beta"
    """The names of 2024: a flat session, ``response.audio.delta``."""


def asked_dialect(headers: Mapping[str, str], subprotocols: Sequence[str]) -> Dialect | None:
    """Return the dialect that a handshake asks for; ``None`` where it says nothing.

    Names of headers are compared without regard to case.
    """
    if _SUBPROTOCOLS.intersection(each.strip().lower() for each in subprotocols):
        return Dialect.BETA
    for name, value in headers.items():
        wanted = (each.strip().lower() for each in value.split(","))
        if name.lower() == _HEADER and _HEADER_VALUE in wanted:
            return Dialect.BETA
    return None


class DialectChoice:
    """The dialect of one connection; the first shape that is seen settles it."""

    def __init__(self, asked: Dialect | None = None) -> None:
        self.dialect = asked or Dialect.GA
        self.settled = False
        """Whether it can't change any more."""

    def see(self, shape: Dialect | None) -> Dialect:
        """Return the dialect after an update of ``shape``; ``None`` is that of neither."""
        if shape is not None and not self.settled:
            self.dialect = shape
            self.settled = True
        return self.dialect
