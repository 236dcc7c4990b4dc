"""The app as it is shipped, in a real browser: the first screen, a run of the model that comes with it, and Stop."""

import pytest

from glance.examples import FOLDER, shipped
from tests.app.conftest import serve
from tests.app.steps import ask, data, player, status, wait_done

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(
        not (FOLDER.parent / "mini" / "target").exists() or not shipped(), reason="no model or no examples in assets"
    ),
]


# The model is quick: only the page itself can press Stop while a run is under way.
STOP_ONCE_UNDER_WAY = """() => {
  const line = document.querySelector('#status .gl-status');
  const press = (_, observer) => {
    if (/Reading|Decoding/.test(line.textContent)) { observer.disconnect(); document.querySelector('#stop').click(); }
  };
  new MutationObserver(press).observe(line, { childList: true, characterData: true, subtree: true });
}"""


@pytest.fixture(scope="module")
def app():
    yield from serve(FOLDER.parents[1] / "app.py", {"OMP_NUM_THREADS": "1"})


def test_first_screen_then_a_run_then_stop(app, visit):
    page = visit(app, motion="no-preference")
    first = data(page, "run")
    assert data(page, "done") == "1"
    assert page.locator("#examples button").count() == len(shipped())
    page.click("#go")
    wait_done(page, first)
    assert "same bytes" in status(page)
    badges = page.locator(".gl-badge").all_inner_texts()
    assert badges == ["reference", "✓ byte-identical", "✓ byte-identical"]
    texts = player(page, "P.run.lanes.map((lane) => lane.closing.sha256)")
    assert len(set(texts)) == 1
    second = data(page, "run")
    page.evaluate(STOP_ONCE_UNDER_WAY)
    ask(page, shipped()[0].question)
    wait_done(page, second)
    reasons = set(player(page, "P.run.lanes.map((lane) => lane.closing.reason)"))  # a quick machine may be done before
    assert status(page).startswith("Stopped" if "stopped" in reasons else "Done"), reasons
