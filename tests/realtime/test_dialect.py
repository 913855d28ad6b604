"""The dialect of a connection: what asks for one, and what settles it."""

from __future__ import annotations

import pytest

from antiphon.realtime.dialect import Dialect, DialectChoice, asked_dialect


@pytest.mark.parametrize(
    ("headers", "subprotocols", "asked"),
    [
        ({}, [], None),
        ({"Authorization": "Bearer x"}, ["realtime", "openai-insecure-api-key.k"], None),
        ({"OpenAI-Beta": "realtime=v1"}, [], Dialect.BETA),
        ({"openai-beta": "assistants=v2, realtime=v1"}, [], Dialect.BETA),
        ({"OpenAI-Beta": "assistants=v2"}, [], None),
        ({}, ["realtime", "openai-beta.realtime-v1"], Dialect.BETA),
        ({}, ["openai-beta.realtime=v1"], Dialect.BETA),
        ({}, ["openai-beta.realtime-v2"], None),
    ],
)
def test_what_a_handshake_asks_for(
    headers: dict[str, str], subprotocols: list[str], asked: Dialect | None
) -> None:
    assert asked_dialect(headers, subprotocols) is asked


@pytest.mark.parametrize(
    ("asked", "shapes", "spoken"),
    [
        (None, [], Dialect.GA),
        (Dialect.BETA, [], Dialect.BETA),
        (None, [Dialect.BETA], Dialect.BETA),
        (Dialect.BETA, [Dialect.GA], Dialect.GA),
        (None, [None, Dialect.BETA], Dialect.BETA),
        (None, [Dialect.GA, Dialect.BETA], Dialect.GA),
        (Dialect.BETA, [Dialect.BETA, Dialect.GA], Dialect.BETA),
        (Dialect.BETA, [None], Dialect.BETA),
    ],
)
def test_the_first_shape_settles_it(
    asked: Dialect | None, shapes: list[Dialect | None], spoken: Dialect
) -> None:
    choice = DialectChoice(asked)
    for shape in shapes:
        choice.see(shape)
    assert choice.dialect is spoken
