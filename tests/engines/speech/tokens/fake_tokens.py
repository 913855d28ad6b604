"""Stands in for the process of a model of tokens: speaks the same link, and loads nothing.

Each request is answered with its own prompt, in pieces of 0, 1, 2, ... tokens, and then the
first of its stop tokens; a token of 13 ends the process, and 99 is never answered. What was
asked is kept in the work folder.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
from pathlib import Path

import msgspec

from antiphon.engines.text.host_link import (
    Abort,
    Calls,
    Dropped,
    Generate,
    LinkClosed,
    Load,
    Loaded,
    Piece,
    Pieces,
    Question,
    ToHost,
    Unframer,
    frame,
)

ASKED, LOADED = "asked.json", "loaded.json"


def main(arguments: list[str]) -> None:
    stream, questions = (socket.socket(fileno=int(each)) for each in arguments)
    calls = Calls(questions, Question)
    asked: Load = calls.receive()
    work = Path(asked.work)
    (work / LOADED).write_bytes(msgspec.json.encode(asked))
    calls.send(Loaded())
    threading.Thread(target=wait, args=(calls,), daemon=True).start()
    unframer = Unframer(ToHost)
    while True:
        select.select([stream], [], [])
        data = stream.recv(65536)
        if not data:
            return
        for message in unframer.feed(data):
            if isinstance(message, Abort):
                stream.sendall(frame(Dropped(message.request_id)))
            else:
                (work / ASKED).write_bytes(msgspec.json.encode(message))
                answer(message, stream)


def wait(calls: Calls) -> None:
    try:
        calls.receive()
    except LinkClosed:
        os._exit(0)


def answer(asked: Generate, stream: socket.socket) -> None:
    assert asked.choice is not None
    if 13 in asked.tokens:
        os._exit(1)
    if 99 in asked.tokens:
        return
    at, size = 0, 0
    pieces = [piece(asked, [])]
    while at < len(asked.tokens):
        size += 1
        pieces.append(piece(asked, asked.tokens[at : at + size]))
        at += size
    pieces.append(piece(asked, list(asked.choice.stop[:1]), "stop"))
    for each in pieces:
        stream.sendall(frame(Pieces([each])))


def piece(asked: Generate, ids: list[int], finish: str | None = None) -> Piece:
    return Piece(
        request_id=asked.request_id,
        text="",
        tokens=len(ids),
        prompt_tokens=len(asked.tokens),
        cached_tokens=0,
        finish=finish,
        ids=ids,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
