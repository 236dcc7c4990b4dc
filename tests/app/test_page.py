"""The page in a real browser, on made-up runs."""

import re
from dataclasses import replace

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image

from glance import trace
from tests.app import fake
from tests.app.steps import ROOT, ask, data, feed, player, put, stat, status, wait_done, wait_status
from tests.test_images import bomb, locked_pdf

pytestmark = pytest.mark.browser

FIRST = "".join(fake.lines(run="first"))


@pytest.fixture
def page(shared):
    """The shared page, back on the first recorded run, paused at its end."""
    shared.locator("#examples button").first.click()
    shared.wait_for_function("() => document.querySelector('#question textarea').value === 'What does the chart say?'")
    wait_status(shared, "A recorded run.")
    feed(shared, FIRST)
    player(shared, "(P.pause(), P.choose(2), P.seek(Infinity), P.parts.table.removeAttribute('open'))")
    return shared


def test_a_recorded_run_plays_at_once(stub_server, visit):
    page = visit(stub_server, motion="no-preference")
    page.wait_for_selector(f"{ROOT}[data-playing='1'][data-done]")
    start = float(data(page, "t"))
    page.wait_for_function("t => +document.querySelector('#view .gl-root').dataset.t > t + 5", arg=start)
    page.click("[data-action=play]")
    assert data(page, "playing") == ""
    assert page.locator(".gl-lane").count() == 3
    assert [page.locator(".gl-lane").nth(i).get_attribute("data-verdict") for i in range(3)] == [
        "reference", "identical", "identical",
    ]  # fmt: skip


def test_no_motion_unless_wanted(stub_server, visit):
    page = visit(stub_server)
    assert data(page, "playing") in ("", None)
    assert float(data(page, "t")) == pytest.approx(player(page, "P.run.total"), rel=1e-3)


def test_numbers_are_those_of_the_summary(page):
    run = trace.read("".join(fake.lines()))
    for lane in run.lanes:
        summary = lane.end.summary
        assert stat(page, lane.id, 0) == str(summary.tokens)
        assert stat(page, lane.id, 1) == str(summary.target_passes)
        assert stat(page, lane.id, 2) == str(summary.draft_passes)
        assert stat(page, lane.id, 3) == f"{summary.tau:.2f}"
        assert stat(page, lane.id, 4) == f"{summary.tokens_per_s:.0f}"
        assert page.inner_text(f".gl-lane[data-lane={lane.id}] .gl-text") == lane.end.text + "end"
    header, first, last = run.header, run.lane("autoregressive").end, run.lane("glance").end
    whole = (header.prefill_ms + first.begin_ms + first.summary.ms) / (
        header.prefill_ms + last.begin_ms + last.summary.ms
    )
    foot = page.inner_text(".gl-lane[data-lane=glance] .gl-foot")
    assert f"Prefill included {whole:.2f}×" in foot and last.sha256[:10] in foot
    speedup = run.lane("glance").end.summary.tokens_per_s / run.lane("autoregressive").end.summary.tokens_per_s
    assert page.inner_text(".gl-lane[data-lane=glance] .gl-speedup") == f"{speedup:.2f}×"


def test_numbers_in_the_middle_follow_the_same_definitions(page):
    rounds = trace.read("".join(fake.lines())).lane("eagle3").rounds
    for k in (1, 5, 11):
        player(page, f"(P.choose(1), P.seek(P.lane.end[{k - 1}]))")
        summary = trace.summarize(rounds[:k])
        assert [stat(page, "eagle3", i) for i in range(4)] == [
            str(summary.tokens), str(summary.target_passes), str(summary.draft_passes), f"{summary.tau:.2f}",
        ]  # fmt: skip
        assert data(page, "round") == str(k - 1)


def test_origin_of_every_token(page):
    run = trace.read("".join(fake.lines()))
    for lane in run.lanes:
        drafted = sum(len(r.accepted) for r in lane.rounds)
        box = page.locator(f".gl-lane[data-lane={lane.id}] .gl-text")
        assert box.locator(".gl-prefill").count() == 1
        # A token that only completes or begins a character, and the end token, have no text of their own.
        assert drafted - 2 <= box.locator(".gl-draft").count() <= drafted
    assert page.locator(".gl-lane[data-lane=autoregressive] .gl-draft").count() == 0


def test_upload_run_scrub(page, tmp_path):
    path = tmp_path / "mine.png"
    Image.new("RGB", (300, 200), "teal").save(path)
    put(page, path)
    wait_status(page, "Ready")
    ask(page, "What is this?")
    wait_done(page, "first")
    assert "same bytes" in status(page)
    assert page.inner_text(".gl-question") == "What is this?"
    slider = page.locator(".gl-scrub")
    box = slider.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.1, box["y"] + box["height"] / 2)
    total = player(page, "P.run.total")
    assert abs(float(data(page, "t")) - 0.1 * total) < 0.03 * total
    tokens = int(stat(page, "glance", 0))
    assert tokens < player(page, "P.run.byId.get('glance').closing.summary.tokens")
    page.click("[data-action=next]")
    assert int(stat(page, "glance", 0)) > tokens
    first = data(page, "run")
    ask(page, "And again?")
    wait_done(page, first)
    assert page.inner_text(".gl-question") == "And again?"


def test_stop_keeps_a_playable_part(page):
    ask(page, "slow, please")
    page.wait_for_function(
        "() => { const d = document.querySelector('#view .gl-root').dataset; return +d.lines > 6 && !d.done; }"
    )
    page.click("#stop")
    wait_done(page, "first")
    assert "Stopped" in status(page)
    assert player(page, "P.run.lanes.map((lane) => lane.closing.reason)") == ["stopped"] * 3
    assert page.inner_text(".gl-lane[data-lane=glance] .gl-badge") == "✓ identical so far"
    page.keyboard.press("Tab")
    page.click("[data-action=first]")
    assert stat(page, "glance", 0) == "1"
    assert page.is_disabled("#stop")


def test_run_and_stop_hand_the_keyboard_to_each_other(page):
    focused = "document.activeElement.id"
    page.fill("#question textarea", "slow, by keyboard")
    page.focus("#go")
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => {focused} === 'stop'")
    page.keyboard.press("Enter")
    wait_done(page, "first")
    page.wait_for_function(f"() => {focused} === 'go'")


def test_a_closed_tab_frees_the_engine(stub_server, visit):
    page = visit(stub_server)
    ask(page, "glacial, and then I leave")
    page.wait_for_function(
        "() => { const d = document.querySelector('#view .gl-root').dataset; return d.run !== 'first' && d.lines > 3; }"
    )
    page.close()
    page = visit(stub_server)
    ask(page, "Is it my turn?")
    wait_done(page, "first")  # the abandoned run would have taken far longer than this waits


def test_run_right_after_choosing_a_file(page, tmp_path):
    path = tmp_path / "quick.png"
    Image.new("RGB", (300, 200), "purple").save(path)
    put(page, path)
    ask(page, "Quick?")
    wait_done(page, "first")
    assert page.inner_text(".gl-question") == "Quick?"


def test_a_failure_keeps_the_part_and_shows_no_traceback(page):
    ask(page, "please fail")
    wait_status(page, "failed")
    page.wait_for_selector("#go:not([disabled])")
    assert "RuntimeError" in status(page) and "Traceback" not in page.content()
    assert player(page, "P.run.lanes.reduce((n, lane) => n + lane.rounds.length, 0)") == 11


@pytest.mark.parametrize(
    ("question", "words"), [("   ", "The question is empty"), ("refuse me", "This question is refused")]
)
def test_bad_questions_get_a_sentence(page, question, words):
    ask(page, question)
    wait_status(page, words)
    page.wait_for_selector("#go:not([disabled])")
    assert data(page, "run") == "first"


def test_a_bad_file_leaves_the_previous_picture(page, tmp_path):
    before = page.get_attribute("#seen img", "src")
    path = tmp_path / "notes.png"
    path.write_text("not a picture")
    put(page, path)
    wait_status(page, "neither a picture")
    assert page.get_attribute("#seen img", "src") == before
    page.wait_for_function("() => document.querySelector('#upload').textContent.includes('stub-chart')")
    ask(page, "Still there?")
    wait_done(page, "first")


def test_bad_files_one_after_another(page, tmp_path):
    (tmp_path / "empty.png").touch()
    (tmp_path / "drawing.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg"><script>window.harmed=1</script></svg>'
    )
    bomb(tmp_path / "bomb.png", 12000, 12000)
    Image.new("RGB", (10, 3000)).save(tmp_path / "strip.png")
    locked_pdf(tmp_path / "locked.pdf")
    before = page.get_attribute("#seen img", "src")
    for name, words in {
        "empty.png": "empty", "drawing.svg": "export the drawing as PNG", "bomb.png": "144 megapixels",
        "strip.png": "300 to 1", "locked.pdf": "password",
    }.items():  # fmt: skip
        put(page, tmp_path / name)
        wait_status(page, words)
        page.wait_for_function("() => document.querySelector('#upload').textContent.includes('stub-chart')")
    assert page.get_attribute("#seen img", "src") == before
    assert page.evaluate("window.harmed") is None
    Image.new("RGB", (1, 1), "red").save(tmp_path / "dot.png")
    put(page, tmp_path / "dot.png")
    wait_status(page, "enlarged from 1×1")


def test_pages_of_a_pdf(page, tmp_path):
    path = tmp_path / "two.pdf"
    sheets = [Image.new("RGB", (200, 200), colour) for colour in ("red", "blue")]
    sheets[0].save(path, "PDF", save_all=True, append_images=sheets[1:])
    put(page, path)
    page.wait_for_selector("#page input")
    assert "page 1 of 2" in status(page)
    page.fill("#page input", "2")
    page.keyboard.press("Tab")
    wait_status(page, "page 2 of 2")


def test_hostile_tokens_are_inert(page):
    page.locator("#examples button").nth(1).click()
    page.wait_for_selector(f"{ROOT}[data-run=hostile][data-done]")
    for lane in range(3):
        player(page, f"(P.choose({lane}), P.run.lanes[{lane}].end.forEach((t) => P.seek(t)))")
    page.click(".gl-table summary")
    page.wait_for_selector(".gl-tablebody table, .gl-tablebody p")
    assert page.evaluate("window.harmed") is None
    assert page.locator(f"{ROOT} img, {ROOT} script, {ROOT} b:not(.gl-stages b, .gl-panel b)").count() == 0
    assert {*page.locator(f"{ROOT} .gl-panel b").all_inner_texts()} <= {"Autoregressive", "EAGLE-3", "GLANCE"}
    text = page.locator(".gl-lane[data-lane=glance] .gl-text").text_content()
    assert "[202E]" in text and "␀" in text and "␛" in text and "<img" in text and "${" in text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00]", text)
    labels = player(page, "P.parts.plot.data.flatMap((d) => d.text || []).join('')")
    assert "<img" not in labels and "<script" not in labels
    say = page.locator(".gl-say")
    assert say.locator("bdi").count() >= 1


def test_a_difference_is_told(page):
    page.locator("#examples button").nth(2).click()
    page.wait_for_selector(f"{ROOT}[data-run=differs][data-done]")
    assert page.inner_text(".gl-lane[data-lane=eagle3] .gl-badge") == "✗ differs at token 9"
    assert "Differs at token 9" in page.inner_text(".gl-lane[data-lane=eagle3] .gl-foot")


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
    page.click("[data-action=slow]")
    assert data(page, "playing") == "1"
    page.wait_for_selector(f"{ROOT}[data-phase=verify]")
    page.wait_for_selector(f"{ROOT}[data-playing='']")
    assert data(page, "round") == "4" and data(page, "phase") == "done"


def only(lines: list[str], lanes: tuple[str, ...], rounds: bool = True) -> str:
    """The trace of some lanes, with or without their rounds."""
    run = trace.read("".join(lines))
    kept = [trace.Lane(x.id, x.rounds if rounds else (), x.end) for x in run.lanes if x.id in lanes]
    names = tuple(x for x in run.header.lanes if x["id"] in lanes)
    return trace.write(trace.Trace(replace(run.header, lanes=names, run="+".join(lanes)), tuple(kept), run.pieces))


def test_unusual_traces(page):
    for text, words in {
        "nonsense\n": "cannot be shown",
        '{"kind":"round"}\n': "first line is not a header",
        "".join(fake.lines(run="new")).replace('"schema":1', '"schema":99'): "schema 99",
    }.items():
        feed(page, text)
        assert words in page.inner_text(".gl-say")
    feed(page, only(fake.lines(), ("autoregressive",)))
    assert page.locator(".gl-lane").count() == 1 and data(page, "chosen") == "autoregressive"
    feed(page, only(fake.lines(), ("autoregressive", "glance"), rounds=False))
    assert "no round was needed" in page.inner_text(".gl-say")
    assert stat(page, "glance", 3) == "–" and page.inner_text(".gl-lane[data-lane=glance] .gl-speedup") == "–"
    large = fake.lines(budget=63, run="large")
    feed(page, "".join(large)[:-40])  # torn in the middle of a line
    assert data(page, "done") is None
    feed(page, "".join(large))
    assert data(page, "done") == "1" and data(page, "run") == "large"


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
def test_axe_finds_nothing_serious_on_the_page(stub_server, visit, theme):
    page = visit(stub_server, theme=theme)
    page.click("#ask button:has-text('Settings')")
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


def test_two_lanes_chosen_on_a_phone(stub_server, visit):
    page = visit(stub_server, width=390, height=844)
    page.click("#ask button:has-text('Settings')")
    page.wait_for_selector("#lanes input")
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


def test_one_lane_is_no_race(stub_server, visit):
    page = visit(stub_server)
    page.click("#ask button:has-text('Settings')")
    page.wait_for_selector("#lanes input")
    for name in ("EAGLE-3", "GLANCE"):
        page.click(f"#lanes label:has-text('{name}')")
    ask(page, "Alone?")
    wait_status(page, "choose at least two")
    assert data(page, "run") == "first"
