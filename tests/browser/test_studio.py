"""A person makes pictures in the studio: they form, stay, are compared, and go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Route

from antiphon.engines.diffusion.named import EMBEDDED, abilities_of
from antiphon.engines.diffusion.switches import DiffuserConfig

from .chromium import Visit, visiting
from .studio_site import Site, picture, studio

DRAW = abilities_of(DiffuserConfig(path=EMBEDDED["antiphon-draw"]))

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


@pytest.fixture
def site() -> Iterator[Site]:
    with studio() as each:
        yield each


def shows(visit: Visit, selector: str = ".tile img") -> None:
    """The picture has come, in its own size."""
    visit.wait(f"document.querySelector('{selector}')?.naturalWidth === 64")
    visit.wait(f"!document.querySelector('{selector}').hidden")


def state(visit: Visit, name: str) -> None:
    """The newest picture is so far."""
    visit.wait(f"document.querySelector('.tile')?.dataset.state === '{name}'")


def text(page: Page, selector: str) -> str:
    return page.locator(selector).first.inner_text()


def test_a_picture_forms_stays_and_is_made_again(site: Site) -> None:
    with visiting(site.url, query="studio") as visit:
        page = visit.page
        assert not page.is_visible("#untrained")
        examples = page.locator("#examples button")
        assert examples.all_inner_texts() == list(DRAW.examples[:8])
        page.fill("#prompt", "a red cat")
        page.click("#shapes label:has-text('Wide')")
        page.press("#prompt", "Enter")
        state(visit, "queued")
        (job,) = site.jobs
        (task,) = job.tasks
        assert (task.prompt, task.width, task.height) == ("a red cat", 80, 56)
        assert (task.model, task.steps, task.guidance) == (
            *("antiphon-draw", DRAW.steps, DRAW.guidance),
        )
        box = page.locator(".tile .open").bounding_box()
        site.begin(job.id)
        site.progress(job.id, 42, picture("blue", "jpeg"))
        visit.wait("document.querySelector('.tile .said').textContent === '42 %, 1 s left'")
        shows(visit)
        assert page.locator(".tile .beats .done").count() == 12
        site.complete(job.id)
        state(visit, "completed")
        shows(visit)
        assert page.locator(".tile .open").bounding_box() == box, "nothing moves as it comes"
        page.reload()
        visit.wait("window.antiphon?.status === 'idle'")
        state(visit, "completed")
        shows(visit)
        assert page.input_value("#prompt") == "a red cat"
        it_is_looked_at_and_made_again(visit, site)
        assert visit.errors == []


def it_is_looked_at_and_made_again(visit: Visit, site: Site) -> None:
    page, seed = visit.page, site.jobs[0].tasks[0].seed
    page.click(".tile .open")
    shows(visit, "#viewer-image")
    assert page.locator("#viewer-facts dd").all_inner_texts()[:2] == ["antiphon-draw", "80 × 56"]
    page.click("#viewer-call summary")
    assert f'"seed":{seed}' in text(page, "#call-text")
    page.click("#viewer-again")
    visit.wait("!document.querySelector('#viewer').open")
    assert page.input_value("#seed") == str(seed)
    visit.wait("document.activeElement.id === 'prompt'")
    page.click(".tile .open")
    page.click("#viewer-anew")
    visit.until(lambda: len(site.jobs) == 2, "another one was asked for")
    (first,), (second,) = (job.tasks for job in site.jobs)
    assert (second.prompt, second.width, second.steps) == (first.prompt, first.width, first.steps)
    assert second.seed != first.seed
    visit.wait(f"document.querySelector('.tile').dataset.key === '{site.jobs[1].id}/0'")


def lose(route: Route) -> None:
    """Lose the answer on the way."""
    route.fetch()
    route.abort()


def test_it_can_be_cancelled_and_refusals_say_what_to_do() -> None:
    random = {"noise": "placeholder-image"}
    with (
        studio(queue=1, models=random) as site,
        visiting(site.url, query="studio") as visit,
    ):
        assert visit.page.is_visible("#untrained")
        page = visit.page
        page.click("#make")
        assert text(page, "#fault") == "Say first what it should show."
        assert site.jobs == []
        page.fill("#prompt", "a dog")
        page.route("**/v1/jobs", lose, times=1)
        page.click("#make")
        state(visit, "queued")
        (job,) = site.jobs
        site.begin(job.id)
        visit.wait("document.querySelector('#standing').textContent === '1 under way'")
        page.click(".tile [data-act=stop]")
        state(visit, "cancelled")
        assert site.desk.cancelled == [job.id]
        page.click("#make")
        state(visit, "queued")
        page.click("#make")
        page.wait_for_selector("#notice-again")
        assert "queue is full" in text(page, "#notice-text")
        site.fail(site.jobs[-1].id, "out_of_memory")
        state(visit, "failed")
        assert "Try fewer pixels" in text(page, ".tile .said")
        page.click("#notice-again")
        state(visit, "queued")
        assert not page.is_visible("#notice")
        assert len(site.jobs) == 3


def test_two_are_compared(site: Site) -> None:
    site.complete(site.add("image", "a cat"), picture("red"))
    site.complete(site.add("image", "a cat", steps=30), picture("blue"))
    site.complete(site.add("video", "a ball"))
    with visiting(site.url, query="studio") as visit:
        page = visit.page
        page.click("#show label:has-text('Pictures')")
        visit.wait("document.querySelectorAll('.tile').length === 2")
        page.hover(".tile >> nth=0")
        page.click(".tile >> nth=0 >> [data-act=compare]")
        page.click(".tile >> nth=1 >> .open")
        visit.wait("document.querySelectorAll('#compare-two img').length === 2")
        shows(visit, "#compare-two img")
        rows = page.locator("#compare-rows tr[data-differs=true]").all_inner_texts()
        assert [row.split("\t")[1:] for row in rows] == [["30", "20"], ["1001", "1000"]]
        page.keyboard.press("Escape")
        page.click("#show label:has-text('Clips')")
        page.click(".tile .open")
        visit.wait("document.querySelector('#viewer-video').currentTime > 0")
        assert visit.errors == []


def test_everything_by_keyboard(site: Site) -> None:
    for number in range(30):
        site.complete(site.add("image", f"picture {number}"))
    with visiting(site.url, query="studio") as visit:
        page, press = visit.page, visit.page.keyboard.press
        press("?")
        visit.wait("document.querySelector('#keys').open")
        press("Escape")
        press("/")
        page.keyboard.type("a fox")
        press("Enter")
        state(visit, "queued")
        page.evaluate("document.activeElement.blur()")
        press("g")
        press("x")
        state(visit, "cancelled")
        press("ArrowRight")
        press("Enter")
        visit.wait("document.querySelector('#viewer-title').textContent === 'picture 29'")
        press("ArrowRight")
        visit.wait("document.querySelector('#viewer-title').textContent === 'picture 28'")
        press("Escape")
        # The focus is on what was looked at last.
        visit.wait("document.activeElement.ariaLabel === 'Picture: picture 28'")
        press("Delete")
        visit.wait("document.querySelector('#sure').open")
        press("Enter")
        visit.wait("!document.querySelector('[title^=\"picture 28\"]')")
        assert len(site.jobs) == 30
        visit.wait("document.activeElement.closest('.tile')")
        press("End")
        visit.wait("document.querySelectorAll('.tile').length === 30")
        assert visit.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_without_scrolling_sideways(site: Site, scheme: Any) -> None:
    for number in range(3):
        site.complete(site.add("image", f"a picture with a long prompt, number {number}"))
    site.add("image", "one that waits")

    def prepare(page: Page) -> None:
        page.set_viewport_size({"width": 360, "height": 740})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")

    with visiting(site.url, query="studio", prepare=prepare) as visit:
        page = visit.page
        visit.wait("document.querySelectorAll('.tile').length === 4")
        page.click("#more summary")
        assert page.evaluate("() => document.documentElement.scrollWidth") == 360
        paper = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        light = sum(int(each) for each in paper[4:-1].split(",")) > 380
        assert light == (scheme == "light")
        page.click(".tile >> nth=1 >> .open")
        shows(visit, "#viewer-image")
        assert page.evaluate("() => document.querySelector('#viewer').scrollWidth") == 360
        assert visit.errors == []


def remember_key(page: Page) -> None:
    """Have the tab know the key already, unless it knows another."""
    known = "sessionStorage.getItem('antiphon.key')"
    page.add_init_script(f"{known} ?? sessionStorage.setItem('antiphon.key', 'sk-right')")


def test_a_key_is_asked_for_and_pictures_come_with_it() -> None:
    with (
        studio(keys=("sk-right",)) as site,
        visiting(site.url, query="studio", prepare=remember_key) as visit,
    ):
        page = visit.page
        page.fill("#prompt", "a cat")
        page.click("#make")
        state(visit, "queued")
        site.complete(site.jobs[0].id)
        shows(visit)
        page.evaluate("() => sessionStorage.setItem('antiphon.key', 'sk-wrong')")
        page.reload()
        page.wait_for_selector("#key-why[data-reason=wrong]")
        page.fill("#new-key", "sk-right")
        page.press("#new-key", "Enter")
        shows(visit)
        assert not page.is_visible("#notice")


DROP = """(bytes) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([new Uint8Array(bytes)], "mine.png", { type: "image/png" }));
  const area = document.querySelector("#drop");
  area.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true }));
}"""


def test_a_picture_goes_in_by_dropping_it(site: Site) -> None:
    with visiting(site.url, query="studio") as visit:
        page = visit.page
        page.evaluate(DROP, list(picture()))
        visit.wait("document.querySelector('#picture').naturalWidth === 64")
        page.fill("#strength", "0.5")
        page.fill("#prompt", "in oils")
        page.click("#make")
        state(visit, "queued")
        (job,) = site.jobs
        assert job.tasks[0].strength == 0.5
        assert list(job.tasks[0].inputs) == ["image"]
        site.complete(job.id)
        state(visit, "completed")
        page.click("#drop-picture")
        page.click(".tile .open")
        page.click("#viewer-again")
        # What went in comes back with the other settings.
        visit.wait("document.querySelector('#picture').naturalWidth === 64")
        assert page.input_value("#strength") == "0.5"
        assert visit.errors == []
