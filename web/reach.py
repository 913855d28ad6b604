"""How a server is reached and by whom, checked before anything is loaded."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from ..engines.deployment import Access, DeploymentError
from .api_keys import Keys, load_keys
from .tls import Tls, load_tls


@dataclass(frozen=True)
class Reach:
    """Who is served at an address."""

    host: str
    keys: Keys
    tls: Tls | None

    @property
    def scheme(self) -> str:
        """Of the addresses of pages."""
        return "https" if self.tls else "http"

    @property
    def who(self) -> str:
        """Who can use the server, in words."""
        if self.keys:
            return "an API key is needed"
        if is_loopback(self.host):
            return "only this machine can use the server, without a key"
        return "ANYONE who can reach this machine can use the server, without a key"


def check_reach(access: Access, host: str) -> Reach:
    """Read keys and certificate, and see that only those are served who shall be.

    Raises:
        DeploymentError: a file can't be used, or other machines would be served without
            a key, and the deployment does not say that this is meant. What to do follows
            the last semicolon.
    """
    reach = Reach(host, load_keys(access), load_tls(access))
    if not (is_loopback(host) or reach.keys or access.open):
        raise DeploymentError(
            f"--host {host} would let other machines use the server without a key; set "
            "access.keys or access.keys_file in the deployment, or access.open: true to serve "
            "whoever comes"
        )
    return reach


def is_loopback(host: str) -> bool:
    """Whether an address to listen at is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
