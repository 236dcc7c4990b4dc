"""The guided tour drives the player."""

import pytest

from glance import trace
from tests.app import fake
from tests.app.alone import PLAIN, TOURS, focused, start_tour
from tests.app.steps import data, feed, player

pytestmark = pytest.mark.browser


@pytest.fixture
def page(alone):
    return alone


def test_the_tour_drives_the_player(page):
    start_tour(page)
    seen = []
    for number in range(1, 9):
        card = page.locator(f".gl-tour[data-step='{number}']")
        text = card.locator(".gl-tour-text").inner_text() + card.locator(".gl-notes").inner_text()
        assert "{" not in text, "a figure was not filled in"
        assert f"{number} of 8" in card.inner_text()
        seen.append((data(page, "chosen"), page.locator(".gl-pointed").count()))
        if number < 8:
            page.keyboard.press("PageDown")
    assert [lane for lane, _ in seen[:7]] == [
        "glance", "eagle3", "glance", "glance", "glance", "eagle3", "glance",
    ]  # fmt: skip
    page.keyboard.press("PageUp")
    assert page.get_attribute(".gl-tour", "data-step") == "7"
    assert page.locator(".gl-pointed").count() == 1
    run = trace.read(PLAIN)
    fewest = min(len(r.emitted) for r in run.lane("glance").rounds)
    assert len(run.lane("glance").rounds[int(data(page, "round"))].emitted) == fewest
    page.keyboard.press("Escape")
    assert page.locator(".gl-tour").count() == 0 and page.locator(".gl-pointed").count() == 0
    assert page.evaluate("document.activeElement.dataset.action") == "tour"


def test_the_tour_by_buttons(page):
    start_tour(page)
    assert focused(page) == "Next"
    page.keyboard.press("Enter")
    assert page.get_attribute(".gl-tour", "data-step") == "2"
    page.focus(".gl-tour .gl-back")
    page.keyboard.press("Enter")
    assert page.get_attribute(".gl-tour", "data-step") == "1"
    assert focused(page) == "Back" and page.is_disabled(".gl-tour .gl-back")
    page.click(".gl-tour .gl-close")
    assert page.locator(".gl-tour").count() == 0


OPEN = """texts => {
  const P = document.querySelector('main').player, { tour } = P;
  tour.files = texts;
  tour.steps = texts.map(Glance.parseStep);
  P.parts.tour.hidden = false;
  window.asked = [];
  P.options.examples = Object.fromEntries(tour.steps.map(({ example }) => [example, example]));
  P.options.open = (name) => { window.asked.push(name); return true; };
}"""


def test_a_step_waits_for_its_run_however_fast_one_goes(page):
    """Runs come from the server one after another; the step on show is the last one that was asked for."""
    page.evaluate(OPEN, TOURS)
    examples = player(page, "P.tour.steps.slice(0, 4).map((step) => step.example)")
    runs = {name: "".join(fake.lines(run=name, seed=i)) for i, name in enumerate(sorted({*examples}))}
    page.click("[data-action=tour]")
    feed(page, runs[examples[0]])
    for _ in range(3):
        page.keyboard.press("PageDown")
    assert page.get_attribute(".gl-tour", "data-step") == "4"
    assert "One moment" in page.inner_text(".gl-tour-text")
    served = 0
    while served < len(page.evaluate("window.asked")):
        feed(page, runs[page.evaluate("window.asked")[served]])
        served += 1
    assert data(page, "run") == examples[3]
    assert "One moment" not in page.inner_text(".gl-tour-text")
    lane = trace.read(runs[examples[3]]).lane("glance")
    longest = max(len(r.accepted) for r in lane.rounds)
    assert data(page, "chosen") == "glance" and len(lane.rounds[int(data(page, "round"))].accepted) == longest
    page.clock.install()
    page.keyboard.press("PageUp")
    page.clock.fast_forward(60_000)
    page.wait_for_function("() => document.querySelector('.gl-tour-text').textContent.includes('did not arrive')")
    for key in ("PageUp", *["PageDown"] * 6):  # a step that needs no run does not wait for one for ever
        page.keyboard.press(key)
    page.clock.fast_forward(60_000)
    page.wait_for_function("() => document.querySelector('.gl-tour-text').textContent.includes('press Run')")
    page.evaluate("() => { const P = document.querySelector('main').player; P.tour.close(); P.options = {}; }")


def test_the_tour_waits_for_a_run_that_is_under_way(page):
    """What is kept is the run as it ended, and nothing ends it."""
    page.evaluate(OPEN, TOURS)
    player(page, "(window.kept = 0, P.options.keep = () => { window.kept += 1; }, P.options.busy = () => true)")
    name = player(page, "P.tour.steps[0].example")
    page.click("[data-action=tour]")
    page.wait_for_function("() => document.querySelector('.gl-tour-text').textContent.includes('under way')")
    assert page.evaluate("[window.asked.length, window.kept]") == [0, 0]
    player(page, "P.options.busy = () => false")
    page.wait_for_function("() => window.asked.length === 1")
    assert page.evaluate("[window.asked[0], window.kept]") == [name, 1]
    feed(page, "".join(fake.lines(run=name)))
    assert "under way" not in page.inner_text(".gl-tour-text")
    feed(page, "".join(fake.lines(run="own")))
    page.keyboard.press("PageDown")
    assert page.evaluate("[window.asked.length, window.kept]") == [2, 2]  # a run made during the tour is kept too
    feed(page, "".join(fake.lines(run=page.evaluate("window.asked[1]"))))
    page.keyboard.press("Escape")
    feed(page, PLAIN)
    player(page, "(P.options.busy = () => true, P.options.back = () => { window.kept += 10; }, 0)")
    page.click("[data-action=tour]")
    page.keyboard.press("Escape")
    assert page.evaluate("window.kept") == 2  # it never began
    player(page, "(P.options = {}, 0)")


def test_the_tour_asks_for_what_was_there_only_where_its_own_run_stands(page):
    """Not where a visitor has run something since; also where its run comes after it was closed."""
    page.evaluate(OPEN, TOURS)
    player(page, "(window.back = 0, P.options.back = () => { window.back += 1; })")
    name = player(page, "P.tour.steps[0].example")
    shown, own = ("".join(fake.lines(run=run)) for run in (name, "own"))
    for runs, asks in (((), 0), ((shown,), 1), ((shown, own), 0)):
        feed(page, PLAIN)
        page.evaluate("window.back = 0")
        page.click("[data-action=tour]")
        for run in runs:
            feed(page, run)
        page.keyboard.press("Escape")
        assert page.evaluate("window.back") == asks
    feed(page, PLAIN)
    page.click("[data-action=tour]")
    page.keyboard.press("Escape")
    assert page.evaluate("window.back") == 0
    feed(page, shown)
    assert page.evaluate("window.back") == 1
    player(page, "(P.options = {}, 0)")
