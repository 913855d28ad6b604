"""Stands in for the language model's process: speaks the same link, and loads nothing.

Each request is answered with its own tokens, one a piece, as text; a token of 13 ends the
process, and 99 is never answered.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
from typing import Any

from antiphon.engines.text.host_link import (
    Abort,
    Answer,
    Calls,
    Check,
    Count,
    Dropped,
    Generate,
    LinkClosed,
    Load,
    Loaded,
    NotLoaded,
    Piece,
    Pieces,
    Question,
    Render,
    ToHost,
    Unframer,
    frame,
)


def main(arguments: list[str]) -> None:
    stream, questions = (socket.socket(fileno=int(each)) for each in arguments)
    calls = Calls(questions, Question)
    asked: Load = calls.receive()
    if asked.folder == "broken":
        calls.send(NotLoaded("model_unloadable", "it is broken"))
        return
    if asked.folder == "dies":
        return
    calls.send(Loaded())
    threading.Thread(target=answer, args=(calls,), daemon=True).start()
    unframer = Unframer(ToHost)
    while True:
        select.select([stream], [], [])
        data = stream.recv(65536)
        if not data:
            return
        for message in unframer.feed(data):
            take(message, stream)


def answer(calls: Calls) -> None:
    try:
        while True:
            match calls.receive():
                case Count(text=text):
                    calls.send(Answer(count=len(text)))
                case Render(messages=messages, tools=tools):
                    size = sum(len(each.text) for each in messages) + len(tools)
                    calls.send(Answer(tokens=list(range(size))))
                case Check(constraint=constraint):
                    calls.send(Answer(problem=constraint or None))
                case other:
                    raise AssertionError(other)
    except LinkClosed:
        os._exit(0)


def take(message: Any, stream: socket.socket) -> None:
    if isinstance(message, Abort):
        stream.sendall(frame(Dropped(message.request_id)))
        return
    assert isinstance(message, Generate)
    last = len(message.tokens) - 1
    for number, token in enumerate(message.tokens):
        if token == 13:
            os._exit(1)
        if token == 99:
            return
        piece = Piece(
            request_id=message.request_id,
            text=f"{token}@{message.temperature} ",
            tokens=1,
            prompt_tokens=len(message.tokens),
            cached_tokens=0,
            finish="stop" if number == last else None,
        )
        stream.sendall(frame(Pieces([piece])))


if __name__ == "__main__":
    main(sys.argv[1:])
