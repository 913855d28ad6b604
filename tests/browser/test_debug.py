"""The debug panel: there when it is asked for, and it shows what happens."""

from __future__ import annotations

import re

import pytest
from tests.support.server import Server

from .chromium import Visit, visiting

pytestmark = [
    pytest.mark.models,
    pytest.mark.server,
    pytest.mark.browser,
    pytest.mark.timeout(120),
]

_COLORS = """() => {
  const shown = document.querySelector("#debug-timeline");
  const { width, height } = shown;
  const pen = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  pen.drawImage(shown, 0, 0);
  const { data } = pen.getImageData(0, 0, width, height);
  const colors = new Set();
  for (let i = 0; i < data.length; i += 4)
    if (data[i + 3] === 255) colors.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
  return [...colors];
}"""
"""The solid colours on the time line."""


def color(visit: Visit, name: str) -> str:
    """Return a colour of the page as ``_COLORS`` names it."""
    read = "(name) => getComputedStyle(document.body).getPropertyValue(name).trim()"
    text = visit.page.evaluate(read, name)
    return ",".join(str(int(text[at : at + 2], 16)) for at in (1, 3, 5))


def test_there_is_no_panel_unless_it_is_asked_for(scripted_server: Server) -> None:
    with visiting(scripted_server.url) as visit:
        assert visit.page.locator(".debug").count() == 0
        loaded = visit.page.evaluate(
            "() => performance.getEntriesByType('resource').map(({ name }) => name)"
        )
        assert any("app.js" in name for name in loaded)
        assert not [name for name in loaded if "debug" in name]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_panel_shows_a_reply_in_pictures_and_words(
    scripted_server: Server, scheme: str
) -> None:
    with visiting(scripted_server.url, "--deny-permission-prompts", query="?debug") as visit:
        page = visit.page
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.wait_for_selector("#debug-timeline")
        assert "No reply yet" in page.inner_text("#debug-summary")
        before = set(page.evaluate(_COLORS))
        assert color(visit, "--response-fill") not in before

        page.fill("#message", "Why is the sky blue?")
        page.press("#message", "Enter")
        visit.wait("window.antiphon.playback.playedMs > 1500")
        visit.wait("/TTFA \\d+ ms/.test(document.querySelector('#debug-summary').textContent)")
        text = page.inner_text("#debug-summary")
        assert re.search(r"buffered \d+\.\d s", text)
        assert re.search(r"\d+ chunks? of \d", text)
        assert re.search(r"in \d", text)
        drawn = set(page.evaluate(_COLORS))
        assert {color(visit, "--response-fill"), color(visit, "--ink")} <= drawn

        page.click("#interrupt")
        page.click(".debug summary")
        page.wait_for_selector("#debug-replies tbody tr")
        cells = page.locator("#debug-replies tbody td").all_inner_texts()
        assert len(cells) == page.locator("#debug-replies th").count()
        assert re.fullmatch(r"\d+ ms", cells[0])
        assert color(visit, "--call") in page.evaluate(_COLORS)
        assert visit.errors == []


def test_the_panel_fits_a_phone(scripted_server: Server) -> None:
    with visiting(scripted_server.url, query="?debug") as visit:
        visit.page.set_viewport_size({"width": 360, "height": 700})
        visit.page.wait_for_selector("#debug-timeline")
        wide = visit.page.evaluate("() => document.documentElement.scrollWidth")
        assert wide == 360
        assert visit.page.locator("#talk").is_visible()
        box = visit.page.locator("main").bounding_box()
        assert box is not None
        assert box["height"] > 120
