"""``/studio``: the page is there, and whoever opens it has the models loaded meanwhile."""

from __future__ import annotations

from typing import Any, cast

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from antiphon.web.media.studio import studio_route


class Warmed:
    """Counts how often the models were to be loaded."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.times = 0
        self._failure = failure

    async def warm(self) -> None:
        self.times += 1
        if self._failure is not None:
            raise self._failure


def opened(media: Warmed | None) -> TestClient:
    return TestClient(Starlette(routes=[studio_route(cast("Any", media))]))


@pytest.mark.parametrize("failure", [None, OSError("no process")])
def test_who_opens_the_page_has_the_models_loaded(failure: Exception | None) -> None:
    media = Warmed(failure)
    client = opened(media)
    assert client.head("/studio").status_code == 200
    assert media.times == 0, "nobody looks at that"
    page = client.get("/studio")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["cache-control"] == "no-cache"
    assert "static/studio/studio.js" in page.text
    assert media.times == 1


def test_the_page_is_there_also_where_nothing_is_made() -> None:
    assert opened(None).get("/studio").status_code == 200
