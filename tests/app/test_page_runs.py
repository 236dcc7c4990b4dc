"""Running on the page in a real browser: files, questions, Run and Stop, and what goes wrong."""

import re

import pytest
from PIL import Image

from tests.app import fake
from tests.app.steps import (
    ROOT,
    ask,
    data,
    hold,
    open_file,
    open_settings,
    player,
    put,
    put_picture,
    stat,
    status,
    wait_done,
    wait_status,
)
from tests.test_images import bomb, locked_pdf

pytestmark = pytest.mark.browser


def test_upload_run_scrub(page, tmp_path):
    put_picture(page, tmp_path, "teal")
    wait_status(page, "Ready")
    ask(page, "What is this?")
    wait_done(page, "first")
    assert "same bytes" in status(page)
    assert page.inner_text(".gl-question") == "What is this?"
    assert page.locator("#examples [aria-pressed=true]").count() == 0, "it is none of the recorded runs"
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
    assert "Prefill included" not in page.inner_text(".gl-lane[data-lane=glance] .gl-foot"), "of unequal parts"
    page.keyboard.press("Tab")
    page.click("[data-action=first]")
    assert stat(page, "glance", 0) == "1"
    assert page.is_disabled("#stop")


def test_a_recorded_run_replaces_one_that_is_under_way(page):
    """Lines that were still on their way do not come back over it."""
    ask(page, "slow, and then another")
    wait_status(page, "Decoding")
    leave = hold(page, re.compile("run/predict"))
    for number in (1, 2):  # the second one counts
        page.locator("#examples button").nth(number).click()
    route, lines = leave(), int(data(page, "lines"))
    page.wait_for_function("n => +document.querySelector('#view .gl-root').dataset.lines > n", arg=lines)
    route.continue_()
    page.wait_for_selector(f"{ROOT}[data-run=differs]")
    page.wait_for_selector("#go:not([disabled])")
    assert status(page) == "A recorded run." and data(page, "run") == "differs"


def test_a_saved_run_replaces_one_that_is_under_way(page, tmp_path):
    """Lines that were still on their way do not come back over it."""
    (tmp_path / "run.ndjson").write_text("".join(fake.lines(run="elsewhere")), encoding="utf-8")
    ask(page, "slow")
    wait_status(page, "Decoding")
    leave = hold(page, re.compile("run/predict|/cancel"))
    open_file(page, tmp_path / "run.ndjson")
    route, lines = leave(), int(data(page, "lines"))
    page.wait_for_function("n => +document.querySelector('#view .gl-root').dataset.lines > n", arg=lines)
    route.continue_()
    wait_status(page, "A saved run")
    page.wait_for_selector("#go:not([disabled])")
    assert data(page, "run") == "elsewhere"


def test_a_run_that_finds_no_place_says_so(stub_server, visit):
    page = visit(stub_server)
    page.route("**/queue/join*", lambda route: route.fulfill(status=503, json={"detail": "Queue is full."}))
    ask(page, "Is there room?")
    wait_status(page, "did not begin")
    page.wait_for_selector("#go:not([disabled])")
    assert data(page, "run") == "first"
    visit.troubles[:] = [trouble for trouble in visit.troubles if "503" not in trouble]


def test_settings_out_of_range_get_a_sentence(stub_server, visit):
    page = visit(stub_server)
    open_settings(page)
    page.fill("#seed input", "-1")
    ask(page, "Which seed?")
    wait_status(page, "Seed must be a whole number from 0")
    page.wait_for_selector("#go:not([disabled])")


def test_run_and_stop_hand_the_keyboard_to_each_other(page):
    focused = "document.activeElement.id"
    page.fill("#question textarea", "")
    page.keyboard.type("slow, by keyboard")
    page.focus("#go")
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => {focused} === 'stop'")
    page.keyboard.press("Enter")
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
    put_picture(page, tmp_path, "purple")
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


def test_a_picture_that_the_model_sees_much_smaller_is_told(page, tmp_path):
    Image.new("RGB", (300, 400), "white").save(tmp_path / "small.png")
    put(page, tmp_path / "small.png")
    wait_status(page, "Ready. Type a question")
    Image.new("RGB", (900, 600), "white").save(tmp_path / "large.png")
    put(page, tmp_path / "large.png")
    wait_status(page, "the model sees 224×192 pixels of it, too few for small print")


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


def test_a_page_number_of_two_digits(page, tmp_path):
    """Each keystroke asks; the last one counts, however long the first takes. An empty box asks for nothing."""
    path = tmp_path / "twelve.pdf"
    sheets = [Image.new("RGB", (90, 90), (20 * i, 90, 90)) for i in range(12)]
    sheets[0].save(path, "PDF", save_all=True, append_images=sheets[1:])
    put(page, path)
    page.wait_for_selector("#page input")
    page.fill("#page input", "")
    first = hold(page, "**/queue/join*")
    page.locator("#page input").press_sequentially("12")
    first().continue_()
    wait_status(page, "page 12 of 12")
    assert page.locator(".toast-body:has-text('Page must')").count() == 0


def test_one_lane_is_no_race(stub_server, visit):
    page = visit(stub_server)
    open_settings(page)
    for name in ("EAGLE-3", "GLANCE"):
        page.click(f"#lanes label:has-text('{name}')")
    ask(page, "Alone?")
    wait_status(page, "choose at least two")
    assert data(page, "run") == "first"
