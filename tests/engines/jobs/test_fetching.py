"""URLs that are fetched, and sites that mean no good."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import self_signed
from tests.support.web_site import PUBLIC, Page, Site, answer, site

from antiphon.engines.jobs.addresses import FetchRefused
from antiphon.engines.jobs.fetching import Fetched, Fetcher, dial
from antiphon.engines.jobs.input_limits import FetchConfig

BODY = b"picture" * 100
HOSTS = ("example.com", "other.test")


@asynccontextmanager
async def fetching(
    seconds: float = 20, tls: ssl.SSLContext | None = None, concurrency: int = 8
) -> AsyncGenerator[tuple[Site, Fetcher], None]:
    bounds = FetchConfig(hosts=HOSTS, seconds=seconds, concurrency=concurrency)
    async with site() as here:
        yield here, Fetcher(bounds, resolve=here.resolve, dial=here.dial, tls=tls)


async def get(fetcher: Fetcher, url: str = "http://example.com/", most: int = 1000) -> Fetched:
    return await fetcher.get(url, max_bytes=most, limit="media.inputs.x", types=("image/",))


async def refused(work: Awaitable[object]) -> FetchRefused:
    with pytest.raises(FetchRefused) as caught:
        await work
    assert caught.value.message.endswith(".")
    assert "secret" not in caught.value.message
    return caught.value


def page_refused(page: Page, most: int = 1000, seconds: float = 20) -> FetchRefused:
    async def run() -> FetchRefused:
        async with fetching(seconds) as (here, fetcher):
            here.pages["/"] = page
            return await refused(get(fetcher, most=most))

    return asyncio.run(run())


def test_a_file_is_fetched_from_the_address_that_was_checked() -> None:
    async def run() -> None:
        async with fetching() as (here, fetcher):
            # A name server that says something else when it is asked again.
            here.names["example.com"] = [[PUBLIC], ["127.0.0.1"]]
            here.pages["/a.png?b=c"] = answer(BODY, kind="Image/PNG; charset=x")
            found = await get(fetcher, "http://example.com/a.png?b=c#d")
            assert found == Fetched(BODY, "image/png")
            assert here.resolved == ["example.com"]
            assert here.dialled == [(PUBLIC, 80)]
            head = here.asked[0].decode().lower()
            assert head.startswith("get /a.png?b=c http/1.1\r\nhost: example.com\r\n")
            assert "accept-encoding: identity\r\n" in head
            # Now it is the other answer.
            assert (await refused(get(fetcher))).code == "url_not_allowed"
            assert len(here.dialled) == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["169.254.169.254"], [PUBLIC, "10.0.0.1"], ["::ffff:10.0.0.1"]]
)
def test_nobody_is_called_at_a_private_address(addresses: list[str]) -> None:
    async def run() -> None:
        async with fetching() as (here, fetcher):
            here.names["example.com"] = [addresses]
            assert (await refused(get(fetcher))).code == "url_not_allowed"
            here.names["other.test"] = [[PUBLIC]]
            here.pages["/"] = answer(status="302 Found", Location="http://example.com/secret")
            assert (await refused(get(fetcher, "http://other.test/"))).code == "url_not_allowed"
            assert here.dialled == [(PUBLIC, 80)]

    asyncio.run(run())


def test_hosts_that_may_be_private() -> None:
    async def run() -> None:
        async with site() as here:
            here.pages["/"] = answer(BODY)
            config = FetchConfig(private_hosts=(f"127.0.0.1:{here.port}",))
            # With the real network: an address needs no name server.
            found = await get(Fetcher(config), f"http://127.0.0.1:{here.port}/")
            assert found.data == BODY

    asyncio.run(run())


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("http://evil.test/", "url_not_allowed"),
        ("http://127.0.0.1/", "url_not_allowed"),
        ("http://u:secret@example.com/", "url_invalid"),
        ("file:///secret", "url_invalid"),
        ("http://[secret", "url_unreachable"),
        ("/", "url_unreachable"),
    ],
)
def test_redirects_go_through_all_the_checks(location: str, code: str) -> None:
    assert page_refused(answer(b"secret", "307 X", Location=location)).code == code


def test_a_few_redirects_are_followed() -> None:
    async def run() -> None:
        async with fetching() as (here, fetcher):
            here.pages["/"] = answer(status="301 Moved", Location="http://other.test/1")
            here.pages["/1"] = answer(status="308 Moved", Location="2")
            here.pages["/2"] = answer(status="303 See Other", Location="//example.com/3")
            here.pages["/3"] = answer(BODY)
            assert (await get(fetcher)).data == BODY
            assert here.resolved == ["example.com", "other.test", "other.test", "example.com"]

    asyncio.run(run())


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"secret" * 10_000)
        await writer.drain()


async def endless_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X: secret\r\n" * 1000)
        await writer.drain()


def slowly(start: bytes) -> Callable[[asyncio.StreamWriter], Any]:
    async def write(writer: asyncio.StreamWriter) -> None:
        # Never still for long, and never done.
        writer.write(start)
        while not writer.is_closing():
            writer.write(b"s")
            await writer.drain()
            await asyncio.sleep(0.01)

    return write


@pytest.mark.parametrize(
    "page",
    [
        answer(bytes(1001)),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"1f4\r\n%b\r\n" % bytes(500) * 3,
        endless,
    ],
    ids=["stated", "chunked", "endless"],
)
def test_large_bodies_are_refused(page: Page) -> None:
    error = page_refused(page)
    assert error.code == "url_too_large"
    assert "media.inputs.x" in error.message


@pytest.mark.parametrize(
    "start",
    [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n"],
    ids=["nothing", "head", "body"],
)
def test_slow_sites_are_left(start: bytes) -> None:
    error = page_refused(slowly(start), seconds=0.15)
    assert error.code == "url_timeout"
    assert "media.fetch.seconds" in error.message


@pytest.mark.parametrize(
    ("page", "code"),
    [
        (answer(b"secret", "404 Not Found"), "url_unreachable"),
        (answer(b"secret", "206 Partial Content"), "url_unreachable"),
        (answer(b"secret", kind="text/html"), "url_wrong_type"),
        (answer(gzip.compress(bytes(10**7)), Content_Encoding="gzip"), "url_unreachable"),
        (b"SSH-2.0-secret\r\n", "url_unreachable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 400 + b"\r\n\r\n", "url_unreachable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsecret", "url_unreachable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6, 7\r\n\r\nsecret", "url_unreachable"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100, "url_unreachable"),
        (b"", "url_unreachable"),
        (endless_head, "url_unreachable"),
    ],
    ids=[
        *("missing", "partial", "other type", "packed", "no http", "no number", "cut off"),
        *("two lengths", "hints", "closed", "endless head"),
    ],
)
def test_other_answers_are_refused(page: Page, code: str) -> None:
    assert page_refused(page).code == code


@pytest.mark.parametrize("kind", ["image/webp", "application/octet-stream", ""])
def test_types_that_are_taken(kind: str) -> None:
    async def run() -> None:
        async with fetching() as (here, fetcher):
            here.pages["/"] = b"HTTP/1.1 103 Early Hints\r\n\r\n" + answer(BODY, kind=kind)
            assert (await get(fetcher)).type == kind

    asyncio.run(run())


def test_hosts_that_do_not_answer() -> None:
    async def run() -> None:
        async with fetching() as (here, fetcher):
            here.names["example.com"] = [[]]
            assert (await refused(get(fetcher))).code == "url_unreachable"
            here.names["example.com"] = [["8.8.8.8", "8.8.4.4"]]
            here.refusing = {"8.8.8.8", "8.8.4.4"}
            assert (await refused(get(fetcher))).code == "url_unreachable"
            assert here.dialled == [("8.8.8.8", 80), ("8.8.4.4", 80)]
            # The next address is as good, since it was checked as well.
            here.refusing = {"8.8.8.8"}
            here.pages["/"] = answer(BODY)
            assert (await get(fetcher)).data == BODY

    asyncio.run(run())


def test_tls_asks_for_the_name_at_the_address(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside.load_cert_chain(certificate.certificate, certificate.key)
    trusting = ssl.create_default_context(cafile=str(certificate.certificate))

    async def run() -> None:
        async with site(inside) as here:
            here.names["localhost"] = [[PUBLIC]]
            here.pages["/"] = answer(BODY)
            config = FetchConfig(hosts=("localhost", "example.com"))
            known = Fetcher(config, resolve=here.resolve, dial=here.dial, tls=trusting)
            assert (await get(known, "https://localhost/")).data == BODY
            assert here.dialled == [(PUBLIC, 443)]
            error = await refused(get(known, "https://example.com/"))
            assert "certificate" in error.message
            unknown = Fetcher(config, resolve=here.resolve, dial=here.dial)
            assert "certificate" in (await refused(get(unknown, "https://localhost/"))).message
            here.pages["/"] = answer(status="302 Found", Location="http://localhost/")
            assert (await refused(get(known, "https://localhost/"))).code == "url_not_allowed"

    asyncio.run(run())


def test_posts_are_sent_as_they_are_and_never_onward() -> None:
    async def run() -> None:
        async with fetching() as (here, fetcher):
            here.pages["/hook"] = answer(b"secret", "204 No Content", Content_Length="0")
            headers = {"Content-Type": "application/json", "webhook-id": "msg_1"}
            assert await fetcher.post("http://example.com/hook", b'{"a":1}', headers) == 204
            head, _, body = here.asked[0].partition(b"\r\n\r\n")
            assert body == b'{"a":1}'
            assert b"webhook-id: msg_1" in head
            here.pages["/hook"] = answer(status="307 X", Location="http://other.test/")
            assert await fetcher.post("http://example.com/hook", b"{}", {}) == 307
            assert here.resolved == ["example.com"] * 2
            here.names["example.com"] = [["10.0.0.1"]]
            error = await refused(fetcher.post("http://example.com/hook", b"{}", {}))
            assert error.code == "url_not_allowed"

    asyncio.run(run())


def test_only_so_many_at_once() -> None:
    async def run() -> None:
        gate, asked = asyncio.Event(), asyncio.Event()

        async def wait(writer: asyncio.StreamWriter) -> None:
            asked.set()
            await gate.wait()
            writer.write(answer(BODY))

        async with fetching(concurrency=1) as (here, fetcher):
            here.pages["/"] = wait
            both = asyncio.gather(get(fetcher), get(fetcher))
            await asked.wait()
            assert len(here.dialled) == 1
            gate.set()
            assert [each.data for each in await both] == [BODY] * 2
            assert len(here.dialled) == 2

    asyncio.run(run())


def test_waiting_for_a_place_counts() -> None:
    async def run() -> None:
        async with fetching(0.2, concurrency=1) as (here, fetcher):
            here.pages["/"] = slowly(b"")
            both = await asyncio.gather(*(refused(get(fetcher)) for _ in range(2)))
            assert [each.code for each in both] == ["url_timeout"] * 2

    asyncio.run(run())


def test_a_connection_goes_no_further_than_its_address() -> None:
    async def run() -> None:
        async with site() as here:
            here.pages["/"] = answer(BODY)
            _, writer = await dial("127.0.0.1", here.port, None, "example.com")
            assert writer.get_extra_info("peername")[0] == "127.0.0.1"
            writer.transport.abort()

    asyncio.run(run())
