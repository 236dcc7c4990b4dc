"""What can be taken away and brought back, in a real browser: files, links, saved runs, also damaged ones."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from glance import export, trace
from tests.app import fake
from tests.app.steps import (
    ROOT,
    data,
    open_file,
    open_settings,
    player,
    status,
    wait_done,
    wait_status,
)

pytestmark = pytest.mark.browser

HOSTILE_EXAMPLE, CHART_EXAMPLE = 1, 0


def pick(page, number: int) -> None:
    """Bring a recorded run, paused at its end, with its section of exports open."""
    wanted = ["first", "hostile", "differs"][number]
    if data(page, "run") != wanted:
        page.locator("#examples button").nth(number).click()
        page.wait_for_selector(f"{ROOT}[data-run={wanted}][data-done]")
        wait_status(page, "A recorded run.")
    player(page, "(P.pause(), P.choose(2), P.seek(Infinity), P.parts.take.parentElement.setAttribute('open', ''))")


def wait_said(page, words: str) -> None:
    page.wait_for_function("w => document.querySelector('.gl-take ~ .gl-said').textContent.includes(w)", arg=words)


def download(page, words: str) -> Path:
    with page.expect_download() as waiting:
        page.click(f".gl-take button:text-is('{words}')")
    path = Path(waiting.value.path())
    named = path.with_name(waiting.value.suggested_filename)
    named.write_bytes(path.read_bytes())
    page.wait_for_function(
        f"() => document.querySelector('.gl-take ~ .gl-said').textContent === 'Saved as {named.name}.'"
    )
    return named


@pytest.fixture
def page(shared):
    pick(shared, CHART_EXAMPLE)
    return shared


@pytest.mark.parametrize("number", [CHART_EXAMPLE, HOSTILE_EXAMPLE])
def test_files_are_those_that_the_library_makes(shared, number):
    pick(shared, number)
    text = player(shared, "P.text")
    assert download(shared, "Run (NDJSON)").read_bytes().decode() == text
    assert download(shared, "Rounds (CSV)").read_bytes().decode() == export.rounds_csv(trace.read(text))
    page = download(shared, "Replay (HTML)")
    assert page.read_bytes().decode() == export.replay_html(text)
    assert page.name == f"glance-{['chart', 'hostile'][number]}.html"


def test_the_replay_plays_from_a_file_without_a_network(visit, tmp_path):
    words = [*fake.HOSTILE, "<!--", "\u2028"] * 2
    text = "".join(fake.lines(words, words, question=words[0], run="taken"))
    (tmp_path / "replay.html").write_text(export.replay_html(text), encoding="utf-8", newline="")
    page = visit.blank(offline=True, viewport={"width": 1100, "height": 900})
    page.goto((tmp_path / "replay.html").as_uri(), wait_until="commit")
    page.wait_for_selector(".gl-root[data-ready][data-playing='1']")
    page.wait_for_function("() => +document.querySelector('.gl-root').dataset.t > 5")
    page.click("[data-action=last]")
    assert page.inner_text(".gl-lane[data-lane=glance] .gl-badge") == "✓ byte-identical"
    assert page.evaluate("document.querySelector('.gl-root').player.text").replace("\\u003c", "<") == text
    assert page.evaluate("window.harmed") is None and page.locator("main img, main script").count() == 0
    assert not page.is_visible("[data-panel=overlay]"), "there is no model behind a file"
    page.click("[data-panel=take] summary")
    assert page.locator(".gl-take button:text-is('Replay (HTML)')").count() == 0, "it is this file"
    look_at_pictures(page)
    page.evaluate("document.querySelector('.gl-root').player.goTo(1, 3)")
    page.click(".gl-take button:text-is('Link')")
    link = page.locator("[data-panel=take] input")
    link.wait_for()
    address = link.input_value()
    page.evaluate("document.querySelector('.gl-root').player.goTo(1, 4)")
    page.wait_for_function("() => document.activeElement.textContent === 'Link'")
    again = visit.blank(offline=True)
    again.goto(address)
    again.wait_for_selector(".gl-root[data-ready][data-chosen=eagle3][data-round='3'][data-playing='']")


def look_at_pictures(page) -> None:
    """PNG and SVG of the tree on show: not blank, with the labels of the tree, and with nothing that could act."""
    picture = Image.open(download(page, "Tree (PNG)")).convert("RGB")
    assert picture.width >= 1520 and len(picture.getcolors(2**24)) > 50
    svg = ElementTree.parse(download(page, "Tree (SVG)")).getroot()
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    shown = "".join(svg.itertext())
    lane = page.evaluate("document.querySelector('.gl-root').player.lane.name")
    assert f"{lane}, round" in shown and "root" in shown and "H " in shown
    for element in svg.iter():
        assert not element.tag.endswith(("script", "foreignObject", "image"))
        assert not [name for name in element.attrib if name.startswith("on") or name.endswith("href")]


def test_the_tree_as_a_picture(page):
    look_at_pictures(page)


def test_a_link_brings_back_lane_round_and_time(stub_server, visit):
    page = visit(stub_server)
    pick(page, 2)
    player(page, "(P.choose(1), P.seek(P.lane.start[4] + 0.5 * P.lane.rounds[4].total))")
    t = float(data(page, "t"))
    page.click(".gl-take button:text-is('Link')")
    link = page.locator("[data-panel=take] input")
    link.wait_for()
    player(page, "P.panels.at(-1).select(P.lane, 4)")  # as where the round settles after the click
    assert link.is_visible()
    address, _, hash = link.input_value().partition("#")
    assert address.startswith(stub_server)
    there = visit(stub_server, hash=f"#{hash}")
    there.wait_for_selector(f"{ROOT}[data-run=differs][data-chosen=eagle3][data-round='4']")
    assert float(data(there, "t")) == pytest.approx(t, abs=0.01) and data(there, "phase") != "done"
    assert there.input_value("#question textarea") == "Do they differ?"
    assert there.get_attribute("#examples button:nth-child(3)", "aria-pressed") == "true"
    player(there, 'P.feed(P.text.replace(\'"run":"differs"\', \'"run":"mine"\'))')
    there.evaluate("document.querySelector('[data-panel=take]').open = true")
    there.click(".gl-take button:text-is('Link')")
    there.wait_for_function(
        "() => document.querySelector('.gl-take ~ .gl-said').textContent.includes('recorded runs only')"
    )


def test_a_saved_run_plays_again(page, tmp_path):
    words = [w.replace("chart", "graph") for w in fake.ANSWER]
    text = "".join(fake.lines(words, run="elsewhere", question="Made elsewhere?"))
    (tmp_path / "run.ndjson").write_text(text, encoding="utf-8")
    open_file(page, tmp_path / "run.ndjson")
    page.wait_for_selector(f"{ROOT}[data-run=elsewhere][data-done]")
    wait_status(page, "The picture is not in the file")
    assert page.input_value("#question textarea") == "Made elsewhere?"
    assert "graph" in page.inner_text(".gl-lane[data-lane=glance] .gl-text")
    assert page.locator("#seen img").count() == 0, "the picture of another run would mislead"
    torn = text[: text.rindex('{"kind":"end"') + 30]
    (tmp_path / "torn.json").write_text(torn, encoding="utf-8")
    open_file(page, tmp_path / "torn.json")
    page.wait_for_selector(f"{ROOT}[data-run=elsewhere]:not([data-done])")
    assert page.inner_text(".gl-lane[data-lane=glance] .gl-badge") == "not finished"
    player(page, "P.goTo(2, 1)")
    assert data(page, "round") == "1"
    page.click("#go")
    wait_status(page, "There is no picture yet")


def test_a_saved_run_brings_its_settings_back(stub_server, visit, tmp_path):
    page = visit(stub_server)
    path = tmp_path / "run.ndjson"
    for made, said in (
        (fake.lines(run="mine", seed=7, budget=15, lanes=("autoregressive", "glance")), "A saved run"),
        (fake.lines(run="large", seed=8, budget=500), "keeps its own. Budget must be"),
    ):
        path.write_text("".join(made), encoding="utf-8")
        open_file(page, path)
        wait_status(page, said)
    open_settings(page)
    assert page.input_value("#seed input") == "7"
    ask_again = [box.is_checked() for box in page.locator("#lanes input").all()]
    assert ask_again == [True, False, True]
    Image.new("RGB", (300, 200), "white").save(tmp_path / "mine.png")
    page.set_input_files("#upload input[type=file]", tmp_path / "mine.png")
    wait_status(page, "Ready")
    page.click("#go")
    wait_done(page, "large")
    header = player(page, "P.run.header")
    assert header["settings"]["budget"] == 15
    assert [lane["id"] for lane in header["lanes"]] == ["autoregressive", "glance"]


def changed(**header: object) -> str:
    lines = fake.lines(run="bad")
    lines[0] = json.dumps({**json.loads(lines[0]), **header}) + "\n"
    return "".join(lines)


BAD = {
    "prose": ("hello\n", "is not a JSON object"),
    "other JSON": ('{"a": 1}\n', "not a GLANCE trace"),
    "newer": (changed(schema=2), "has schema 2; this version reads schema 1"),
    "no lanes": (changed(lanes=[]), "must name lanes"),
    "odd question": (changed(question=["<img src=x>"]), "'question' has a value of the wrong kind"),
    "not text": (b"\xff\xfe\x00", "is not text"),
    "empty": ("", "is empty"),
    "too large": (b" " * (5 * 2**20 + 1), "The file has 5.0 MB and 5 fit"),
}


def test_every_bad_file_gets_its_sentence_and_changes_nothing(page, tmp_path):
    picture = page.get_attribute("#seen img", "src")
    for number, (content, words) in enumerate(BAD.values()):
        path = tmp_path / f"bad-{number}.ndjson"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        open_file(page, path)
        wait_status(page, words)
        assert "Traceback" not in status(page) and str(tmp_path) not in status(page)
    assert data(page, "run") == "first" and page.get_attribute("#seen img", "src") == picture
