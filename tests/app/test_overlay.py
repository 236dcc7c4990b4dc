"""On the picture: where the target looked, as the page shows it and as the app answers."""

import json
import threading

import pytest
from PIL import Image

from app.look import answer, where
from app.models import FamilyEngine, Models
from app.turns import Ticket
from glance.engine import Settings
from glance.race import race
from tests import tiny
from tests.app.steps import ROOT, player

ASK = "[data-panel=overlay] button:text-is('Where did the target look?')"
SAID = "[data-panel=overlay] .gl-said"


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "a.png"
    tiny.picture().save(path)
    return str(path)


@pytest.fixture(scope="module")
def run(family):
    prompt = family.prompt(tiny.picture(), "What is it?")
    return "".join(race(family, prompt, Settings(max_new_tokens=8), ["autoregressive", "glance"]))


def ask(engine, *arguments):
    return where(Models(lambda: engine), *arguments)


def test_the_real_engine_answers(family, run, picture):
    found = ask(FamilyEngine(family), run, "autoregressive", 3, picture, 1)
    assert (found["rows"], found["columns"], found["tokens"], found["agreeing"]) == (2, 3, 1, 1)
    assert sum(found["values"]) == pytest.approx(found["share"]) and not found["sampled"]
    told = json.loads(answer(found, 7))
    assert told["ticket"] == 7 and told["values"] == pytest.approx(found["values"], rel=1e-3)


def test_refusals_are_sentences(family, run, picture, tmp_path):
    other = tmp_path / "other.png"
    Image.new("RGB", (96, 64)).save(other)
    engine = FamilyEngine(family)
    lines = run.splitlines(keepends=True)
    header = json.loads(lines[0])
    header["prompt"]["ids_sha256"] = "0" * 64
    elsewhere = json.dumps(header) + "\n" + "".join(lines[1:])
    for arguments, words in (
        ((None, "glance", 0, picture, 1), "is empty"),
        ((run, "glance", 10**6, picture, 1), "must be a whole number"),
        ((run, "glance", "x", picture, 1), "must be a whole number"),
        ((run, "medusa", 0, picture, 1), "emitted no token"),
        ((run, "glance", 0, None, 1), "is not here"),
        ((run, "glance", 0, str(other), 1), "not the one of this run"),
        ((run, "glance", 0, picture, None), "Page must be"),
        ((elsewhere, "glance", 0, picture, 1), "made with another"),
        ((run + " " * 6_000_000, "glance", 0, picture, 1), "too long"),
    ):
        found = ask(engine, *arguments)
        assert list(found) == ["sentence"] and words in found["sentence"] and found["sentence"].endswith(".")


def test_a_failure_is_a_sentence_too(run, picture, family):
    class Broken(FamilyEngine):
        def look(self, *arguments):
            raise RuntimeError("/secret/path")

    found = ask(Broken(family), run, "glance", 0, picture, 1)
    assert "RuntimeError" in found["sentence"] and "secret" not in found["sentence"]


def test_it_waits_for_its_turn(family, run, picture, monkeypatch):
    models, order, waits, wait = Models(lambda: FamilyEngine(family)), [], threading.Event(), Ticket.wait
    monkeypatch.setattr(Ticket, "wait", lambda ticket, seconds: (waits.set(), wait(ticket, seconds)))
    asked = threading.Thread(
        target=lambda: order.append("values" in where(models, run, "glance", 0, picture, 1)), daemon=True
    )
    with models.turns.ticket():
        asked.start()
        assert waits.wait(60), "it did not wait"
        order.append("the run before it is over")
    asked.join()
    assert order == ["the run before it is over", True]


@pytest.fixture
def page(stub_server, visit):
    """A page of its own on the first recorded run, with no answer of the server on its way."""
    own = visit(stub_server)
    own.wait_for_selector(f"{ROOT}[data-run=first][data-done]")
    player(own, "(P.pause(), P.goTo(2, 2), P.parts.overlay.parentElement.setAttribute('open', ''))")
    return own


# Panels hear of a round once it has settled; what they do then must not come after the test's own doing.
HEARD = f"chosen => document.querySelector('{ROOT}').player.sections.shelf[1].chosen === chosen"


def wait_said(page, words: str) -> None:
    page.wait_for_function(f"w => document.querySelector('{SAID}').textContent.includes(w)", arg=words)


@pytest.mark.browser
def test_the_overlay_is_drawn_on_demand_and_can_be_removed(page):
    assert page.locator(".gl-seen").count() == 0
    page.click(ASK)
    page.wait_for_selector(".gl-seen canvas")
    wait_said(page, "GLANCE, round 3: 16.4 % of the attention went to the picture")
    assert "Strongest at row 1, column 3 (10.0 %); row 3, column 4 (1.10 %)" in page.inner_text(SAID)
    alphas = page.evaluate(
        "() => { const c = document.querySelector('.gl-seen canvas');"
        " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " return [c.width, c.height, ...d.filter((_, i) => i % 4 === 3)]; }"
    )
    assert alphas[:2] == [4, 3] and alphas[2 + 2] == max(alphas[2:]) == 204 and alphas[2] == 0
    assert page.inner_text(".gl-scale").split() == ["0", "10.0", "%"]
    page.wait_for_function("() => document.querySelector('.gl-seen img').naturalWidth > 0")
    assert "a hint, not a proof" in page.inner_text("[data-panel=overlay]")
    player(page, "P.goTo(2, 3)")
    page.wait_for_function("() => !document.querySelector('.gl-seen')")
    player(page, "P.goTo(2, 2)")
    page.wait_for_selector(".gl-seen canvas")  # it is remembered
    player(page, "(P.goTo(2, 3), P.panels[1].say(P.lane, 3, 'Looking'))")  # as by a click before the round settles
    assert page.locator(".gl-seen").count() == 0 and page.inner_text(SAID) == "Looking"
    page.wait_for_function(HEARD, arg="glance 3 first")
    player(page, "P.goTo(2, 2)")
    page.wait_for_function(HEARD, arg="glance 2 first")
    assert page.locator(".gl-seen canvas").count() == 1
    page.focus("[data-panel=overlay] button:text-is('Remove')")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == "Where did the target look?"
    assert page.locator(".gl-seen").count() == 0 and page.inner_text(SAID) == ""


@pytest.mark.browser
def test_another_picture_is_a_sentence(page):
    page.locator("#examples button").nth(1).click()
    page.wait_for_selector(f"{ROOT}[data-run=hostile][data-done]")
    player(page, "P.goTo(2, 0)")
    page.click(ASK)
    wait_said(page, "The picture on the page is not the one of this run")
    assert page.locator(".gl-seen").count() == 0
    player(page, "P.panels[1].select(P.lane, 0)")  # as where the round settles after the answer
    assert "The picture on the page" in page.inner_text(SAID)
    player(page, "P.panels[1].select(P.lane, 1)")
    assert page.inner_text(SAID) == "" and page.locator(".gl-seen").count() == 0


@pytest.mark.browser
def test_the_button_is_free_again_where_no_answer_comes(stub_server, visit):
    """The server refuses, the connection drops, or nothing at all happens."""
    page = visit(stub_server)
    page.clock.install()
    player(page, "(P.goTo(2, 2), P.parts.overlay.parentElement.setAttribute('open', ''))")
    refused = lambda route: route.fulfill(status=503, json={"detail": "full"})  # noqa: E731
    lost, silent = (lambda route: route.abort()), (lambda route: None)
    for join, beat, waited in ((refused, None, 0), (silent, lost, 5_000), (silent, None, 180_000)):
        page.route("**/queue/join*", join)
        if beat:
            page.route("**/queue/status", beat)
        page.click(ASK)
        if waited:
            wait_said(page, "Looking")
            assert page.get_attribute(ASK, "aria-disabled") == "true"
            page.clock.fast_forward(waited)
        wait_said(page, "No answer came; the server may be busy or out of reach.")
        assert page.get_attribute(ASK, "aria-disabled") == "false"
        assert page.evaluate("document.activeElement.textContent") == "Where did the target look?"
        page.unroute_all()
    page.click(ASK)
    page.wait_for_selector(".gl-seen canvas")
    assert all("Failed to load resource" in trouble for trouble in visit.troubles)
    visit.troubles.clear()  # those that this test made
