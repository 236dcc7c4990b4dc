"""The page in a real browser, on made-up runs: what a first visit and a visitor's own run show."""

import re
from dataclasses import replace

import pytest

from glance import trace
from tests.app import fake
from tests.app.steps import ROOT, data, feed, hold, player, stat

pytestmark = pytest.mark.browser


def test_a_recorded_run_plays_at_once(stub_server, visit):
    page = visit.blank(viewport={"width": 1280, "height": 900}, reduced_motion="no-preference")
    page.goto(stub_server, wait_until="commit")
    page.wait_for_selector(".gl-root[data-playing='1'][data-done]")
    page.wait_for_function("() => +document.querySelector('.gl-root').dataset.t > 5")
    page.wait_for_selector(f"{ROOT}[data-ready]")
    player(page, "(P.speed = 0.01, P.seek(0), P.play(true))")  # it goes on for minutes
    page.wait_for_function("() => +document.querySelector('#view .gl-root').dataset.t > 5")
    page.click("[data-action=play]")
    assert data(page, "playing") == ""
    assert page.locator(".gl-lane").count() == 3
    assert [page.locator(".gl-lane").nth(i).get_attribute("data-verdict") for i in range(3)] == [
        "reference", "identical", "identical",
    ]  # fmt: skip


def test_a_second_click_before_the_first_is_answered_asks_for_its_own_run(stub_server, visit):
    page = visit(stub_server)
    held = hold(page, re.compile("run/predict|queue/join"))
    page.locator("#examples button").nth(1).click()
    first = held()
    with page.expect_request(lambda request: '"index":2' in (request.post_data or "")):
        page.locator("#examples button").nth(2).click()
        first.continue_()


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


def test_a_difference_is_told(page):
    page.locator("#examples button").nth(2).click()
    page.wait_for_selector(f"{ROOT}[data-run=differs][data-done]")
    assert page.inner_text(".gl-lane[data-lane=eagle3] .gl-badge") == "✗ differs at token 9"
    assert "Differs at token 9" in page.inner_text(".gl-lane[data-lane=eagle3] .gl-foot")


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
    figure = player(page, "JSON.stringify(Glance.treePicture(P).data)")
    assert "&#60;" in figure and "<img" not in figure and "<script" not in figure
    say = page.locator(".gl-say")
    assert say.locator("bdi").count() >= 1
