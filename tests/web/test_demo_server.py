import asyncio
import socket
from pathlib import Path

import pytest

from antiphon.web.demo_server import Address, DemoError, own_server, parse_url, wait_ready


@pytest.mark.parametrize(
    ("url", "socket_url", "ready_url"),
    [
        ("http://h:1", "ws://h:1/v1/realtime", "http://h:1/readyz"),
        ("h:1", "ws://h:1/v1/realtime", "http://h:1/readyz"),
        ("ws://h:1/v1/realtime?x=1", "ws://h:1/v1/realtime", "http://h:1/readyz"),
        ("https://h/", "wss://h/v1/realtime", "https://h/readyz"),
    ],
)
def test_a_server_is_named_by_any_of_its_urls(url: str, socket_url: str, ready_url: str) -> None:
    address = parse_url(url)
    assert (address.socket_url, address.ready_url) == (socket_url, ready_url)


@pytest.mark.parametrize("url", ["", "ftp://h:1", "http://"])
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(DemoError, match="expected a URL"):
        parse_url(url)


def test_an_absent_server_is_an_error_that_says_what_to_do() -> None:
    # Bound and not listening: nobody else can answer there.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = Address(f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(DemoError, match="antiphon serve"):
            asyncio.run(wait_ready(address, 10))
        with pytest.raises(DemoError, match="not ready within 0 s"):
            asyncio.run(wait_ready(address, 0.01, starting=True))


@pytest.mark.server
def test_a_server_that_does_not_start_is_an_error_that_tells_what_it_said(tmp_path: Path) -> None:
    config = tmp_path / "wrong.yaml"
    config.write_text("pipeline: cascade\nsurprise: 1\n", encoding="utf-8")

    async def main() -> None:
        async with own_server(config, tmp_path, lambda line: None) as server:
            await server.wait_ready()

    with pytest.raises(DemoError, match="ended with status 2.*\n.*unknown key `surprise`"):
        asyncio.run(main())
