"""Fetching URLs that clients name, and telling them of ends, without being made a tool.

Host names are resolved once and all of what they resolve to is checked (:mod:`.addresses`); the
connection then goes to the very address that was checked, while TLS still asks for the name, so
that a second answer of a name server changes nothing. Every redirect starts from the beginning.
Bodies are asked for unpacked, and counted; one clock runs over it all. No message says anything
of what came.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urljoin

import h11

from .addresses import FetchRefused, Target, check_address, check_url
from .input_limits import FetchConfig

_HEAD_BYTES = 32 << 10
"""Most bytes of the head of an answer."""

_PIECE = 64 << 10
_MAX_HINTS = 8
"""Answers ahead of the answer (status 1xx)."""

_MAX_ADDRESSES = 64
_TRIED = 4
"""Addresses of one host that are tried, one after the other."""

_REDIRECTS = (301, 302, 303, 307, 308)
_UNKNOWN_TYPES = ("application/octet-stream", "binary/octet-stream", "application/binary")
"""What stores say of files that nobody described."""

_AGENT = "antiphon"


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was behind a URL."""

    data: bytes
    type: str
    """As the server says, in small letters, without parameters; "" if it says nothing."""


class Resolve(Protocol):
    """Asks for the addresses of a host."""

    async def __call__(self, host: str, port: int) -> list[str]:
        """Raises ``OSError`` where there is none."""
        ...


class Dial(Protocol):
    """Connects to an address, by TLS for the name ``host`` where there is a context."""

    async def __call__(
        self, address: str, port: int, tls: ssl.SSLContext | None, host: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Raises ``OSError`` where it can't."""
        ...


async def resolve(host: str, port: int) -> list[str]:
    """Addresses of a host as this machine finds them."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


async def dial(
    address: str, port: int, tls: ssl.SSLContext | None, host: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, and no further than to that address."""
    name = host if tls is not None else None
    return await asyncio.open_connection(address, port, ssl=tls, server_hostname=name)


class Fetcher:
    """Gets and posts within the bounds of a deployment; for one event loop."""

    def __init__(
        self,
        config: FetchConfig,
        *,
        resolve: Resolve = resolve,
        dial: Dial = dial,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``resolve``, ``dial`` and ``tls`` stand for the network in tests."""
        self._config = config
        self._resolve = resolve
        self._dial = dial
        self._tls = tls
        self._places = asyncio.Semaphore(config.concurrency)

    def check(self, url: str) -> None:
        """Refuse at once what :meth:`get` and :meth:`post` would without asking anybody.

        Raises:
            FetchRefused: it may not be fetched.
        """
        self._target(url)

    async def get(self, url: str, *, max_bytes: int, limit: str, types: Collection[str]) -> Fetched:
        """Fetch a file of at most ``max_bytes``.

        ``limit``: the configuration key of that bound, for the message. ``types``: beginnings of
        the content types that are taken, such as ``image/``.

        Raises:
            FetchRefused: it is not allowed, can't be reached, or is too large, slow or strange.
        """
        self.check(url)
        async with self._bounded():
            for _ in range(self._config.redirects + 1):
                target = self._target(url)
                async with self._asked(target, "GET", {}, b"") as answer:
                    if answer.status in _REDIRECTS:
                        url = _onward(url, target, answer)
                        continue
                    if answer.status != 200:
                        raise _unreachable(f"answered with status {answer.status}")
                    _check_head(answer, max_bytes, limit, types)
                    return Fetched(await answer.read(max_bytes, limit), answer.type)
            raise _unreachable(f"redirects more than {self._config.redirects} times")

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """Send ``body`` and return the status of the answer, whose body is not read.

        Redirects are not followed: what was signed goes to whom it was meant for.

        Raises:
            FetchRefused: it is not allowed, can't be reached, or takes too long.
        """
        target = self._target(url)
        async with self._bounded(), self._asked(target, "POST", headers, body) as answer:
            return answer.status

    @asynccontextmanager
    async def _bounded(self) -> AsyncGenerator[None, None]:
        seconds = self._config.seconds
        try:
            async with asyncio.timeout(seconds), self._places:
                yield
        except TimeoutError:
            message = f"The URL took longer than {seconds:g} s (media.fetch.seconds)."
            raise FetchRefused("url_timeout", message) from None

    def _target(self, url: str) -> Target:
        return check_url(url, self._config.hosts, self._config.private_hosts)

    @asynccontextmanager
    async def _asked(
        self, target: Target, method: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator[_Answer, None]:
        addresses = await self._addresses(target)
        reader, writer = await self._connect(target, addresses)
        try:
            answer = _Answer(reader, writer)
            await answer.ask(target, method, headers, body)
            yield answer
        except h11.ProtocolError:
            raise _unreachable("does not speak HTTP as it should") from None
        except (OSError, EOFError):
            raise _unreachable("broke the connection off") from None
        finally:
            # Without waiting: whoever is there could make that last.
            writer.transport.abort()

    async def _addresses(self, target: Target) -> list[str]:
        try:
            found = await self._resolve(target.host, target.port)
        except (OSError, UnicodeError):
            raise _unreachable("has no address") from None
        if not found or len(found) > _MAX_ADDRESSES:
            raise _unreachable("has no address")
        # All of them: a host that mixes public and private ones is up to something.
        for address in found:
            check_address(address, private=target.private)
        return list(dict.fromkeys(found))[:_TRIED]

    async def _connect(
        self, target: Target, addresses: list[str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls = await self._context() if target.secure else None
        why = "can't be connected to"
        for address in addresses:
            try:
                return await self._dial(address, target.port, tls, target.host)
            except ssl.SSLError:
                why = "has no certificate that fits"
            except OSError:
                continue
        raise _unreachable(why)

    async def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            # Reads the machine's certificates: too long for an event loop.
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        return self._tls


class _Answer:
    """One exchange over HTTP/1.1 (RFC 9112), the connection used once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
        self.status = 0
        self._headers: dict[str, str] = {}

    async def ask(
        self, target: Target, method: str, headers: Mapping[str, str], body: bytes
    ) -> None:
        """Send a request and read the head of what comes back."""
        lines = {
            "Host": target.authority,
            "User-Agent": _AGENT,
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "Connection": "close",
            **headers,
        }
        if method == "POST":
            lines["Content-Length"] = str(len(body))
        request = h11.Request(method=method, target=target.path, headers=list(lines.items()))
        self._send(request)
        if body:
            self._send(h11.Data(body))
        self._send(h11.EndOfMessage())
        await self._writer.drain()
        for _ in range(_MAX_HINTS):
            event = await self._next()
            if isinstance(event, h11.Response):
                self.status = event.status_code
                for name, value in event.headers:
                    self._headers.setdefault(name.decode("latin-1"), value.decode("latin-1"))
                return
            if not isinstance(event, h11.InformationalResponse):
                break
        raise EOFError

    def header(self, name: str) -> str:
        """The first header of that name, in small letters; else ""."""
        return self._headers.get(name, "")

    @property
    def type(self) -> str:
        """Content type, in small letters, without parameters."""
        return self.header("content-type").partition(";")[0].strip().lower()

    async def read(self, max_bytes: int, limit: str) -> bytes:
        """All of the body."""
        body = bytearray()
        while True:
            event = await self._next()
            if isinstance(event, h11.Data):
                body += event.data
                if len(body) > max_bytes:
                    raise _too_large(max_bytes, limit)
            elif isinstance(event, h11.EndOfMessage):
                return bytes(body)
            else:
                raise EOFError

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(_PIECE))
        return event

    def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)


def _onward(url: str, target: Target, answer: _Answer) -> str:
    """Where a redirect leads; its checks come with the next round."""
    try:
        onward = urljoin(url, answer.header("location"))
    except ValueError:
        raise _unreachable("redirects to nowhere") from None
    if target.secure and not onward.lower().startswith("https:"):
        raise FetchRefused("url_not_allowed", "The URL redirects from https to something else.")
    return onward


def _check_head(answer: _Answer, max_bytes: int, limit: str, types: Collection[str]) -> None:
    if answer.header("content-encoding").strip().lower() not in ("", "identity"):
        raise _unreachable("sends a packed body, though it was asked not to")
    known = answer.type
    if known and known not in _UNKNOWN_TYPES and not known.startswith(tuple(types)):
        raise FetchRefused(
            "url_wrong_type", f"The URL is of another type than {' or '.join(sorted(types))}."
        )
    length = answer.header("content-length")
    # By the length of the number first: Python refuses to read very long ones.
    if length.isdecimal() and (len(length) > 18 or int(length) > max_bytes):
        raise _too_large(max_bytes, limit)


def _too_large(max_bytes: int, limit: str) -> FetchRefused:
    return FetchRefused("url_too_large", f"The URL has more than {max_bytes} bytes ({limit}).")


def _unreachable(why: str) -> FetchRefused:
    return FetchRefused("url_unreachable", f"The URL's host {why}.")
