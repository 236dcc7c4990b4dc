"""What the page looks like: contrast, themes, accessibility, a phone."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.app.steps import ROOT, ask, hold, open_settings, player, wait_done, wait_status

pytestmark = pytest.mark.browser


def contrast(page, selector: str) -> float:
    """Contrast of an element's text against the nearest painted background."""
    return page.eval_on_selector(
        selector,
        """element => {
          const parse = (c) => c.match(/[\\d.]+/g).map(Number);
          const linear = (v) => v <= 10 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4;
          const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
          const painted = (e) => parse(getComputedStyle(e).backgroundColor);
          let back = element;
          while (back.parentElement && (painted(back)[3] ?? 1) < 1) back = back.parentElement;
          const a = light(parse(getComputedStyle(element).color)), b = light(painted(back));
          return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        }""",
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast(stub_server, visit, theme):
    page = visit(stub_server, theme=theme)
    for selector in (".gl-versus", ".gl-stats dt", ".gl-badge", ".gl-good", ".gl-hint", ".gl-legend li", ".gl-say",
                     ".gl-question", ".gl-play", ".gl-tabs button", ".gl-foot", "#status .gl-status"):  # fmt: skip
        assert contrast(page, selector) >= 4.5, selector


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figures_on_bars_can_be_read(stub_server, visit, theme):
    """A bar is a half transparent layer over its cell's ground, which no tool sees."""
    page = visit(stub_server, theme=theme)
    for kind in ("draft", "target"):
        page.evaluate(
            """kind => {
              const bar = document.createElement('p');
              bar.className = 'mixed gl-bar gl-bar-' + kind;
              document.querySelector('#view .gl-root').append(bar);
              const pen = document.createElement('canvas').getContext('2d');
              for (const layer of ['--gl-grid', '--gl-bar']) {
                pen.fillStyle = getComputedStyle(bar).getPropertyValue(layer);
                pen.fillRect(0, 0, 1, 1);
              }
              bar.style.background = 'rgb(' + pen.getImageData(0, 0, 1, 1).data.slice(0, 3) + ')';
            }""",
            kind,
        )
        assert contrast(page, ".mixed") >= 4.5, kind
        page.evaluate("document.querySelector('.mixed').remove()")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_the_page(stub_server, visit, theme):
    page = visit(stub_server, theme=theme)
    open_settings(page)
    page.wait_for_selector("#seen button[aria-label='The picture that the model sees']")
    found = Axe().run(page).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:120]) for v in found if v["impact"] in ("serious", "critical")] == []


def test_dark_theme_reaches_the_figures(stub_server, visit):
    colours = []
    for theme in ("light", "dark"):
        page = visit(stub_server, theme=theme)
        colours.append(player(page, "[P.parts.plot.layout.font.color, P.timeline.plot.layout.font.color]"))
    assert colours[0] != colours[1] and len(set(colours[0])) == 1
    page.evaluate("document.body.classList.remove('dark')")
    page.wait_for_function(
        "c => document.querySelector('#view .gl-root').player.parts.plot.layout.font.color === c", arg=colours[0][0]
    )


@pytest.mark.parametrize("width", [1600, 1920, 2560])
def test_a_wide_page_stands_in_the_middle_and_the_tour_beside_the_charts(stub_server, visit, width):
    page = visit(stub_server, width=width)
    page.click("[data-action=tour]")
    left, right, charts, card = page.evaluate(
        """['main', 'main', '#watch', '.gl-tour'].map((s, i) => {
          const { left, right } = document.querySelector(s).getBoundingClientRect();
          return i % 2 ? right : left;
        })"""
    )
    assert left == pytest.approx(width - right) and left < card < charts


def test_a_projector_enlarges_all_of_the_page(stub_server, visit):
    page = visit(stub_server)
    page.click("[data-action=projector]")
    small = page.evaluate(
        """[...document.querySelectorAll('#ask *, #watch .label-wrap *')]
          .filter((e) => e.checkVisibility() && parseFloat(getComputedStyle(e).fontSize) < 16)
          .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())).map((e) => e.textContent)"""
    )
    assert small == []


def test_a_run_keeps_status_and_stop_in_sight_of_a_projector(stub_server, visit):
    page = visit(stub_server, width=1400, height=800)
    page.click("[data-action=projector]")
    ask(page, "glacial")
    wait_status(page, "Decoding")
    for part in ("#status", "#stop"):
        box = page.locator(part).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 800
    page.click("[data-action=tour]")
    page.wait_for_function("() => document.querySelector('.gl-tour-text').textContent.includes('under way')")
    page.click(".gl-tour .gl-play", trial=True)  # nothing lies over it
    page.click(".gl-tour .gl-close")
    page.click("#stop")
    page.wait_for_selector("#go:not([disabled])")
    assert page.locator("#status").evaluate("e => getComputedStyle(e).position") != "fixed"


PRINTED = """() => {
  const shown = (s) => [...document.querySelectorAll(s)].filter((e) => e.checkVisibility());
  const boxes = shown('.gl-root, .gl-root *').filter((e) => ['auto', 'scroll'].includes(getComputedStyle(e).overflowY));
  const wide = shown('.gl-time .main-svg, .gl-figure .main-svg')
    .filter((e) => e.getBoundingClientRect().right > innerWidth);
  return [boxes, wide].map((list) => list.map((e) => e.getAttribute('class')));
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_printed_page_shows_what_is_to_be_read_and_all_of_it(stub_server, visit, theme):
    page = visit(stub_server, theme=theme)
    page.click("[data-action=tour]")
    page.set_viewport_size({"width": 760, "height": 900})
    page.emulate_media(media="print")
    page.wait_for_function("() => !document.body.classList.contains('dark')")
    for kind in ("question", "lane .gl-text", "lane dd", "time", "say", "tree", "facts"):
        assert page.is_visible(f"{ROOT} .gl-{kind}"), kind
    pressed = [f"{kind}:visible" for kind in ("button:not(:has(img))", "input", "select", "textarea", ".gl-tour")]
    assert page.locator(", ".join(pressed)).count() == 0
    assert page.evaluate(PRINTED) == [[], []]
    page.emulate_media(media="screen")
    page.wait_for_function("dark => document.body.classList.contains('dark') === dark", arg=theme == "dark")
    assert page.is_visible(".gl-controls") and page.is_visible("#go")


def test_phone(stub_server, visit):
    page = visit(stub_server, width=390, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    tree = page.locator(".gl-tree")
    assert tree.evaluate("e => e.scrollWidth > e.clientWidth")
    assert page.is_visible("#go") and page.is_visible("#stop")
    for name in ("first", "previous", "play", "next", "last"):
        box = page.locator(f"[data-action={name}]").first.bounding_box()
        assert box["height"] >= 44 and box["width"] >= 44, name
    for button in page.locator(f"{ROOT} button:visible").all():
        assert button.bounding_box()["height"] >= 44, button.inner_text()
    player(page, "P.play(true)")
    player(page, "P.seek(200)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_run_on_a_phone_speaks_and_can_be_stopped_beside_the_lanes(stub_server, visit):
    """Its own place is far below them. What still stands in the lanes is pale: it is not the answer."""
    page = visit(stub_server, width=390, height=844)
    page.locator("#go").scroll_into_view_if_needed()
    join = hold(page, "**/queue/join*")
    ask(page, "glacial")
    route = join()
    page.wait_for_function("() => +getComputedStyle(document.querySelector('#view .gl-lanes')).opacity < 0.5")
    route.continue_()
    wait_status(page, "Decoding")
    for part in ("#status", "#stop"):
        box = page.locator(part).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 844
    assert abs(page.locator("#view").bounding_box()["y"]) < 400
    page.wait_for_function("() => +getComputedStyle(document.querySelector('#view .gl-lanes')).opacity === 1")
    page.click("#stop")
    page.wait_for_selector("#go:not([disabled])")
    assert page.locator("#status").evaluate("e => getComputedStyle(e).position") != "fixed"


def test_two_lanes_chosen_on_a_phone(stub_server, visit):
    page = visit(stub_server, width=390, height=844)
    open_settings(page)
    page.click("#lanes label:has-text('Autoregressive')")
    page.locator("#go").scroll_into_view_if_needed()
    assert page.evaluate("document.querySelector('#view').getBoundingClientRect().top") < 0
    ask(page, "Which two?")
    wait_done(page, "first")
    assert page.evaluate("document.querySelector('#view').getBoundingClientRect().top") >= -1
    names = page.locator(".gl-lane h2 span:not(.gl-badge)").all_inner_texts()
    assert names == ["EAGLE-3", "GLANCE"]
    assert page.inner_text(".gl-lane[data-lane=eagle3] .gl-badge") == "reference"
    assert page.locator(".gl-tabs button").count() == 2
