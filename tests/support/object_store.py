"""A server that speaks S3, in this process; what it keeps is in memory."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen


@contextmanager
def object_store(bucket: str) -> Generator[dict[str, Any]]:
    """The options of an :class:`Artefacts` at ``s3://bucket``, which exists."""
    with warnings.catch_warnings():
        # Of its own libraries, about each other.
        warnings.simplefilter("ignore")
        from moto.server import ThreadedMotoServer

        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        # What it keeps belongs to the process, and outlives the server.
        urlopen(Request(f"{endpoint}/moto-api/reset", method="POST")).close()
        urlopen(Request(f"{endpoint}/{bucket}", method="PUT")).close()
        yield {
            "endpoint": endpoint,
            "region": "us-east-1",
            "access_key_id": "a",
            "secret_access_key": "b",
            "client_options": {"allow_http": True},
        }
    finally:
        server.stop()
