"""The API keys of a deployment."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path

from ..engines.deployment import Access, DeploymentError, check_key


class Keys:
    """The API keys of a deployment; only their hashes are kept."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._digests = tuple(_digest(key) for key in keys)

    def __bool__(self) -> bool:
        """Whether there are any: without, whatever a client sends will do."""
        return bool(self._digests)

    def __contains__(self, value: str) -> bool:
        """Whether it is one of them, in a time that tells nothing about them."""
        digest = _digest(value)
        found = [hmac.compare_digest(digest, each) for each in self._digests]
        return any(found)


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode(errors="surrogatepass")).digest()


def load_keys(access: Access) -> Keys:
    """Return the keys of a deployment and of its file.

    Raises:
        DeploymentError: the file can't be used; the message says what to do.
    """
    keys = list(access.keys)
    if access.keys_file is not None:
        keys += _keys_of(Path(access.keys_file))
    return Keys(keys)


def _keys_of(path: Path) -> list[str]:
    do = "write API keys into it, one a line, or remove access.keys_file"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise DeploymentError(f"access.keys_file: cannot read {path}: {reason}; {do}") from None
    keys = [key for line in lines if (key := line.partition("#")[0].strip())]
    if not keys:
        raise DeploymentError(f"access.keys_file: there is no key in {path}; {do}")
    for number, line in enumerate(lines, 1):
        if key := line.partition("#")[0].strip():
            check_key(key, f"access.keys_file: line {number} of {path}")
    return keys
