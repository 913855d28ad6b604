"""Certificates that sign themselves, for servers under test."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path

    @property
    def access(self) -> dict[str, str]:
        """What a deployment says to use it."""
        return {"tls_certificate": str(self.certificate), "tls_key": str(self.key)}


def self_signed(
    folder: Path,
    name: str = "server",
    *,
    begins: dt.timedelta = -DAY,
    ends: dt.timedelta = 30 * DAY,
    password: str | None = None,
) -> Certificate:
    """Make a certificate of localhost that is valid from ``begins`` to ``ends`` from now."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    made = Certificate(folder / f"{name}.crt", folder / f"{name}.key")
    made.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode()),
        )
    )
    return made
