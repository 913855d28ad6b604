"""The certificate that a server shows: loaded, and tried on a client before any real one."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from ..engines.deployment import Access, DeploymentError

EXPIRED, NOT_YET_VALID = 10, 9
"""OpenSSL's ``X509_V_ERR_CERT_HAS_EXPIRED`` and ``..._NOT_YET_VALID``."""

ROUNDS = 4
"""A handshake in memory takes two."""


@dataclass(frozen=True)
class Tls:
    """A certificate and key that work."""

    context: ssl.SSLContext
    expires: str
    """When the certificate does, as OpenSSL writes it."""


def load_tls(access: Access) -> Tls | None:
    """Return what a server speaks TLS with; ``None`` where it shall not.

    Raises:
        DeploymentError: the files can't be used, or clients would refuse the certificate
            because of its dates; the message says what to do.
    """
    if access.tls_certificate is None or access.tls_key is None:
        return None
    certificate = _readable("tls_certificate", access.tls_certificate)
    key = _readable("tls_key", access.tls_key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    asked = False

    def password() -> str:
        # Else OpenSSL asks the terminal, at which nobody sits.
        nonlocal asked
        asked = True
        return ""

    try:
        context.load_cert_chain(certificate, key, password=password)
    except ssl.SSLError as error:
        raise DeploymentError(_unusable(error, certificate, key, locked=asked)) from None
    return Tls(context, _try(context, certificate))


def _readable(name: str, file: str) -> Path:
    path = Path(file)
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise DeploymentError(
            f"access.{name}: cannot read {path}: {error.strerror}; name a PEM file that the "
            "server may read, or remove both tls_certificate and tls_key"
        ) from None


def _unusable(error: ssl.SSLError, certificate: Path, key: Path, *, locked: bool) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return (
            f"access.tls_key: {key} is not the key of {certificate}; "
            "name the key that the certificate was made with"
        )
    if locked:
        return f"access.tls_key: {key} has a password; save it without (`openssl pkey`)"
    return (
        f"access.tls_certificate: {certificate} and {key} are no PEM certificate and key; "
        "convert them with `openssl`"
    )


def _try(context: ssl.SSLContext, certificate: Path) -> str:
    """Shake hands in memory, as a client that trusts this very certificate."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(certificate)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(down, up)
    there = context.wrap_bio(up, down, server_side=True)
    try:
        for _ in range(ROUNDS):
            for end in (here, there):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLCertVerificationError as error:
        raise DeploymentError(_refused(error, certificate)) from None
    shown = here.getpeercert() or {}
    return str(shown.get("notAfter", "at an unknown time"))


def _refused(error: ssl.SSLCertVerificationError, certificate: Path) -> str:
    if error.verify_code == EXPIRED:
        return f"access.tls_certificate: {certificate} has expired; renew it"
    if error.verify_code == NOT_YET_VALID:
        return (
            f"access.tls_certificate: {certificate} is not valid yet; "
            "check the clock of this machine, or wait"
        )
    return f"access.tls_certificate: clients refuse {certificate} ({error.verify_message}); make another"
