"""The servers that clients are run against."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.server import Server, serving, shipped, write_deployment

HEARD = "Tell me something about the sky."
"""What the scripted server hears, whatever was said."""

LINE = (
    "Certainly. The sky is blue because air scatters blue light more than red light. "
    "In the evening the light takes a longer way, and it turns red. {tool}"
)
"""What the scripted server answers, about 9 s of speech, and then what a function returned."""

TOOL = "get_weather"
TOOL_WORD = "weather"
"""The scripted model calls :data:`TOOL` where a written message has this word."""

TOKENS_PER_SECOND = 12
"""Slow, so that a reply is still being made for two seconds after it has begun to sound."""


def scripted_deployment() -> dict[str, Any]:
    """Return a deployment with a real voice that says one line, and makes one call.

    After the call the line says what the function returned.
    """
    deployment = shipped("scripted")
    stages = deployment["stages"]
    stages["recognizer"]["lines"] = [HEARD]
    stages["ar"]["lines"] = [LINE]
    stages["ar"]["calls"] = [{"name": TOOL, "arguments": {"city": "Paris"}, "when": TOOL_WORD}]
    stages["ar"]["tokens_per_second"] = TOKENS_PER_SECOND
    stages["talker"] = {"variation": 0}
    return deployment


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate for 127.0.0.1 and localhost: PEM files, its own authority."""

    chain: Path
    key: Path


def write_certificate(folder: Path) -> Certificate:
    """Make a certificate that is good for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate = Certificate(folder / "certificate.pem", folder / "key.pem")
    certificate.chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    certificate.key.write_bytes(private)
    return certificate


@contextmanager
def scripted(folder: Path) -> Generator[Server, None, None]:
    """Run the scripted server."""
    with serving(write_deployment(scripted_deployment(), folder)) as server:
        yield server


@contextmanager
def secured(server: Server, certificate: Certificate) -> Generator[str, None, None]:
    """Put TLS in front of a running server, as a proxy does; gives the new address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain, certificate.key)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="tls-front")
    thread.start()

    async def open_front() -> asyncio.Server:
        async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _join(reader, writer, server.port)

        return await asyncio.start_server(joined, "127.0.0.1", 0, ssl=context)

    async def close_front(front: asyncio.Server) -> None:
        front.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    try:
        front = asyncio.run_coroutine_threadsafe(open_front(), loop).result(10)
        try:
            yield f"https://127.0.0.1:{front.sockets[0].getsockname()[1]}"
        finally:
            asyncio.run_coroutine_threadsafe(close_front(front), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Pass on all bytes both ways until either side ends."""
    there, back = await asyncio.open_connection("127.0.0.1", port)
    passing = [
        asyncio.ensure_future(_pass(reader, back)),
        asyncio.ensure_future(_pass(there, writer)),
    ]
    try:
        await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in passing:
            each.cancel()
        await asyncio.gather(*passing, return_exceptions=True)
        for side in (writer, back):
            side.close()


async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        sink.write(data)
        await sink.drain()
