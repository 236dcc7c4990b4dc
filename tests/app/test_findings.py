"""What a run says, and the audit card: their numbers are those of the trace, and nothing in a trace can harm them.

The page stands alone here: no server, the same scripts.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from glance import law, trace
from glance.export import replay_html
from tests.app import fake

pytestmark = pytest.mark.browser

NAMES = dict(fake.LANES)
PLAIN = "".join(fake.lines(full=True))
HOST = ".gl-panel[data-panel={}] .gl-panel-body"
NEW = ("entropies", "margins", "draft_top", "draft_top_log_q", "target_top", "target_top_log_p", "law",
       "first_entropy", "first_margin")  # fmt: skip


@pytest.fixture(scope="module")
def page(browser):
    """One page for all tests; errors in it fail the module."""
    context = browser.new_context(viewport={"width": 1240, "height": 900}, reduced_motion="reduce")
    page, troubles = context.new_page(), []
    page.set_default_timeout(240_000)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: troubles.append(request.url))
    page.set_content(replay_html(PLAIN))
    page.wait_for_selector(".gl-root[data-ready]")
    yield page
    context.close()
    assert not troubles


def show(page, text: str) -> trace.Trace:
    """Feed a run and wait until its findings are drawn; its audit card is open."""
    run, lines = trace.read(text), text.count("\n") - 1  # the header is no line of the run
    page.evaluate(
        """text => { const P = document.querySelector('.gl-root').player;
        document.querySelector('[data-panel=audit]').open = true;
        P.feed(text); P.choose(P.run.lanes.length - 1); P.seek(Infinity); }""",
        text,
    )
    page.wait_for_function(
        """drawn => document.querySelector('[data-panel=findings] .gl-panel-body').dataset.drawn === drawn""",
        arg=f"{run.header.run} {lines}",
    )
    page.wait_for_selector(HOST.format("audit") + " .gl-audit-say")
    return run


def stopped(lines: list[str]) -> str:
    """The run that these lines began, closed as by Stop."""
    begun, whole, lanes = trace.read("".join(lines)), trace.read(PLAIN), []
    for lane in begun.lanes:
        ids = (begun.header.first, *(i for r in lane.rounds for i in r.emitted))
        identity = trace.Identity("so far", "Autoregressive", len(ids), sentence="So far equal.")
        end = replace(whole.lane(lane.id).end, ids=ids, reason="stopped", identity=identity, law=None)
        lanes.append(replace(lane, end=replace(end, summary=trace.summarize(lane.rounds))))
    return trace.write(replace(begun, lanes=tuple(lanes)))


def ask(page, expression: str):
    """Evaluate JavaScript with P as the player, F as the findings and G as the player's library."""
    return page.evaluate(
        "(() => { const G = window.Glance, P = document.querySelector('.gl-root').player,"
        f" F = P.panels.find((p) => p instanceof G.Findings); return {expression}; }})()"
    )


def facts(page) -> list[list[str]]:
    """The words under each figure: acceptance, stages, law."""
    lists = page.locator(HOST.format("findings") + " .gl-facts")
    return [lists.nth(i).locator("li").all_inner_texts() for i in range(lists.count())]


def test_rounds_in_which_a_head_was_silent_are_left_out(page):
    """They accept nothing because nothing was asked."""
    made = [json.loads(line) for line in fake.lines(run="silent")]
    silent = [r for r in made if r["kind"] == "round" and r["lane"] == "eagle3" and not r["accepted"]]
    for rnd in silent:
        rnd |= {**{key: [] for key in ("tokens", "parents", "depths", "log_q", "log_p")}, "draft_passes": 0}
    run = show(page, "".join(json.dumps(line) + "\n" for line in made))
    rounds = run.lane("eagle3").rounds
    lengths = [len(r.accepted) for r in rounds if r.draft_passes]
    assert 0 < len(silent) == len(rounds) - len(lengths)
    (words, _), _, _ = facts(page)
    assert f"mean a = {np.mean(lengths):.2f};" in words and f"of {len(lengths)} rounds)" in words
    assert words.endswith(f"; {len(silent)} round{'s' * (len(silent) > 1)} without a draft left out")
    counts, places = ask(page, "[F.acceptance.data[0].customdata, F.law.data.at(-2).customdata.map((d) => d[1])]")
    assert sum(counts) == len(lengths) and places == [k for k, r in enumerate(rounds) if r.draft_passes]


def test_the_figures_show_the_numbers_of_the_trace(page):
    run = show(page, PLAIN)
    acceptance, stages, fits = facts(page)
    assert len(acceptance) == 2 and len(stages) == 3
    for lane, words, fit in zip(run.lanes[1:], acceptance, fits, strict=True):
        lengths = [len(r.accepted) for r in lane.rounds]
        long = sum(a >= 8 for a in lengths)
        assert words == (
            f"{NAMES[lane.id]}: mean a = {np.mean(lengths):.2f};"
            f" P(a ≥ 8) = {100 * law.tail(lengths):.1f} % ({long} of {len(lengths)} rounds)"
        )
        found = lane.end.law
        for number in (found.intercept, found.slope, found.low, found.high, found.r):
            assert f"{abs(number):.2f}" in fit
        assert f"{found.rounds} rounds" in fit
    drawn = ask(page, "F.acceptance.data.map((d) => [d.x, d.customdata])")
    for lane, (x, counts) in zip(run.lanes[1:], drawn, strict=True):
        lengths = [len(r.accepted) for r in lane.rounds]
        assert counts == [lengths.count(a) for a in x] and sum(counts) == len(lengths)
    for stage, values in zip(
        ("draft", "build", "verify", "commit"), ask(page, "F.stages.data.map((d) => d.x)"), strict=True
    ):
        assert values == pytest.approx([sum(r.ms[stage] for r in lane.rounds) for lane in run.lanes], rel=1e-4)
    for lane, words in zip(run.lanes, stages, strict=True):
        drafting = sum(r.ms["draft"] + r.ms["build"] for r in lane.rounds)
        share = f"{100 * drafting / lane.end.summary.ms:.0f} % of it drafting"
        assert words.endswith(share) if lane.id != "autoregressive" else "drafting" not in words


def test_figures_of_an_earlier_reading_do_not_count_as_drawn(page):
    run = show(page, PLAIN)
    drawn = f"document.querySelector('{HOST.format('findings')}').dataset.drawn || ''"
    assert ask(page, drawn).startswith(run.header.run)
    again = PLAIN.replace("{", "{ ", 1)  # the same run, yet a text that does not go on from the last
    assert (
        page.evaluate(f"text => {{ document.querySelector('.gl-root').player.feed(text); return {drawn}; }}", again)
        == ""
    )


def test_points_fits_and_brackets_are_those_of_the_law(page):
    run = show(page, PLAIN)
    entropy = [0.05, 0.3, 1.0, 2.5]
    assert ask(page, f"{entropy}.map(G.ceilingAt)") == pytest.approx(law.upper_bracket(entropy).tolist())
    assert ask(page, f"{entropy}.map(G.floorAt)") == pytest.approx(law.lower_bracket(entropy).tolist())
    data = ask(page, "F.law.data.map((d) => ({ x: d.x, y: d.y, name: d.name, mode: d.mode, fill: d.fill }))")
    points = [d for d in data if d["mode"] == "markers"]
    for lane, drawn in zip(run.lanes[1:], points, strict=True):
        assert drawn["x"] == [r.entropy for r in lane.rounds]
        assert drawn["y"] == [len(r.accepted) for r in lane.rounds]
    bands = [i for i, d in enumerate(data) if d["fill"]]
    for lane, i in zip(run.lanes[1:], bands, strict=True):
        found, curve = lane.end.law, data[i + 1]
        expected = law.expected(curve["x"], found.intercept, found.slope, found.horizon)
        assert curve["y"] == pytest.approx(expected.tolist())
        low = [row[1] for row in found.band]
        assert data[i]["y"][: len(low)] == low
    legend = page.inner_text(HOST.format("findings"))
    assert "the paper’s ceiling" in legend and "8 billion parameters" in legend


def test_a_click_on_a_point_shows_its_round_and_frames_it(page):
    run = show(page, PLAIN)
    k = 4
    rnd = run.lane("glance").rounds[k]
    place = f"""(() => {{ const plot = F.law; plot.scrollIntoView({{ block: 'center' }});
        const box = plot.getBoundingClientRect(), {{ xaxis: x, yaxis: y }} = plot._fullLayout;
        return [box.left + x._offset + x.l2p({rnd.entropy}),
          box.top + y._offset + y.l2p({len(rnd.accepted)})]; }})()"""
    at = ask(page, place)
    page.mouse.move(*at)
    page.mouse.click(*at)
    page.wait_for_selector(f".gl-root[data-chosen=glance][data-round='{k}']")
    page.wait_for_selector(f".gl-shaded .gl-selected[data-k='{k}']")
    page.wait_for_selector(".gl-ring:visible")
    ask(page, place)
    box = page.locator(".gl-ring").bounding_box()
    middle = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
    assert middle == pytest.approx(ask(page, place), abs=1), "the sentences above may have changed their height"
    chosen = page.locator(".gl-shaded .gl-selected").evaluate_all("list => list.map((e) => +e.dataset.k)")
    assert chosen and set(chosen) == {k}


def test_every_token_is_shaded_by_the_entropy_of_its_row(page):
    run = show(page, PLAIN)
    rounds = run.lane("glance").rounds
    entropies = [None, *(e for r in rounds for e in r.entropies)]
    margins = [None, *(m for r in rounds for m in r.margins)]
    tokens = page.locator(".gl-shaded [data-i]").evaluate_all(
        "list => list.map((e) => [+e.dataset.i, e.style.getPropertyValue('--gl-share'), e.getAttribute('aria-label')])"
    )
    assert tokens[0][1] == "" and "not recorded" in tokens[0][2]
    for i, share, label in tokens[1:]:
        assert float(share) == pytest.approx(min(1, entropies[i] / 2), abs=6e-4)
        assert f"H = {entropies[i]:.3f} nats, two best logits {margins[i]:.2f} apart" in label
    page.locator(".gl-shaded [data-i='7']").hover()
    assert page.inner_text(".gl-read").startswith("Token 7,") and f"{entropies[7]:.3f}" in page.inner_text(".gl-read")
    page.locator(".gl-shaded [tabindex='0']").focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert page.inner_text(".gl-read").startswith("Token 2,")
    place = next(k for k, r in enumerate(rounds) if 1 + sum(len(x.emitted) for x in rounds[: k + 1]) > 2)
    assert page.get_attribute(".gl-root", "data-round") == str(place)


def test_the_audit_card_of_three_equal_lanes(page):
    run = show(page, PLAIN)
    lane = run.lanes[0]
    met = sorted((r.margins[0], 1 + i, r) for i, r in enumerate(lane.rounds))
    say = page.inner_text(HOST.format("audit") + " .gl-audit-say")
    assert say.startswith(
        f"All three decoders wrote the same {len(lane.end.ids)} tokens, byte for byte; the closest call was"
    )
    assert f"at token {met[0][1]}: " in say
    tables = page.locator(HOST.format("audit") + " tbody")
    rows = tables.nth(1).locator("tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == [f"#{index}" for _, index, _ in met[:5]]
    assert [float(row.split("\t")[3]) for row in rows] == pytest.approx([margin for margin, _, _ in met[:5]], rel=5e-3)
    pieces = {i: p.decode("utf-8", "replace").strip() for i, p in run.pieces.items()}
    for row, (_, _, rnd) in zip(rows, met, strict=False):
        written, rival = row.split("\t")[1:3]
        if pieces[rnd.emitted[0]].isalnum():
            assert pieces[rnd.emitted[0]][:9] in written and written != rival != "–"
    hashes = tables.nth(0).locator("code")
    assert [hashes.nth(i).get_attribute("title") for i in range(3)] == [x.end.sha256 for x in run.lanes]
    terms = page.inner_text(HOST.format("audit") + " dl")
    assert "float32" in terms and "EAGLE-3 deferred 1 token, GLANCE deferred 1 token" in terms


def test_only_the_ids_in_sight_exist(page):
    run = show(page, "".join(fake.lines(fake.ANSWER * 5, run="long", full=True)))
    ids = run.lanes[0].end.ids
    rows = page.locator(".gl-idrows [role=row]")
    assert len(ids) > 400 and rows.count() < 30
    assert rows.first.inner_text().split()[:2] == ["#0", str(ids[0])]
    page.locator(".gl-ids").evaluate("box => { box.scrollTop = 400 * 28; }")
    page.wait_for_function("() => document.querySelector('.gl-idrows').textContent.includes('#400')")
    assert rows.count() < 30
    assert str(ids[400]) in page.locator(".gl-idrows [aria-rowindex='402']").inner_text()


def test_a_difference_is_told_with_both_tokens_and_the_margin(page):
    run = show(page, "".join(fake.lines(seed=2, run="differs", differs=True, full=True)))
    identity = run.lane("eagle3").end.identity
    say = page.inner_text(HOST.format("audit") + " .gl-audit-say")
    got, expected = (run.pieces[i].decode() for i in (identity.got, identity.expected))
    assert say.startswith(f"EAGLE-3 differs from Autoregressive at token {identity.index}: ")
    assert got.startswith(" ") and f"“·{got.strip()}” instead of “{expected}”" in say, "with its blank, as in the table"
    assert f"{identity.margin} apart there, which rounding alone can turn around" in say
    page.click(HOST.format("audit") + " button:has-text('first difference')")
    assert page.locator(".gl-idrows .gl-other").count() == 1
    assert str(identity.got) in page.inner_text(".gl-idrows .gl-other")


def test_a_run_that_was_stopped_says_how_far_it_holds(page):
    lines = fake.lines(run="stopped", full=True)[:40]
    run = show(page, stopped(lines))
    shared = min(len(lane.end.ids) for lane in run.lanes)
    say = page.inner_text(HOST.format("audit") + " .gl-audit-say")
    assert say.startswith(f"Stopped early: as far as all came, the first {shared} tokens")


def test_a_run_without_its_end_is_not_finished(page):
    """It may still be growing, and it may have been torn off: the words hold for both."""
    lines = fake.lines(run="growing", full=True)
    show(page, "".join(lines[:30]))
    assert "Not finished" in page.inner_text(HOST.format("audit") + " .gl-audit-say")
    assert "not finished" in page.inner_text(HOST.format("audit") + " table >> nth=0")
    assert "when the lane is done" in page.inner_text(HOST.format("findings"))
    assert "unning" not in page.inner_text(".gl-root") and "omparing" not in page.inner_text(".gl-root")
    assert ask(page, "P.follow")
    show(page, "".join(lines))
    assert not ask(page, "P.follow"), "the panels would never hear of the chosen round"


def test_a_growing_run_leaves_focus_and_place(page):
    """Lists of a live run grow in place: what the keyboard is on stays, and so does what is in sight."""
    lines = fake.lines(fake.ANSWER * 3, run="grows", full=True)
    show(page, "".join(lines[:150]))
    page.locator(".gl-ids").evaluate("box => { box.focus(); box.scrollTop = 900; }")
    page.wait_for_function("() => document.querySelector('.gl-idrows').textContent.includes('#38')")
    places = "[document.activeElement.className, document.querySelector('.gl-ids').scrollTop]"
    before = page.evaluate(places)
    count = page.get_attribute(".gl-ids", "aria-rowcount")
    grow = (
        "text => { const P = document.querySelector('.gl-root').player; P.feed(text);"
        " for (const panel of P.panels) panel.update(P.run); }"
    )
    page.evaluate(grow, "".join(lines[:170]))
    assert page.get_attribute(".gl-ids", "aria-rowcount") != count
    assert page.evaluate(places) == before == ["gl-ids", 900]
    tokens = page.locator(".gl-shaded [data-i]")
    few = tokens.count()
    tokens.nth(5).evaluate("e => { e.focus(); window.kept = e; }")
    page.evaluate(grow, "".join(lines))
    assert tokens.count() > few and page.evaluate("document.activeElement === window.kept")
    copy = page.locator(HOST.format("audit") + " table button")
    assert copy.count() == 3
    copy.first.focus()
    page.evaluate(grow, "".join(lines))
    assert page.evaluate("document.activeElement.textContent") == "Copy"
    run = trace.read("".join(lines))
    shown = page.locator(".gl-idrows [role=row]").evaluate_all(
        "rows => rows.map((row) => [row.getAttribute('aria-rowindex') - 2,"
        " [...row.querySelectorAll('i')].map((e) => +e.textContent)])"
    )
    assert len(shown) > 10 and all(ids == [lane.end.ids[i] for lane in run.lanes] for i, ids in shown)


@pytest.mark.parametrize("differs", [False, True])
def test_margins_tell_nothing_about_draws(page, differs):
    header, *rest = fake.lines(seed=2, run=f"drawn {differs}", differs=differs, full=True)
    header = json.loads(header)
    header["settings"]["temperature"] = 0.8
    show(page, json.dumps(header) + "\n" + "".join(rest))
    assert "temperature 0.8, seed 2 · made-up" in page.inner_text(".gl-question + span")
    say = page.inner_text(HOST.format("audit") + " .gl-audit-say")
    assert ("differs" in say) == differs
    assert not any(word in say for word in ("rounding", "between the two", "apart"))


def test_no_share_is_said_to_be_all(page):
    assert ask(page, "[0.5, 4, 9].map(G.shares)") == ["62 to 38", "98.2 to 1.8", "over 99.9 to under 0.1"]


def test_a_lane_keeps_its_sign_whichever_lanes_run(page):
    run = trace.read(PLAIN)
    kept = [0, 2]
    header = replace(run.header, run="two", lanes=tuple(run.header.lanes[i] for i in kept))
    show(page, trace.write(replace(run, header=header, lanes=tuple(run.lanes[i] for i in kept))))
    points = ask(page, "F.law.data.filter((d) => d.mode === 'markers').map((d) => d.marker.symbol)")
    assert points == ["square"]
    assert ask(page, "['autoregressive', 'eagle3', 'else'].map((id) => G.laneSymbol({ id }))") == [
        "circle", "triangle-up", "diamond",
    ]  # fmt: skip


def test_an_older_trace_shows_what_it_has(page):
    kept = [json.loads(raw) for raw in fake.lines(run="old")]
    old = "".join(json.dumps({k: v for k, v in line.items() if k not in NEW}) + "\n" for line in kept)
    run = show(page, old)
    assert "no law was fitted" in page.inner_text(HOST.format("findings"))
    assert "this trace does not say" in page.inner_text(".gl-shade-key")
    known = page.locator(".gl-shaded .gl-shade").evaluate_all(
        "list => list.map((e) => e.style.getPropertyValue('--gl-share'))"
    )
    assert 0 < len(known) <= len(run.lane("glance").rounds)
    rows = page.locator(HOST.format("audit") + " tbody").nth(1).locator("tr").all_inner_texts()
    least = sorted(r.margin for r in run.lanes[0].rounds)[:5]
    assert [float(row.split("\t")[3]) for row in rows] == pytest.approx(least, rel=5e-3)
    assert {row.split("\t")[2] for row in rows} == {"–"}


def test_hostile_tokens_and_names_are_inert(page):
    run = trace.read("".join(fake.lines(fake.HOSTILE * 2, fake.HOSTILE, fake.HOSTILE[0], run="hostile", full=True)))
    lanes = tuple(
        {**lane, "name": f"<img src=x onerror=window.harmed=1>\u202e{lane['id']}"} for lane in run.header.lanes
    )
    made = {**run.header.provenance, "dtype": "<script>window.harmed=1</script>", "attention": "<b>x</b>"}
    show(page, trace.write(replace(run, header=replace(run.header, lanes=lanes, provenance=made))))
    for lane in range(3):
        ask(page, f"(P.goTo({lane}, 1), F.select(P.lane, 1))")
    assert page.evaluate("window.harmed") is None
    for panel in ("findings", "audit"):
        host = page.locator(HOST.format(panel))
        assert host.locator("img, script, bdi b, bdi script").count() == 0
        assert "\u202e" not in host.inner_text()


def test_a_run_of_one_lane_without_rounds(page):
    run = trace.read(PLAIN)
    header = replace(run.header, lanes=run.header.lanes[:1], run="alone")
    show(page, trace.write(trace.Trace(header, (replace(run.lanes[0], rounds=()),), run.pieces)))
    assert page.inner_text(HOST.format("audit") + " .gl-audit-say").startswith("One decoder ran")
    assert "Nothing has been drafted" in page.inner_text(HOST.format("findings"))


@pytest.mark.parametrize("width", [390, 820, 1240])
def test_no_bar_reaches_the_label_above_them(page, width):
    page.set_viewport_size({"width": width, "height": 850})
    show(page, "".join(fake.lines(run=f"label{width}", full=True)))
    figure = page.locator(".gl-figure").first
    label, figure = figure.locator(".annotation-text").bounding_box(), figure.bounding_box()
    top = label["y"] - figure["y"]
    assert top >= 0 and top + label["height"] <= ask(page, "F.acceptance._fullLayout._size.t")
    assert label["x"] + label["width"] <= figure["x"] + figure["width"]


@pytest.mark.parametrize("width", [390, 1240])
def test_nothing_is_wider_than_the_page(page, width):
    page.set_viewport_size({"width": width, "height": 850})
    show(page, "".join(fake.lines(run=f"w{width}", full=True)))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for plot in ask(page, "[F.acceptance, F.law, F.stages].map((p) => [p._fullLayout.width, p.clientWidth])"):
        assert plot[0] <= plot[1] + 1
