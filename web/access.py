"""Who may use the server: credentials as clients send them, and origins of pages."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from ..engines.deployment import Access
from ..realtime.secrets import Opened, SecretRefused, SecretStore
from .api_keys import Keys
from .errors import refusal
from .reach import is_loopback

KEY_SUBPROTOCOL = "openai-insecure-api-key."
"""What a browser's client puts before the key; it can set no headers."""


class Carrier(Enum):
    """Where a credential was found."""

    DELIBERATE = "deliberate"
    """In a place that only the client's own code fills."""

    BASIC = "basic"
    """HTTP Basic: a browser may add it by itself, to a request of any page."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A key or a secret that a client sent."""

    value: str
    carrier: Carrier


def credentials(headers: Mapping[str, str], subprotocols: Sequence[str] = ()) -> list[Credential]:
    """Return all that a client sent, in whatever place."""
    return list(_credentials(headers, subprotocols))


def _credentials(headers: Mapping[str, str], subprotocols: Sequence[str]) -> Iterator[Credential]:
    scheme, _, told = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and told.strip():
        yield Credential(told.strip(), Carrier.DELIBERATE)
    for name in ("api-key", "x-api-key"):
        if value := headers.get(name, "").strip():
            yield Credential(value, Carrier.DELIBERATE)
    for element in subprotocols:
        if element.startswith(KEY_SUBPROTOCOL) and (value := element[len(KEY_SUBPROTOCOL) :]):
            yield Credential(value, Carrier.DELIBERATE)
    if scheme.lower() == "basic" and (password := _password(told.strip())):
        yield Credential(password, Carrier.BASIC)


def _password(encoded: str) -> str:
    """The password of HTTP Basic whose user is empty, else nothing."""
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return "" if user else password


class Refusal(Exception):
    """A client that may not do what it asks; with the HTTP answer in words."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Guest:
    """A client that was let in."""

    secret: Opened | None = None
    """The secret that it came with, if it came with one."""


class Gate:
    """Lets clients in by what they send."""

    def __init__(self, access: Access, keys: Keys, secrets: SecretStore) -> None:
        self._keys = keys
        self._secrets = secrets
        self._names_trusted = bool(keys) or access.open
        self._origins = frozenset(origin.rstrip("/").lower() for origin in access.origins)

    @property
    def keyed(self) -> bool:
        """Whether a key is needed."""
        return bool(self._keys)

    def owner_of(self, connection: HTTPConnection) -> str:
        """A digest of the key that a client sent; empty where no key is needed."""
        offered: Sequence[str] = connection.scope.get("subprotocols", ())
        for each in credentials(connection.headers, offered):
            if self._keys and each.value in self._keys:
                return hashlib.sha256(each.value.encode()).hexdigest()
        return ""

    def admit_request(self, request: HTTPConnection) -> None:
        """Let an HTTP request of the API pass: a key opens it, a secret does not.

        Raises:
            Refusal: it may not.
        """
        sent = credentials(request.headers)
        if self._keys:
            if not any(each.value in self._keys for each in sent):
                raise _refused_key(sent)
        elif request.scope["method"] not in ("GET", "HEAD") and not self._is_friendly(request):
            # Any page may send a form to this machine, though it can't read the answer.
            raise _refused_origin()

    def admit_session(self, socket: HTTPConnection, subprotocols: Sequence[str]) -> Guest:
        """Let a client open a session: with a key, or with a secret.

        Raises:
            Refusal: it may not.
        """
        sent = credentials(socket.headers, subprotocols)
        guest, carrier = self._recognize(sent)
        # A page can't make a browser show a key that the page does not know. Without keys
        # there is nothing to know, and browsers let any page open any socket.
        if carrier is not Carrier.DELIBERATE and not self._is_friendly(socket):
            raise _refused_origin()
        return guest

    def admit_socket(self, socket: HTTPConnection, subprotocols: Sequence[str]) -> None:
        """Let a client open a socket that is no session: a key opens it, a secret does not.

        Raises:
            Refusal: it may not.
        """
        sent = credentials(socket.headers, subprotocols)
        key = next((each for each in sent if self._keys and each.value in self._keys), None)
        if self._keys and key is None:
            raise _refused_key(sent)
        shown = key is not None and key.carrier is Carrier.DELIBERATE
        if not shown and not self._is_friendly(socket):
            raise _refused_origin()

    def _recognize(self, sent: Sequence[Credential]) -> tuple[Guest, Carrier | None]:
        """Who it is, and how that was shown; several credentials may be sent, one will do."""
        refused: SecretRefused | None = None
        for each in sent:
            if self._keys and each.value in self._keys:
                return Guest(), each.carrier
            try:
                if (opened := self._secrets.open(each.value)) is not None:
                    return Guest(opened), each.carrier
            except SecretRefused as error:
                refused = error
        if refused is not None:
            raise Refusal(401, "invalid_api_key", str(refused))
        if self._keys:
            raise _refused_key(sent)
        return Guest(), None

    def _is_friendly(self, connection: HTTPConnection) -> bool:
        """Whether no foreign page asks: none at all, ours, or one that is listed."""
        origin = connection.headers.get("origin")
        if origin is None:
            return True
        if origin.lower() in self._origins:
            return True
        host = connection.headers.get("host", "")
        # A page elsewhere may have its own name point at this machine: where no key is
        # needed, only names that always mean this machine are ours.
        ours = self._names_trusted or is_loopback(_name_of(host))
        return ours and origin.partition("://")[2] == host


def _name_of(host: str) -> str:
    """The name in a ``Host`` header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _refused_key(sent: Sequence[Credential]) -> Refusal:
    if not sent:
        message = "You didn't provide an API key: send it as 'Authorization: Bearer KEY'."
    elif any(each.value.startswith("ek_") for each in sent):
        message = "This client secret is not valid here, or opens realtime sessions only."
    else:
        message = "Incorrect API key provided."
    return Refusal(401, "invalid_api_key", message)


def _refused_origin() -> Refusal:
    return Refusal(
        403,
        "origin_not_allowed",
        "Pages of this origin may not use this server: list it under access.origins.",
    )


KEYED = ("/v1/", "/metrics")
"""How the paths begin of what needs a key."""


class Guard:
    """ASGI middleware that lets only those to the routes of the API who may use them.

    WebSockets pass: their own route asks the gate, because more depends on its answer.
    """

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] == "http" and scope["path"].startswith(KEYED):
            try:
                self._gate.admit_request(HTTPConnection(scope))
            except Refusal as refused:
                answer = refusal(refused.status, refused.code, refused.message)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)
