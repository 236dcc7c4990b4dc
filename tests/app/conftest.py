"""One server on made-up runs and one browser for all tests of the page."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from glance.export import replay_html
from tests.app import fake
from tests.app.alone import PLAIN
from tests.app.steps import data, feed, player, status, wait_status

HERE = Path(__file__).resolve().parent
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = [
    f"--{flag}"
    for flag in (
        "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
        "disable-component-update", "disable-sync",
    )
]  # fmt: skip
LOCAL = ("http://127.0.0.1:", "data:", "blob:", "file:")
QUIET = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1"}


def serve(script: Path, environment: dict[str, str] | None = None) -> Iterator[str]:
    """Run a server script on a free port of the loopback and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    here = {"GRADIO_SERVER_PORT": str(port), "GRADIO_SERVER_NAME": "127.0.0.1"}
    env = {**os.environ, **QUIET, **here, **(environment or {})}
    process = subprocess.Popen(
        [sys.executable, str(script), str(port)], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    address = f"http://127.0.0.1:{port}/"
    for _ in range(6000):
        if process.poll() is not None:
            pytest.fail(f"the server ended:\n{process.stdout.read()}")
        try:
            with urllib.request.urlopen(address, timeout=5):
                break
        except OSError:
            time.sleep(0.1)
    else:
        process.kill()
        pytest.fail(f"the server did not answer:\n{process.stdout.read()}")
    yield address
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()


@pytest.fixture(scope="session")
def stub_server() -> Iterator[str]:
    yield from serve(HERE / "stub_server.py")


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not Path(CHROMIUM).exists():
        pytest.skip(f"there is no Chromium at {CHROMIUM}; set CHROMIUM to its path")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


class Visits:
    """Opens pages, and remembers errors in them and requests that leave the machine."""

    def __init__(self, browser) -> None:
        self.browser, self.contexts, self.troubles = browser, [], []

    def __call__(
        self, address: str, width: int = 1280, height: int = 900, theme: str = "light", motion: str = "reduce",
        hash: str = "",
    ):  # fmt: skip
        """A page of the app whose player is ready."""
        page = self.blank(viewport={"width": width, "height": height}, reduced_motion=motion)
        page.goto(f"{address}?__theme={theme}{hash}")
        page.wait_for_selector("#view .gl-root[data-ready]")
        page.wait_for_selector("#seen button[aria-label]")  # the last thing that loading does
        return page

    def blank(self, **options):
        """An empty page that is watched."""
        context = self.browser.new_context(**options)
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(180_000)
        page.on("pageerror", lambda error: self.troubles.append(f"error in the page: {error}"))
        page.on("console", self._console)
        page.on("request", lambda r: r.url.startswith(LOCAL) or self.troubles.append(f"request to {r.url}"))
        return page

    def _console(self, message) -> None:
        if message.type == "error":
            self.troubles.append(f"console: {message.text} ({message.location})")

    def close(self) -> None:
        """Leave all pages; fail where something was wrong with one."""
        for context in self.contexts:
            context.close()
        assert not self.troubles


@pytest.fixture
def visit(browser):
    """visit(address, width=..., height=..., theme=..., motion=...) -> a page of its own."""
    visits = Visits(browser)
    yield visits
    visits.close()


@pytest.fixture(scope="module")
def shared(browser, stub_server):
    """One page for all tests that need no page of their own."""
    visits = Visits(browser)
    yield visits(stub_server)
    visits.close()


@pytest.fixture
def page(shared):
    """The shared page, back on the first recorded run, paused at its end."""
    question, said = "What does the chart say?", "A recorded run."
    if shared.input_value("#question textarea") != question or said not in status(shared):
        shared.locator("#examples button").first.click()
        shared.wait_for_function("q => document.querySelector('#question textarea').value === q", arg=question)
        wait_status(shared, said)
    feed(shared, "".join(fake.lines(run="first")))
    player(shared, "(P.pause(), P.choose(2), P.seek(Infinity), P.parts.table.removeAttribute('open'))")
    return shared


@pytest.fixture(scope="module")
def alone_shared(browser):
    """One page that holds nothing but the player."""
    visits = Visits(browser)
    page = visits.blank(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page.set_content(replay_html(PLAIN))
    page.wait_for_selector(".gl-root[data-ready]")
    yield page
    visits.close()


@pytest.fixture
def alone(alone_shared):
    """That page on the plain run, at its end, on GLANCE."""
    page = alone_shared
    if data(page, "run") != "plain":
        feed(page, PLAIN)
    player(page, "(P.pause(), P.tour.close(), P.choose(2), P.seek(Infinity))")
    return page
