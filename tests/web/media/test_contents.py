"""Files of jobs over HTTP: which part a Range header means, and what the answers say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message

from antiphon.engines.jobs.desk import JobRefused
from antiphon.engines.jobs.job import Artefact, Job
from antiphon.web.media.contents import answer_file, etag_of, find_range
from antiphon.web.media.refused import answer_refused

DATA = bytes(range(250)) * 4
SIZE = len(DATA)
FILE = Artefact(name="content", key="jobs/video_1/1/content.mp4", type="video/mp4", size=SIZE)
JOB = Job(id="video_1", kind="video", tasks=(), created_at=0.0)


class Store:
    """The part of a desk that hands out files."""

    def __init__(self, data: bytes | None = DATA) -> None:
        self.data = data
        self.breaks_at: int | None = None
        self.given = 0
        self.closed = False

    async def content(
        self, artefact: Artefact, start: int = 0, end: int | None = None
    ) -> AsyncIterator[bytes]:
        if self.data is None:
            raise JobRefused("not_found", f"the file {artefact.name!r} is not there any more")
        try:
            for at in range(start, artefact.size if end is None else end, 100):
                if self.breaks_at is not None and at >= self.breaks_at:
                    raise JobRefused("not_found", "it went")
                piece = self.data[at : min(at + 100, SIZE if end is None else end)]
                self.given += len(piece)
                yield piece
        finally:
            self.closed = True


def client(store: Store, file: Artefact = FILE) -> TestClient:
    service = cast("Any", SimpleNamespace(desk=store))

    async def serve(request: Request) -> Response:
        try:
            return await answer_file(service, request, JOB, file)
        except JobRefused as error:
            return answer_refused(error)

    app = Starlette(routes=[Route("/", serve, methods=["GET", "POST"])])
    return TestClient(app, raise_server_exceptions=False)


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("", None),
        ("bytes=0-", (0, 100)),
        ("bytes=10-19", (10, 20)),
        ("Bytes = 10 - 19", (10, 20)),
        ("bytes=99-", (99, 100)),
        ("bytes=90-1000", (90, 100)),
        ("bytes=-5", (95, 100)),
        ("bytes=-500", (0, 100)),
        ("bytes=0-" + "9" * 5000, (0, 100)),
        ("bytes=100-", "beyond"),
        ("bytes=" + "9" * 5000 + "-", "beyond"),
        ("bytes=-0", "beyond"),
        ("bytes=20-10", None),
        ("bytes=-", None),
        ("bytes=0-1,5-6", None),
        ("bytes=a-b", None),
        ("bytes=\u0661-\u0662", None),
        ("items=0-5", None),
    ],
)
def test_the_part_that_a_range_means(header: str, found: object) -> None:
    assert find_range(header, 100) == found


@given(st.one_of(st.text(), st.from_regex(r"bytes=[0-9]*-[0-9]*", fullmatch=True)), st.integers(0))
def test_no_range_leads_out_of_the_file(header: str, size: int) -> None:
    found = find_range(header, size)
    if isinstance(found, tuple):
        assert 0 <= found[0] < found[1] <= size


def test_a_whole_file_says_how_to_go_on_with_it() -> None:
    store = Store()
    whole = client(store).get("/", headers={"Accept": "application/binary"})
    assert (whole.status_code, whole.content) == (200, DATA)
    assert whole.headers["content-length"] == str(SIZE)
    assert whole.headers["content-type"] == "video/mp4"
    assert whole.headers["accept-ranges"] == "bytes"
    assert whole.headers["content-disposition"] == 'inline; filename="video_1.mp4"'
    head = client(store).head("/")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers.items() == whole.headers.items()
    assert store.given == SIZE


def test_a_part_is_all_that_is_read() -> None:
    store = Store()
    part = client(store).get("/", headers={"Range": "bytes=150-349"})
    assert (part.status_code, part.content) == (206, DATA[150:350])
    assert part.headers["content-range"] == f"bytes 150-349/{SIZE}"
    assert part.headers["content-length"] == "200"
    assert store.given == 200
    beyond = client(store).get("/", headers={"Range": f"bytes={SIZE}-"})
    assert beyond.status_code == 416
    assert beyond.headers["content-range"] == f"bytes */{SIZE}"
    assert beyond.json()["error"]["code"] == "invalid_range"


def test_what_a_client_has_is_not_sent_again() -> None:
    store, tag = Store(), etag_of(FILE)
    for said in (tag, f'"x", W/{tag}'):
        answer = client(store).get("/", headers={"If-None-Match": said})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == tag
    assert store.given == 0
    # What another answer began can't be gone on with, so all of it comes.
    for said, status in ((tag, 206), ('"old"', 200)):
        headers = {"Range": "bytes=1-2", "If-Range": said}
        assert client(store).get("/", headers=headers).status_code == status


def test_neither_parts_nor_tags_matter_to_a_request_that_makes_something() -> None:
    headers = {"Range": "bytes=1-2", "If-None-Match": etag_of(FILE)}
    answer = client(Store()).post("/", headers=headers)
    assert (answer.status_code, answer.content) == (200, DATA)


def test_what_a_page_could_run_is_only_saved() -> None:
    odd = Artefact(name='a"\r\nb', key="k", type="text/html", size=SIZE)
    answer = client(Store(), odd).get("/")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="video_1-a___b.bin"'


def test_a_file_that_is_gone_is_told_of() -> None:
    answer = client(Store(None)).get("/")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


def test_a_file_that_goes_meanwhile_leaves_the_answer_incomplete() -> None:
    store = Store()
    store.breaks_at = 300
    answer = client(store).get("/")
    assert answer.status_code == 200
    assert len(answer.content) == 300
    assert answer.headers["content-length"] == str(SIZE)


def test_a_file_is_let_go_of_when_its_reader_leaves() -> None:
    store = Store()
    scope: dict[str, Any] = {"type": "http", "method": "GET", "headers": []}

    async def story() -> None:
        service = cast("Any", SimpleNamespace(desk=store))
        answer = await answer_file(service, Request(scope), JOB, FILE)
        sent = asyncio.Event()

        async def receive() -> Message:
            await sent.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                sent.set()
                await asyncio.Event().wait()

        await answer(scope, receive, send)
        assert store.closed
        assert store.given == 100

    asyncio.run(story())


def test_an_empty_file_has_no_parts() -> None:
    empty = Artefact(name="content", key="k", type="video/mp4", size=0)
    assert client(Store(b""), empty).get("/").content == b""
    assert client(Store(b""), empty).get("/", headers={"Range": "bytes=0-"}).status_code == 416
