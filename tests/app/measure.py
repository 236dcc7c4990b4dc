"""How quick and how heavy the page is, in numbers: `python -m tests.app.measure [--json FILE]`.

A test must not depend on a clock, so nothing is asserted here. The app runs as it is shipped, on this machine, and the
browser is headless. Milliseconds unless the name says otherwise.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.app import fake
from tests.app.conftest import CHROMIUM, FLAGS, serve
from tests.app.steps import ROOT

APP = Path(__file__).resolve().parents[2] / "app.py"

# From the first byte asked for: the page's load event, when the player is drawn, when the first trace has moved, and
# when the player stands in its place on the finished page.
WATCH = """(() => {
  const marks = window.marks = {};
  addEventListener('load', () => { marks.loaded = performance.now(); });
  let first = null;
  (function look() {
    const root = document.querySelector('.gl-root'), { ready, playing, t } = root ? root.dataset : {};
    const mark = (name, on) => { if (on && !marks[name]) marks[name] = performance.now(); };
    if (playing && first === null) first = t;
    mark('ready', ready);
    mark('moving', ready && playing && t !== first);
    mark('placed', ready && root.closest('#view'));
    if (!marks.moving || !marks.placed) requestAnimationFrame(look);
  })();
})();"""

# From the click on Run: the first progress, the words that are sent when the prefill starts, the first token drawn.
RUN = """() => new Promise((done) => {
  const root = document.querySelector('#view .gl-root'), line = document.querySelector('#status .gl-status');
  const before = root.dataset.run, words = line.textContent, start = performance.now(), marks = {};
  const mark = (name, on) => { if (on && !marks[name]) marks[name] = performance.now() - start; };
  new MutationObserver((_, observer) => {
    mark('progress', line.textContent !== words);
    mark('prefill', line.textContent.startsWith('Reading the picture'));
    if (root.dataset.run === before || marks.drawing) return;
    mark('drawing', true);
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => { mark('token', true); done(marks); }));
  }).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
  document.querySelector('#go').click();
})"""

# Through the rounds of both lanes that draft, `passes` times: a browser compiles what runs often.
STEPS = """async (passes) => {
  const player = document.querySelector('#view .gl-root').player, work = [], painted = [];
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  player.pause();
  for (let pass = 0; pass < passes; pass++) {
    for (const lane of [1, 2]) {
      player.choose(lane);
      player.seek(0);
      for (let k = 0; k < player.lane.rounds.length; k++) {
        await frame();
        const start = performance.now();
        player.step(1);
        document.body.offsetHeight;
        work.push(performance.now() - start);
        await frame();
        painted.push(performance.now() - start);
      }
    }
  }
  return { work, painted };
}"""


def first_screen(browser: Browser, address: str, slowdown: int) -> dict[str, float]:
    """Times until the first trace moves, and what came over the wire, in KB."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="no-preference")
    devtools = page.context.new_cdp_session(page)
    devtools.send("Network.enable")
    devtools.send("Emulation.setCPUThrottlingRate", {"rate": slowdown})
    urls: dict[str, str] = {}
    bytes_of: dict[str, float] = {}
    devtools.on("Network.responseReceived", lambda e: urls.update({e["requestId"]: e["response"]["url"]}))
    devtools.on("Network.loadingFinished", lambda e: bytes_of.update({e["requestId"]: e["encodedDataLength"]}))
    page.add_init_script(WATCH)
    page.goto(address, timeout=600_000)
    page.wait_for_function("() => marks.loaded && marks.moving && marks.placed", timeout=600_000)
    marks = page.evaluate("window.marks")
    before = -1
    while before != len(urls):  # never "networkidle": Gradio keeps a stream open to notice a visitor who leaves
        before = len(urls)
        page.wait_for_timeout(1000)
    page.evaluate(f"(({{ player }}) => {{ player.seek(0); player.play(true); }})(document.querySelector('{ROOT}'))")
    page.wait_for_function(f"() => document.querySelector('{ROOT}').dataset.playing === ''", timeout=600_000)
    playing = len(urls) - before
    page.close()
    own = sum(size for request, size in bytes_of.items() if "/assets/" in urls.get(request, ""))
    return {
        "load_to_drawn": marks["ready"] - marks["loaded"],
        "load_to_moving": marks["moving"] - marks["loaded"],
        "start_to_moving": marks["moving"],
        "start_to_whole_page": marks["placed"],
        "requests_while_playing": playing,
        "own_kb": own / 1024,
        "all_kb": sum(bytes_of.values()) / 1024,
    }


def runs(browser: Browser, address: str, repeats: int = 7) -> dict[str, float]:
    """Median times of runs of the model: from the click, and from the prefill's start, to the first token."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page.goto(address, timeout=600_000)
    page.wait_for_selector(f"{ROOT}[data-ready]", timeout=600_000)
    seen = []
    for _ in range(1 + repeats):  # the first one waits for the model
        page.wait_for_selector("#go:not([disabled])", timeout=600_000)
        seen.append(page.evaluate(RUN))
        page.wait_for_selector(f"{ROOT}[data-done]", timeout=600_000)
    page.close()
    median = lambda of: statistics.median(map(of, seen[1:]))  # noqa: E731
    return {
        "run_click_to_progress": median(lambda m: m["progress"]),
        "run_click_to_token": median(lambda m: m["token"]),
        "run_prefill_to_token": median(lambda m: m["token"] - m["prefill"]),
    }


def steps(browser: Browser, address: str) -> dict[str, float]:
    """Median times of a step in trees of 63 candidates and a root.

    Over five passes through a run: our own work, the same in the first pass alone, and until it is on screen.
    """
    page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page.goto(address, timeout=600_000)
    page.wait_for_selector(f"{ROOT}[data-ready]", timeout=600_000)
    large = "".join(fake.lines(budget=63, run="large"))
    page.evaluate(f"text => document.querySelector('{ROOT}').player.feed(text)", large)
    first, times = page.evaluate(STEPS, 1), page.evaluate(STEPS, 4)
    page.close()
    return {
        "step_work_first_pass": statistics.median(first["work"]),
        **{f"step_{name}_median": statistics.median([*first[name], *values]) for name, values in times.items()},
    }


def main() -> None:
    """Print the figures, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    target = parser.parse_args().json
    server = serve(APP)
    address = next(server)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=600_000)
        first_screen(browser, address, 1)  # the server's first answer compresses the files
        figures = {
            **first_screen(browser, address, 1),
            **{f"slow_{k}": v for k, v in first_screen(browser, address, 4).items() if "load" in k or "start" in k},
            **steps(browser, address),
            **runs(browser, address),
        }
        browser.close()
    next(server, None)
    for name, value in figures.items():
        print(f"{name:26} {value:9.1f}")
    if target:
        target.write_text(json.dumps({name: round(value, 2) for name, value in figures.items()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
