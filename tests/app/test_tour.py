"""The texts of the guided tour, against the examples that they speak of."""

import re

import pytest

from app.replay import TOUR
from glance import trace
from glance.examples import shipped
from tests.app.steps import ROOT, ask, data, player, put_picture, wait_done, wait_status

LANES = {"autoregressive", "eagle3", "glance"}
RULES = {"first", "longest", "unsure", "branch", "fewest"}
POINTS = {"lanes", "race", "stages", "tree", "tops", "say", "findings", "overlay", "audit", "take", "ask"}
FIGURES = {
    "round", "rounds", "candidates", "accepted", "tokens", "passes", "entropy", "margin", "draft", "verify", "prefill",
    *(f"{lane}.{name}" for lane in LANES for name in ("tokens", "target", "draft", "tau", "speedup")),
}  # fmt: skip


def step(path) -> dict[str, str]:
    head, text, notes = path.read_text(encoding="utf-8").split("\n---\n")
    return {**dict(line.split(": ", 1) for line in head.splitlines()), "text": text, "notes": notes}


STEPS = {path.stem: step(path) for path in sorted(TOUR.glob("*.md"))}


def test_eight_short_steps():
    assert len(STEPS) == 8
    for name, one in STEPS.items():
        assert len(one["text"].split()) <= 75, f"{name} is too long to read from a screen"
        assert one["notes"].strip(), name
        assert one["point"] in POINTS and one["action"] in {"slow", "show", "play", "ask"}
        assert set(re.findall(r"\{([\w.]+)\}", one["text"] + one["notes"])) <= FIGURES


@pytest.mark.skipif(not shipped(), reason="no examples in assets")
def test_each_step_has_the_round_that_it_speaks_of():
    runs = {example.name: trace.read(example.trace) for example in shipped()}
    for name, one in STEPS.items():
        if one["action"] == "ask":
            continue
        assert one["round"] in RULES
        run = runs[one["example"]]
        rounds = run.lane(one["lane"]).rounds
        accepted = [len(r.accepted) for r in rounds]
        if one["round"] == "longest":
            assert max(accepted) >= 3, f"{name}: this example has no long acceptance"
        if one["round"] == "fewest":
            worst = min(rounds, key=lambda r: len(r.emitted))
            assert len(worst.emitted) == 1 and worst is rounds[-1], f"{name}: its words are about an end of one token"
            assert worst.total_ms > run.lane("autoregressive").end.summary.ms_per_token, f"{name}: it did not lose"
        if one["round"] == "unsure":
            unsure = max(rounds[:-1], key=lambda r: r.entropy)  # the end of the answer cut the last one
            assert unsure.entropy >= 0.69, f"{name}: the target is never unsure"
            assert len(unsure.accepted) <= 3, f"{name}: it was guessed all the same"
        if one["round"] == "branch":
            better = any(
                r.log_q[j] > r.log_q[i]
                for r in rounds for i in r.accepted for j in range(len(r.tokens)) if r.parents[j] == r.parents[i]
            )  # fmt: skip
            assert better, f"{name}: the favourite was always right"


@pytest.mark.browser
def test_a_visitor_has_everything_again_after_the_tour(stub_server, visit, tmp_path):
    page = visit(stub_server)
    put_picture(page, tmp_path, "teal")
    wait_status(page, "Ready")
    ask(page, "Mine?")
    wait_done(page, "first")
    mine, seen = data(page, "run"), page.evaluate("document.querySelector('#seen img').naturalWidth")
    page.evaluate("document.querySelector('#view .gl-root').player.options.open = () => true")  # no such examples here
    page.click("[data-action=tour]")
    page.wait_for_selector(".gl-tour[data-step='1']")
    page.locator("#examples button").first.click()
    page.wait_for_selector(f"{ROOT}[data-run=first]")
    page.keyboard.press("Escape")
    page.wait_for_selector(f"{ROOT}[data-run='{mine}']")
    wait_status(page, "before the tour")
    assert page.input_value("#question textarea") == "Mine?" and "mine" in page.inner_text("#upload")
    page.wait_for_function("old => document.querySelector('#seen img').naturalWidth === old", arg=seen)


@pytest.mark.browser
def test_the_page_fetches_the_tour_when_it_is_opened(stub_server, visit):
    page = visit(stub_server)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.click("[data-action=tour]")
    page.wait_for_selector(".gl-tour[data-step='1']")
    assert sum("/tour/en/" in url for url in asked) == 8
    page.wait_for_function("() => document.querySelector('.gl-tour-text').textContent.includes('guesses')")
    assert data(page, "chosen") == "glance"
    longest = player(page, "Math.max(...P.lane.rounds.map((r) => r.accepted.length))")
    assert player(page, f"P.lane.rounds[{data(page, 'round')}].accepted.length") == longest
    for _ in range(7):
        page.keyboard.press("PageDown")
    page.wait_for_selector(".gl-tour[data-step='8'] .gl-tour-text :text('press Run')")
    run, card = page.locator("#go").bounding_box(), page.locator(".gl-tour").bounding_box()
    assert run["x"] + run["width"] < card["x"], "the card lies over what its step speaks of"
    page.keyboard.press("Escape")
    assert page.locator(".gl-tour").count() == 0


@pytest.mark.browser
def test_on_a_phone_the_last_step_leaves_run_in_sight(stub_server, visit):
    page = visit(stub_server, width=390, height=844)
    page.click("[data-action=tour]")
    for step in range(1, 8):
        page.wait_for_selector(f".gl-tour[data-step='{step}']")
        page.click(".gl-tour-foot button:has-text('Next')")
    page.wait_for_selector(".gl-tour[data-step='8'] .gl-tour-text :text('press Run')")
    page.wait_for_function(
        """() => {
            const run = document.querySelector("#go").getBoundingClientRect()
            return run.top >= 0 && run.bottom <= document.querySelector(".gl-tour").getBoundingClientRect().top
        }"""
    )
