"""Identifiers that a replay makes again: drawn from a seed, not from chance."""

from __future__ import annotations

import hashlib

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

LENGTH = 21
"""Characters after the prefix, as OpenAI's ids have."""


class IdSource:
    """Endless distinct ids, the same for the same seed."""

    def __init__(self, seed: str) -> None:
        self._key = hashlib.blake2b(seed.encode(), digest_size=32).digest()
        self._drawn = 0

    def next(self, prefix: str) -> str:
        """Return a fresh id such as ``item_6VQ...``; ``prefix`` has no underscore."""
        self._drawn += 1
        draw = hashlib.blake2b(self._drawn.to_bytes(8, "big"), key=self._key, digest_size=32)
        number = int.from_bytes(draw.digest(), "big")
        letters: list[str] = []
        for _ in range(LENGTH):
            number, letter = divmod(number, len(_ALPHABET))
            letters.append(_ALPHABET[letter])
        return f"{prefix}_{''.join(letters)}"
