"""Moving through a run on the page, by mouse and by keyboard."""

import pytest

from glance import trace
from tests.app import fake
from tests.app.steps import ROOT, data, player, stat

pytestmark = pytest.mark.browser


def test_keyboard(page):
    page.focus(".gl-tree")
    page.keyboard.press("Home")
    assert float(data(page, "t")) == 0
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert data(page, "round") == "1" and data(page, "phase") == "done"
    page.keyboard.press("ArrowLeft")
    assert data(page, "round") == "0" and stat(page, "glance", 1) == "1"
    page.keyboard.press("End")
    assert float(data(page, "t")) == pytest.approx(player(page, "P.run.total"), rel=1e-3)
    page.focus(".gl-tabs [aria-checked=true]")
    page.keyboard.press("ArrowRight")
    assert data(page, "chosen") == "autoregressive"
    page.focus(".gl-scrub")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert data(page, "round") == "0" and "Round 1 of" in page.get_attribute(".gl-scrub", "aria-valuetext")
    page.focus(".gl-tree")
    page.keyboard.press("Space")
    assert data(page, "playing") == "1"
    page.keyboard.press("Space")
    assert data(page, "playing") == ""


def test_a_click_on_the_text_shows_its_round(page):
    player(page, "P.seek(Infinity)")
    page.locator(".gl-lane[data-lane=eagle3] [data-r='2']").click()
    assert data(page, "chosen") == "eagle3" and data(page, "round") == "2"
    assert page.inner_text(".gl-position") == f"Round 3 of {player(page, 'P.lane.rounds.length')}"
    assert page.locator(".gl-lane[data-lane=eagle3] [data-r='2'].gl-selected").count() == 1


def test_a_click_on_the_time_line_shows_its_round(page):
    place = player(
        page,
        """(() => {
      P.parts.timeWrap.scrollIntoView({ block: 'center' });
      const m = P.timeline.metrics(), box = P.timeline.plot.getBoundingClientRect(), lane = P.run.lanes[1];
      const t = (lane.start[4] + lane.end[4]) / 2;
      return [box.left + m.left + m.width * t / P.run.total, box.top + m.top + m.height * 0.5];
    })()""",
    )
    page.mouse.click(*place)
    assert (data(page, "chosen"), data(page, "round"), data(page, "phase")) == ("eagle3", "4", "done")
    assert page.locator(".gl-lane[data-lane=eagle3] [data-r='4'].gl-selected").count() == 1


def test_tree_of_a_round(page):
    rnd = trace.read("".join(fake.lines())).lane("glance").rounds[2]
    player(page, "P.seek(P.run.byId.get('glance').end[2])")
    sizes = player(page, "P.parts.plot.data.filter((d) => d.customdata).map((d) => d.x.length)")
    assert sizes == [len(rnd.tokens) - len(rnd.accepted), len(rnd.accepted)]
    symbols = player(page, "P.parts.plot.data.map((d) => d.marker && d.marker.symbol)")
    assert symbols.count("diamond") == 1
    labels = [label.strip("\u2068\u2069") for label in player(page, "P.microscope.scene.labels.map((l) => l.text)")]
    named = player(page, f"[{rnd.root}, {rnd.bonus}, ...{[*rnd.tokens]}].map((id) => P.run.label(id, 8))")
    assert [label for label in named if label[:5] not in {x[:5] for x in labels}] == []
    ink = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((v) => v)"
    assert page.eval_on_selector(".gl-canvas", ink)
    assert f"accepted {len(rnd.accepted)}" in page.inner_text(".gl-say")
    page.click(".gl-table summary")
    page.wait_for_selector(".gl-tablebody tr")
    assert page.locator(".gl-tablebody tbody tr").count() == len(rnd.tokens)
    assert page.locator(".gl-tablebody .gl-yes").count() == len(rnd.accepted)


def test_phases_within_a_round(page):
    seen = []
    for fraction in (0.02, 0.5, 1.0):
        player(page, f"P.seek(P.lane.start[1] + {fraction} * P.lane.rounds[1].total)")
        seen.append(data(page, "phase"))
    assert seen == ["draft", "verify", "done"]


def test_slow_motion_plays_one_round(page):
    player(page, "P.seek(P.run.byId.get('glance').end[4])")
    page.evaluate(
        """root => { const phases = window.phases = new Set(), { dataset } = root = document.querySelector(root);
        const note = () => phases.add(dataset.phase).add(dataset.playing);
        new MutationObserver(note).observe(root, { attributes: true }); }""",
        ROOT,
    )
    page.click("[data-action=slow]")
    page.wait_for_function("() => ['1', 'draft', 'build', 'verify'].every((phase) => phases.has(phase))")
    page.wait_for_selector(f"{ROOT}[data-playing='']")
    assert data(page, "round") == "4" and data(page, "phase") == "done"


def test_a_candidate_that_was_not_taken_says_what_it_was(page):
    """Its disc is on the canvas, its words hang in the figure."""
    player(page, "P.seek(P.run.byId.get('glance').end[2])")
    place = """(() => {
      P.parts.tree.scrollIntoView({ block: 'start' });
      const box = P.parts.plot.getBoundingClientRect(), { x, y } = P.microscope.scene.others;
      return [box.left + x[0], box.top - y[0]];
    })()"""
    page.mouse.move(*player(page, place))
    page.wait_for_function("() => document.querySelector('.gl-plot .hovertext')")
    assert "not on the target’s path" in page.locator(".gl-plot .hovertext").text_content()
