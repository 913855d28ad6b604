"""Ephemeral client secrets: what a page gets from its own server to open sessions with.

A secret is an id and a time of expiry, signed. What its sessions begin with is kept here
under the id, because a secret has to fit into a header of the WebSocket handshake. The
signing key is made at start: secrets end with the process.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..sessions.settings import SessionKind, SettingsPatch

PREFIX = "ek_"

MAX_SECRETS = 10_000
"""Unexpired secrets kept at once; more are refused until some expire."""

MAX_BYTES = 64 * 1024 * 1024
"""Of the session settings of all of them, as JSON."""

SWEEP_SECONDS = 60
"""How often what has expired is let go, where secrets are made."""

_ID_BYTES = 16
_TIME_BYTES = 8
_SIGNATURE_BYTES = 32


class SecretRefused(Exception):
    """A secret of ours that opens nothing any more."""


class StoreFull(Exception):
    """No more secrets can be kept; ``retry_after_s`` seconds on there is room."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("too many client secrets are waiting to expire")
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Opened:
    """What a session begins with that is opened with a secret."""

    kind: SessionKind | None = None
    """What the session is for; ``None`` leaves it to the client."""

    defaults: SettingsPatch | None = None


@dataclass(frozen=True, slots=True)
class Issued:
    """A new secret."""

    value: str
    expires_at: int
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class _Kept:
    opened: Opened
    expires_at: int
    size: int


class SecretStore:
    """Issues secrets and knows them again; several sessions may be opened with one."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        *,
        max_secrets: int = MAX_SECRETS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """``clock`` tells Unix seconds."""
        self._clock = clock
        self._max_secrets = max_secrets
        self._max_bytes = max_bytes
        self._key = os.urandom(32)
        self._kept: dict[bytes, _Kept] = {}
        self._bytes = 0
        self._swept_at = clock()

    @property
    def kept(self) -> int:
        """How many secrets are kept, some of them expired."""
        return len(self._kept)

    def issue(self, opened: Opened, *, size: int, seconds: int) -> Issued:
        """Make a secret for ``seconds``; ``size`` bytes of JSON said what is in ``opened``.

        Raises:
            StoreFull: too many wait to expire.
        """
        now = self._clock()
        self._make_room(size, now)
        expires_at = int(now) + seconds
        secret_id = os.urandom(_ID_BYTES)
        self._kept[secret_id] = _Kept(opened, expires_at, size)
        self._bytes += size
        signed = secret_id + expires_at.to_bytes(_TIME_BYTES, "big")
        token = base64.urlsafe_b64encode(signed + self._sign(signed)).rstrip(b"=")
        return Issued(PREFIX + token.decode(), expires_at)

    def open(self, value: str) -> Opened | None:
        """Return what a secret is good for; ``None`` for what is no secret of ours.

        Raises:
            SecretRefused: it has expired.
        """
        signed = self._verified(value)
        if signed is None:
            return None
        expires_at = int.from_bytes(signed[_ID_BYTES:], "big")
        kept = self._kept.get(signed[:_ID_BYTES])
        if kept is None or self._clock() >= expires_at:
            raise SecretRefused("This client secret has expired: ask for a new one.")
        return kept.opened

    def _verified(self, value: str) -> bytes | None:
        if not value.startswith(PREFIX):
            return None
        encoded = value[len(PREFIX) :]
        try:
            token = base64.b64decode(encoded + "=" * (-len(encoded) % 4), "-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        signed, signature = token[:-_SIGNATURE_BYTES], token[-_SIGNATURE_BYTES:]
        if len(signed) != _ID_BYTES + _TIME_BYTES:
            return None
        return signed if hmac.compare_digest(signature, self._sign(signed)) else None

    def _sign(self, signed: bytes) -> bytes:
        return hmac.new(self._key, signed, hashlib.sha256).digest()

    def _make_room(self, size: int, now: float) -> None:
        if not self._fits(size) or now - self._swept_at >= SWEEP_SECONDS:
            self._sweep(now)
        if not self._fits(size):
            soonest = min((kept.expires_at for kept in self._kept.values()), default=int(now))
            raise StoreFull(max(1, soonest - int(now)))

    def _sweep(self, now: float) -> None:
        self._swept_at = now
        for secret_id in [key for key, kept in self._kept.items() if now >= kept.expires_at]:
            self._bytes -= self._kept.pop(secret_id).size

    def _fits(self, size: int) -> bool:
        return len(self._kept) < self._max_secrets and self._bytes + size <= self._max_bytes
