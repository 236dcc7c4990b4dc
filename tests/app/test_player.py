"""What the player draws and says, in a page by itself that needs no server."""

import json
import math

import pytest
from axe_playwright_python.sync_playwright import Axe

from glance import trace
from glance.examples import shipped
from tests.app import fake
from tests.app.alone import EMOJI, PLAIN, TOURS, focused, start_tour
from tests.app.steps import data, feed, player

pytestmark = pytest.mark.browser


@pytest.fixture
def page(alone):
    return alone


def ranks(rnd: trace.Round) -> list[int]:
    """Of each node: 1 for the drafter's favourite after its parent, 2 for the next."""
    key = lambda i: (-rnd.log_q[i], i)  # noqa: E731
    return [
        1 + sum(key(j) < key(i) for j in range(len(rnd.tokens)) if rnd.parents[j] == rnd.parents[i])
        for i in range(len(rnd.tokens))
    ]


def outweighed(rnd: trace.Round) -> dict[int, float]:
    """Of each accepted node: how much likelier, in nats, the drafter found its favourite after the same parent."""
    best = {
        parent: max(q for q, p in zip(rnd.log_q, rnd.parents, strict=True) if p == parent) for parent in rnd.parents
    }
    return {i: best[rnd.parents[i]] - rnd.log_q[i] for i in rnd.accepted}


def expected_surprises(run: trace.Trace, lane: trace.Lane) -> dict[int, set[str]]:
    """Round -> kinds of surprise, by the issue's definitions."""
    entropies = sorted(r.entropy for x in run.lanes for r in x.rounds)
    limit = entropies[-(-9 * len(entropies) // 10) - 1]
    reach = max((max(r.depths, default=0) for r in lane.rounds), default=0)
    found = {}
    for k, rnd in enumerate(lane.rounds):
        kinds = set()
        if rnd.entropy > limit and rnd.entropy >= 0.5:
            kinds.add("unsure")
        if len(rnd.accepted) >= 8 or (1 < len(rnd.accepted) == reach):
            kinds.add("right")
        if any(nats >= math.log(2) for nats in outweighed(rnd).values()):
            kinds.add("its favourite looked")
        if kinds:
            found[k] = kinds
    return found


def test_surprising_rounds_are_found_and_explained(page):
    run = trace.read(PLAIN)
    all_kinds = set()
    for order, lane in enumerate(run.lanes):
        wanted = expected_surprises(run, lane)
        got = player(page, f"Glance.surprising(P.run, P.run.lanes[{order}]).list")
        assert got == list(wanted)
        for k, kinds in wanted.items():
            player(page, f"P.goTo({order}, {k})")
            words = page.inner_text(".gl-why")
            assert words.startswith("Worth a look: ") and all(kind in words for kind in kinds)
            all_kinds |= kinds
        common = next(k for k in range(len(lane.rounds)) if k not in wanted)
        player(page, f"P.goTo({order}, {common})")
        assert page.inner_text(".gl-why") == ""
    assert all_kinds == {"unsure", "right", "its favourite looked"}


def test_a_single_chain_stops_at_its_first_turn(page):
    """The page speaks of the widest turn of a round; a chain of favourites stops at the first one."""
    clauses = set()
    for example in shipped():
        feed(page, example.trace)
        run = trace.read(example.trace)
        for order, lane in enumerate(run.lanes):
            for k, rnd in enumerate(lane.rounds):
                turns, rank = outweighed(rnd), ranks(rnd)
                widest = max((i for i in turns if turns[i] >= math.log(2)), key=turns.get, default=None)
                of = f"P.run.lanes[{order}]"
                words = player(page, f"JSON.stringify(Glance.surprises(P.run, {of}, {of}.rounds[{k}], 99))")
                first = next((i for i in rnd.accepted if rank[i] > 1), None)
                assert ("would have stopped there" in words) == (widest is not None and widest == first)
                assert ("stopped even before" in words) == (widest is not None and widest != first)
                clauses.add((widest is not None, widest == first))
    assert clauses >= {(True, True), (True, False)}
    feed(page, PLAIN)


def test_the_chosen_round_is_in_sight_in_its_lane(page):
    (text,) = [example.trace for example in shipped() if example.name == "documents-651"]
    feed(page, text)
    for order, lane in enumerate(trace.read(text).lanes):
        for k in (0, len(lane.rounds) // 2, len(lane.rounds) - 1):
            player(page, f"P.goTo({order}, {k})")
            box, chosen = page.evaluate(
                """order => {
                  const text = document.querySelectorAll('.gl-lane .gl-text')[order];
                  return [text, text.querySelector('.gl-selected')].map((e) => e.getBoundingClientRect().toJSON());
                }""",
                order,
            )
            assert box["top"] - 4 <= chosen["top"] and chosen["top"] + 12 <= box["bottom"], (order, k)
    feed(page, PLAIN)


def test_the_keys_work_after_a_click_in_the_player(page):
    player(page, "P.goTo(2, 0)")
    page.click("[data-action=next]")
    page.keyboard.press("ArrowRight")
    assert data(page, "round") == "2"
    page.keyboard.press(" ")
    assert data(page, "round") == "3"  # it presses the button
    page.click(".gl-tabs [aria-checked=true]")
    page.keyboard.press("Home")
    page.keyboard.press("n")
    assert data(page, "round") != "3"
    page.click(".gl-legend")
    page.keyboard.press("End")
    assert data(page, "phase") == "done"
    chosen = data(page, "chosen")
    page.focus(".gl-tabs [aria-checked=true]")
    page.keyboard.press("ArrowLeft")
    assert data(page, "chosen") != chosen


def test_a_near_tie_is_no_other_model(page):
    """A pass over several rows may choose otherwise where two tokens are nearly tied; only beyond that is it told."""
    doubt = """(margins, others, step) => {
      const P = document.querySelector('main').player, found = { tokens: 4, agreeing: 4 - others, sampled: false };
      const player = { run: { header: { settings: { tie_threshold: step } } } };
      return Glance.Overlay.prototype.doubt.call({ player }, { margins }, found);
    }"""
    said = [
        page.evaluate(f"([a, b, c]) => ({doubt})(a, b, c)", case)
        for case in (
            [[2, 3], 0, 0.1],
            [[0.05, 3], 1, 0.1],
            [[2, 3], 1, 0.1],
            [[0.05, 3], 2, 0.1],
            [None, 1, 0],
            [[5e-4], 1, 0],
        )
    ]
    assert said[0] == "" and "nearly tied" in said[1]
    assert all("made with another one" in words for words in said[2:5]) and "nearly tied" in said[5]


def test_buttons_and_keys_go_to_surprising_rounds(page):
    run = trace.read(PLAIN)
    wanted = list(expected_surprises(run, run.lane("glance")))
    player(page, "P.seek(0)")
    page.focus(".gl-tree")
    seen = []
    while not page.is_disabled("[data-action=rare]"):
        page.keyboard.press("n")
        seen.append(int(data(page, "round")))
    assert seen == [k for k in wanted if k > 0]
    page.keyboard.press("p")
    assert int(data(page, "round")) == wanted[-2] and data(page, "phase") == "done"
    page.click("[data-action=rare]")
    assert int(data(page, "round")) == wanted[-1]


def test_a_run_that_breaks_off_is_drawn_as_far_as_it_came(page):
    """Also its last lines, which came too soon after the ones before to be drawn at once."""
    lines = fake.lines(run="torn")
    for count in (1, 2, 12):
        feed(page, "".join(lines[:count]))
    page.wait_for_function(
        "() => { const P = document.querySelector('main').player;"
        " return P.timeline.span === P.run.total && P.parts.position.textContent.startsWith('Round'); }"
    )
    assert data(page, "done") is None
    feed(page, PLAIN)


def test_what_the_drafter_thought_stands_beside_the_target(page):
    rnd = trace.read(PLAIN).lane("glance").rounds[1]
    player(page, "P.goTo(2, 1)")
    rows = page.locator(".gl-topstable tbody tr")
    assert rows.count() == len({*rnd.draft_top, *rnd.target_top})
    shares = page.locator(".gl-topstable td").evaluate_all("cells => cells.map((c) => c.textContent)")
    assert page.locator(".gl-topstable .gl-next").count() == (rnd.emitted[0] in {*rnd.draft_top, *rnd.target_top})
    assert any("90%" in share for share in shares)
    player(page, "P.goTo(0, 1)")  # an autoregressive round has no candidates, so here no figures either
    assert not page.is_visible(".gl-tops")
    feed(page, "".join(fake.lines(run="old")))  # a trace without these figures
    player(page, "P.goTo(2, 1)")
    assert not page.is_visible(".gl-tops")


def test_margin_rank_and_deferral_are_told(page):
    run = trace.read(PLAIN)
    rnd = run.lane("glance").rounds[3]
    assert rnd.deferred
    player(page, "P.goTo(2, 3)")
    assert f"margin {rnd.margin:.2f}" in page.inner_text(".gl-say") and "nearly tied" in page.inner_text(".gl-say")
    texts = [text.strip("\u2068\u2069") for text in player(page, "P.microscope.scene.labels.map((l) => l.text)")]
    assert {f"H {rnd.entropy:.2f}", f"Δ {rnd.margin:.2f}", "≈ deferred"} <= {*texts}
    assert page.locator(".gl-lane[data-lane=glance] [data-r='3'] .gl-deferred").count() == 1
    hover = player(page, "P.parts.plot.data.filter((d) => d.customdata).flatMap((d) => d.customdata.map((c) => c[4]))")
    assert sorted(hover) == sorted(ranks(rnd))


def test_a_deferral_that_left_no_token_marks_none(page):
    """Where the end cuts the target's own token, an accepted one stands last."""
    lines = [json.loads(line) for line in PLAIN.splitlines()]
    lines[0]["run"] = "cut"
    rnd = next(x for x in lines if x["kind"] == "round" and x["lane"] == "glance" and x["deferred"] and x["accepted"])
    rnd["bonus"] = None
    del rnd["emitted"][-1]
    feed(page, "".join(json.dumps(line) + "\n" for line in lines))
    player(page, f"P.goTo(2, {rnd['index']})")
    assert "nearly tied" not in page.inner_text(".gl-say")
    assert page.locator(f".gl-lane[data-lane=glance] [data-r='{rnd['index']}'] .gl-deferred").count() == 0


def test_a_round_that_is_not_there_is_not_gone_to(page):
    player(page, "P.goTo(2, 1)")
    before = data(page, "t")
    for place in ("9, 0", "0, 1e6", "2, -1"):
        player(page, f"P.goTo({place})")
        assert (data(page, "chosen"), data(page, "round"), data(page, "t")) == ("glance", "1", before)


def test_no_label_lies_on_another(page):
    """Nodes of one column keep their distance, also in the largest trees."""
    feed(page, "".join(fake.lines(budget=63, run="large")))
    for order in (1, 2):
        gaps = player(
            page,
            f"""P.run.lanes[{order}].rounds.map((round) => {{
          const {{ y }} = round.layout, gaps = [];
          for (const depth of new Set(round.depths)) {{
            const column = y.filter((_, i) => round.depths[i] === depth).sort((a, b) => a - b);
            column.slice(1).forEach((v, i) => gaps.push(v - column[i]));
          }}
          return Math.min(Infinity, ...gaps) === Infinity ? 99 : Math.min(...gaps);
        }})""",
        )
        assert min(gaps) >= 16


def test_the_words_for_a_bar_are_true_in_both_themes(page):
    """What is half transparent is lighter on white and darker on black."""
    step = next(text for text in TOURS if "time line" in text)
    for words in (page.inner_text(".gl-hint"), step):
        assert "faint" in words and "light" not in words
    drafting, checking = player(page, "P.timeline.plot.data.slice(0, 2).map((d) => d.marker.opacity)")
    assert drafting < 1 and checking is None


def test_a_long_run_is_told_in_seconds_on_clock_and_axes(page):
    made = [json.loads(line) for line in fake.lines(run="long")]
    signs = lambda: player(  # noqa: E731
        page,
        """[P.timeline.plot, P.panels[0].stages].map(
          (plot) => [...plot.querySelectorAll('.xtick')].map((tick) => tick.textContent))""",
    )
    for rnd in made:
        if rnd["kind"] == "round":
            rnd["ms"] = {stage: 10 * ms for stage, ms in rnd["ms"].items()}
    for text, unit in (("".join(json.dumps(line) + "\n" for line in made), "s"), (PLAIN, "ms")):
        feed(page, text)
        page.wait_for_selector(f"[data-drawn^='{data(page, 'run')} ']")
        for ticks in signs():
            assert len(ticks) > 2 and all(tick.endswith(f" {unit}") for tick in ticks)
        assert player(page, "P.parts.clock.textContent").endswith(f" {unit}")
    assert page.evaluate("[1999, 2000, 9315].map(Glance.ms)") == ["1999 ms", "2.0 s", "9.3 s"]
    assert page.evaluate("Glance.timeTicks(2100, 9).ticktext") == [
        "0 s", "0.5 s", "1 s", "1.5 s", "2 s",
    ]  # fmt: skip


def test_a_long_run_leaves_nothing_behind(page):
    """The page holds as much after it has been gone through a second time as after the first."""
    feed(page, "".join(fake.lines(fake.ANSWER * 2, run="leak", full=True)))
    rounds = sum(player(page, "P.run.lanes.map((lane) => lane.rounds.length)"))
    assert rounds > 280
    page.wait_for_selector("[data-drawn^='leak ']")
    held = []
    for _ in range(2):
        player(page, "P.run.lanes.forEach((lane, i) => { P.choose(i); lane.end.forEach((t) => P.seek(t)); })")
        player(page, "P.sections.shelf.forEach((place) => P.sections.tell(place))")
        held.append(page.evaluate("['*', '.js-plotly-plot'].map((s) => document.querySelectorAll(s).length)"))
    assert held[0] == held[1]


def test_a_character_of_several_tokens_is_not_cut(page):
    text = page.locator(".gl-lane[data-lane=eagle3] .gl-text span").evaluate_all("s => s.map((e) => e.textContent)")
    assert "".join(EMOJI) in "".join(text)
    for run in text:
        assert not run.endswith("\u200d")
    labels = page.evaluate("['e\\u0301x', '\\u0301', '\\u200d', 'a\\u200d'].map((t) => Glance.label(t))")
    assert labels[0] == "e\u0301x" and labels[1] == "◌\u0301" and labels[2] == "[200D]"


def test_projector_mode_enlarges_and_is_kept_to_the_page(page):
    sizes = lambda: (  # noqa: E731
        page.locator(".gl-say").evaluate("e => parseFloat(getComputedStyle(e).fontSize)"),
        player(page, "P.theme.size"),
    )
    before = sizes()
    page.click("[data-action=projector]")
    assert page.get_attribute("[data-action=projector]", "aria-pressed") == "true"
    page.wait_for_function("() => document.querySelector('main').player.theme.size > 1.2")
    assert sizes()[0] > 1.2 * before[0]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click("[data-action=projector]")
    page.wait_for_function("() => document.querySelector('main').player.theme.size === 1")
    assert sizes() == before


def test_a_button_that_goes_leaves_the_focus_near(page):
    player(page, "P.seek(0)")
    page.focus("[data-action=rare]")
    while not page.is_disabled("[data-action=rare]"):
        page.keyboard.press("Enter")
    assert focused(page) == "Next surprising round"
    last = data(page, "round")
    page.keyboard.press("Enter")
    assert (focused(page), data(page, "round")) == ("Next surprising round", last)
    lines = fake.lines(run="live")
    feed(page, "".join(lines[:30]))
    page.focus("[data-action=live]")
    feed(page, "".join(lines))
    assert not page.is_visible("[data-action=live]") and focused(page) == "Play"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(page, theme):
    page.emulate_media(color_scheme=theme)
    player(page, "(P.goTo(2, 1), P.parts.table.setAttribute('open', ''))")
    for summary in page.locator(".gl-panel").all():
        summary.evaluate("e => { e.open = true; }")
    start_tour(page)
    found = Axe().run(page).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:120]) for v in found if v["impact"] in ("serious", "critical")] == []
