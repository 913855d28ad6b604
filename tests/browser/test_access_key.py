"""The page of a server with keys asks for one, and is answered once it is right."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.server import serving, shipped, write_deployment

from .chromium import visiting

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.timeout(120)]


def test_a_key_is_asked_for_until_it_is_right(tmp_path: Path) -> None:
    deployment = shipped("silent") | {"access": {"keys": ["sk-right"]}}
    with (
        serving(write_deployment(deployment, tmp_path)) as server,
        visiting(server.url) as visit,
    ):
        page = visit.page
        page.click("#talk")
        page.wait_for_selector("#key-why[data-reason=needed]")
        page.fill("#new-key", "sk-wrong")
        page.press("#new-key", "Enter")
        page.wait_for_selector("#key-why[data-reason=wrong]")
        assert "did not accept" in (page.text_content("#notice-text") or "")
        page.fill("#new-key", "sk-right")
        page.press("#new-key", "Enter")
        visit.wait("window.antiphon.status === 'listening'")
        assert page.evaluate("sessionStorage.getItem('antiphon.key')") == "sk-right"
        assert not page.is_visible("#ask-key")
        assert not page.is_visible("#notice[data-code^=link]")
