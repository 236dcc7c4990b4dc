"""Pictures of the page for people to look at: `python -m tests.app.screenshots [FOLDER]`.

They show the shipped examples in light, in dark and at the width of a phone, by default in assets/screenshots. Nothing
is asserted here.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.app.conftest import CHROMIUM, FLAGS, serve

ROOT = Path(__file__).resolve().parents[2]
VIEWS = (("light", 1400, 1000, "light"), ("dark", 1400, 1000, "dark"), ("phone", 390, 844, "light"))

# The round of GLANCE with the longest accepted path shows most.
BEST_ROUND = """() => {
  const player = document.querySelector('#view .gl-root').player, lane = player.run.byId.get('glance');
  let best = 0;
  lane.rounds.forEach((round, k) => { if (round.accepted.length > lane.rounds[best].accepted.length) best = k; });
  player.seek(lane.end[best]);
}"""

# Gradio's pictures are lazy: far below a phone's screen they may never be asked for.
ARRIVED = "[...document.images].every((image) => image.complete || image.getBoundingClientRect().top > 2 * innerHeight)"


def main(folder: Path) -> None:
    """Serve the app and photograph it."""
    folder.mkdir(parents=True, exist_ok=True)
    server = serve(ROOT / "app.py")
    address = next(server)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name, width, height, theme in VIEWS:
            page = browser.new_page(viewport={"width": width, "height": height}, reduced_motion="reduce")
            page.goto(f"{address}?__theme={theme}")
            page.wait_for_selector("#view .gl-root[data-ready]", timeout=60_000)
            page.evaluate(BEST_ROUND)
            page.wait_for_function(ARRIVED)
            bottom = page.evaluate("document.querySelector('.gl-microscope').getBoundingClientRect().bottom + scrollY")
            clip = {"x": 0, "y": 0, "width": width, "height": bottom + 14}  # down to the round; the sections are below
            page.screenshot(path=folder / f"{name}.png", full_page=True, clip=clip)
            page.close()
        browser.close()
    next(server, None)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "assets" / "screenshots")
