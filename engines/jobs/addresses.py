"""Which hosts and addresses may be reached on behalf of a client: pure rules.

The host must be named by the deployment, and what it resolves to must be a public address
(RFC 6890): else a URL could reach the services of the machine or the network that the server
runs in, the metadata service of a cloud among them. Addresses of IPv6 that lead to one of IPv4
(mapped, NAT64, 6to4, Teredo) are refused as such: what is behind them is not seen here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import urlsplit

MAX_URL = 4096
"""Characters of a URL."""

_PORTS = {"http": 80, "https": 443}
_PLAIN = re.compile(r"[!-\[\]-~]+")
"""Printable ASCII without space and backslash, which readers of URLs take differently."""

_RESERVED_V4 = tuple(
    IPv4Network(each)
    for each in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    )
)
"""Written out, since what Python's own list says changes from release to release."""

_PUBLIC_V6 = IPv6Network("2000::/3")
"""All that is given out; addresses that stand for one of IPv4 lie outside, but for two kinds."""

_RESERVED_V6 = tuple(
    IPv6Network(each)
    for each in (
        "2001::/23",  # protocols, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",
    )
)
_PRIVATE = tuple(
    ip_network(each)
    for each in (
        *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
        *("::1/128", "fc00::/7"),
    )
)


class FetchRefused(Exception):
    """A URL is not fetched, or could not be; the message is fit for a client."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        """``url_invalid``, ``url_not_allowed``, ``url_unreachable``, ``url_timeout``,
        ``url_too_large``, ``url_wrong_type``."""

        self.message = message


@dataclass(frozen=True, slots=True)
class Target:
    """A URL, taken apart and allowed."""

    secure: bool
    host: str
    """In small letters, without brackets."""

    port: int
    path: str
    """With the query, as it is asked for; without the fragment."""

    private: bool
    """Whether it may be on a private network."""

    @property
    def authority(self) -> str:
        """What the ``Host`` header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = _PORTS["https" if self.secure else "http"]
        return host if self.port == usual else f"{host}:{self.port}"


def check_url(url: str, hosts: Iterable[str], private_hosts: Iterable[str]) -> Target:
    """Take a URL apart.

    Raises:
        FetchRefused: it is none that may be fetched.
    """
    if len(url) > MAX_URL:
        raise FetchRefused("url_invalid", f"The URL has more than {MAX_URL} characters.")
    if not _PLAIN.fullmatch(url):
        raise FetchRefused("url_invalid", "The URL has characters that must be percent-encoded.")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise FetchRefused("url_invalid", "The URL can't be read.") from None
    if parts.scheme not in _PORTS:
        raise FetchRefused("url_invalid", "The URL must begin with http:// or https://.")
    if "@" in parts.netloc:
        raise FetchRefused("url_invalid", "The URL must hold no user name or password.")
    if not host or "%" in host:
        raise FetchRefused("url_invalid", "The URL names no host.")
    allowed, private = tuple(hosts), tuple(private_hosts)
    if not allowed and not private:
        raise FetchRefused(
            "url_not_allowed",
            "This server fetches no URLs: media.fetch.hosts names none. Send the file itself.",
        )
    number = port if port is not None else _PORTS[parts.scheme]
    in_private = any(_fits(host, number, each) for each in private)
    if not in_private and not any(_fits(host, number, each) for each in allowed):
        raise FetchRefused(
            "url_not_allowed", "The URL's host and port are not among those of media.fetch.hosts."
        )
    path = parts.path or "/"
    path = f"{path}?{parts.query}" if parts.query else path
    return Target(parts.scheme == "https", host, number, path, in_private)


def check_address(address: str, *, private: bool = False) -> None:
    """Refuse an address that is not public.

    ``private``: those of private networks and of this machine may be reached as well; no
    others, such as link-local ones, where clouds keep their secrets.

    Raises:
        FetchRefused: it may not be reached.
    """
    try:
        known = ip_address(address)
    except ValueError:
        raise FetchRefused("url_unreachable", "The URL's host has no address.") from None
    if is_public(known):
        return
    if private and _is_private(known):
        return
    raise FetchRefused(
        "url_not_allowed",
        "The URL's host has an address that is not public; media.fetch.private_hosts can name "
        "hosts of a private network.",
    )


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether anybody may have it, and it leads to nowhere else."""
    if isinstance(address, IPv4Address):
        return not any(address in each for each in _RESERVED_V4)
    return (
        address.scope_id is None
        and address in _PUBLIC_V6
        and not any(address in each for each in _RESERVED_V6)
    )


def _is_private(address: IPv4Address | IPv6Address) -> bool:
    return any(address in each for each in _PRIVATE)


def _fits(host: str, port: int, rule: str) -> bool:
    if rule.startswith("["):
        name, _, number = rule[1:].partition("]")
        number = number.removeprefix(":")
    else:
        name, _, number = rule.partition(":")
    if (port != int(number)) if number else port not in _PORTS.values():
        return False
    # "*.example.com" is what is below it, at a dot.
    return host.endswith(name[1:]) and host != name[1:] if name.startswith("*.") else host == name
