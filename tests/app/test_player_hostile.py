"""What a trace says is text in the player, whatever it looks like."""

import pytest

from glance import trace
from tests.app import fake
from tests.app.alone import enriched, start_tour
from tests.app.steps import feed, player

pytestmark = pytest.mark.browser

BAD = enriched(fake.lines(fake.HOSTILE * 2, fake.HOSTILE, fake.HOSTILE[0], run="bad"))


@pytest.fixture
def page(alone):
    return alone


def test_hostile_tokens_are_inert_in_every_new_part(page):
    feed(page, BAD)
    for order in (1, 2):
        for k in range(player(page, f"P.run.lanes[{order}].rounds.length")):
            player(page, f"P.goTo({order}, {k})")
    start_tour(page)
    page.keyboard.press("Escape")
    assert page.evaluate("window.harmed") is None
    assert page.locator("main img, main script").count() == 0


WICKED = {
    "%{x}": "%{x}", "<b>": "<b>", "${a}": "${a}", "\u202ex": "[202E]x", "</script>": "</script>", "&lt;": "&lt;",
    "$x$": "$x$", "%{text}": "%{text}",
}  # fmt: skip
HOVER = """async () => {
  const P = document.querySelector('main').player, nodes = [], first = async (plot, curveNumber, kind) => {
    for (const old of plot.querySelectorAll('.hovertext')) old.remove();
    for (let i = 0; i < 600 && !plot.querySelector('.hovertext'); i++) { // Plotly may put it off
      Plotly.Fx.hover(plot, [{ curveNumber, pointNumber: 0 }]);
      await new Promise(requestAnimationFrame);
    }
    const text = plot.querySelector('.hovertext ' + kind);
    return (text.querySelector('.line') || text).textContent.replace(/[\u2068\u2069]/g, '');
  };
  for (const k of P.lane.rounds.keys()) {
    const { plot } = P.parts, texts = [];
    P.goTo(2, k);
    for (const [i, { hovertemplate, x }] of plot.data.entries()) {
      if (hovertemplate && x.length) texts.push(await first(plot, i, '.nums'));
    }
    nodes.push(texts);
  }
  return [nodes, await first(P.timeline.plot, 0, '.name')];
}"""


def test_no_text_of_a_trace_is_read_as_a_template(page):
    """What hangs over a node is the token itself, whatever the figure's own language would make of it."""
    lines = fake.lines([*WICKED] * 5, [*WICKED], "%{x}", run="templates")
    lines[0] = lines[0].replace('"name":"Autoregressive"', '"name":"%{y} $y$"')
    feed(page, "".join(lines))
    player(page, "P.choose(2)")
    run = trace.read("".join(lines))
    name = lambda i: WICKED.get(run.pieces[i].decode(), "end")  # noqa: E731
    expected = []
    for rnd in run.lane("glance").rounds:
        others = [i for i in range(len(rnd.tokens)) if i not in rnd.accepted]
        nodes = [rnd.tokens[i] for i in (*others[:1], *rnd.accepted[:1])]
        own = [] if rnd.bonus is None else [rnd.bonus]
        expected.append([*map(name, nodes), f"root {name(rnd.root)}", *map(name, own)])
    assert page.evaluate(HOVER) == [expected, "%{y} $y$"]
    assert set(WICKED.values()) <= {text.removeprefix("root ") for texts in expected for text in texts}
