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

APP = Path(__file__).resolve().parents[2] / "app.py"
ROOT = "#view .gl-root"

# From the page's load event: when the player is drawn, and when the first trace has moved.
WATCH = """addEventListener('load', () => {
  const loaded = performance.now(), marks = window.marks = { loaded };
  let first = null;
  (function look() {
    const { ready, playing, t } = (document.querySelector('#view .gl-root') || { dataset: {} }).dataset;
    if (ready && !marks.ready) marks.ready = performance.now();
    if (playing && first === null) first = t;
    if (playing && t !== first) marks.moving = performance.now(); else requestAnimationFrame(look);
  })();
});"""

STEPS = """async () => {
  const player = document.querySelector('#view .gl-root').player, work = [], painted = [];
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  player.pause();
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
    page.wait_for_function("() => window.marks && window.marks.moving", timeout=600_000)
    marks = page.evaluate("window.marks")
    before = -1
    while before != len(urls):  # never "networkidle": Gradio keeps a stream open to notice a visitor who leaves
        before = len(urls)
        page.wait_for_timeout(1000)
    page.wait_for_function(f"() => document.querySelector('{ROOT}').dataset.playing === ''", timeout=600_000)
    playing = len(urls) - before
    page.close()
    own = sum(size for request, size in bytes_of.items() if "/assets/" in urls.get(request, ""))
    return {
        "load_to_drawn": marks["ready"] - marks["loaded"],
        "load_to_moving": marks["moving"] - marks["loaded"],
        "requests_while_playing": playing,
        "own_kb": own / 1024,
        "all_kb": sum(bytes_of.values()) / 1024,
    }


def steps(browser: Browser, address: str) -> dict[str, float]:
    """Median times of a step in trees of 63 candidates and a root: our own work, and until it is on screen."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page.goto(address, timeout=600_000)
    page.wait_for_selector(f"{ROOT}[data-ready]", timeout=600_000)
    large = "".join(fake.lines(budget=63, run="large"))
    page.evaluate(f"text => document.querySelector('{ROOT}').player.feed(text)", large)
    times = page.evaluate(STEPS)
    page.close()
    return {f"step_{name}_median": statistics.median(values) for name, values in times.items()}


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
            **{f"slow_{k}": v for k, v in first_screen(browser, address, 4).items() if k.startswith("load")},
            **steps(browser, address),
        }
        browser.close()
    next(server, None)
    for name, value in figures.items():
        print(f"{name:26} {value:9.1f}")
    if target:
        target.write_text(json.dumps({name: round(value, 2) for name, value in figures.items()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
