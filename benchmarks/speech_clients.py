"""Clients of servers that speak, each as its own programs ask: blocking, one request a call."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

TIMEOUT_SECONDS = 120.0
WAV_HEADER = 44
READ_BYTES = 65_536


@dataclass(frozen=True)
class Heard:
    """One text, spoken."""

    first_ms: float
    """From the request to the first byte of sound."""

    total_ms: float
    audio_ms: float
    underruns: int
    """How often a player that begins with the first byte had nothing left."""

    silence_ms: float
    """And for how long, in all."""


class Client(Protocol):
    """A way to have a text spoken."""

    def __call__(self, text: str) -> Heard:
        """Have it spoken to the end."""
        ...


OnBytes: TypeAlias = Callable[[int], None]


class Player:
    """Takes note of sound as it comes."""

    def __init__(self, rate: int) -> None:
        """``rate``: of s16le mono. The request begins now."""
        self.rate = rate
        self._began = time.perf_counter()
        self._first = 0.0
        self._empty_at = 0.0
        self._bytes = 0
        self._underruns = 0
        self._silence = 0.0

    def take(self, count: int) -> None:
        """So many bytes of sound are here."""
        now = time.perf_counter()
        if not count:
            return
        if not self._bytes:
            self._first = self._empty_at = now
        elif now > self._empty_at:
            self._underruns += 1
            self._silence += now - self._empty_at
            self._empty_at = now
        self._bytes += count
        self._empty_at += count / 2 / self.rate

    def heard(self) -> Heard:
        """What came, now that all is here."""
        if not self._bytes:
            raise ValueError("expected some sound")
        return Heard(
            first_ms=1000 * (self._first - self._began),
            total_ms=1000 * (time.perf_counter() - self._began),
            audio_ms=1000 * self._bytes / 2 / self.rate,
            underruns=self._underruns,
            silence_ms=1000 * self._silence,
        )


def ours(port: int) -> Client:
    """``POST /v1/audio/speech``, as samples."""

    def ask(text: str) -> Heard:
        asked = {"model": "tts-1", "voice": "alloy", "input": text, "response_format": "pcm"}
        return _posted(port, "/v1/audio/speech", asked, Player(24_000), header=0)

    return ask


def piper_http(port: int) -> Client:
    """``piper.http_server``, which answers with a WAV file."""

    def ask(text: str) -> Heard:
        return _posted(port, "/synthesize", {"text": text}, Player(22_050), header=WAV_HEADER)

    return ask


def wyoming(port: int) -> Client:
    """``wyoming-piper``, by its own protocol."""

    def ask(text: str) -> Heard:
        player = Player(22_050)
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as line:
            line.sendall(
                json.dumps({"type": "synthesize", "data": {"text": text}}).encode() + b"\n"
            )
            with line.makefile("rb") as told:
                while True:
                    event: dict[str, Any] = json.loads(told.readline())
                    told.read(event.get("data_length") or 0)
                    player.take(len(told.read(event.get("payload_length") or 0)))
                    if event["type"] == "audio-stop":
                        return player.heard()

    return ask


def _posted(port: int, path: str, asked: dict[str, str], player: Player, *, header: int) -> Heard:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        line.request("POST", path, json.dumps(asked), {"Content-Type": "application/json"})
        answer = line.getresponse()
        if answer.status != 200:
            raise ValueError(f"expected status 200, got {answer.status}")
        while piece := answer.read1(READ_BYTES):
            sound = max(0, len(piece) - header)
            header -= len(piece) - sound
            player.take(sound)
        return player.heard()
    finally:
        line.close()
