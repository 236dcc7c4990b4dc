"""What a visitor does on the page, and what is read off it."""

from PIL import Image

ROOT = ":is(#view .gl-root, main.gl-root)"  # in the app, or in a page by itself


def data(page, name: str) -> str | None:
    """A data attribute of the player."""
    return page.get_attribute(ROOT, f"data-{name}")


def player(page, expression: str):
    """Evaluate JavaScript with P as the player."""
    return page.evaluate(f"(() => {{ const P = document.querySelector('{ROOT}').player; return {expression}; }})()")


def stat(page, lane: str, number: int) -> str:
    return page.locator(f".gl-lane[data-lane={lane}] dd").nth(number).inner_text()


def status(page) -> str:
    return page.inner_text("#status .gl-status")


def open_settings(page) -> None:
    """Open them and let them come to rest: they are made when they open, and take their values a frame later."""
    page.click("#ask button:has-text('Settings')")
    page.wait_for_selector("#seed input")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def ask(page, question: str) -> None:
    page.fill("#question textarea", question)
    page.click("#go")


def wait_status(page, words: str) -> None:
    page.wait_for_function("w => document.querySelector('#status .gl-status').textContent.includes(w)", arg=words)


def put(page, path) -> None:
    """Replace the file by another."""
    page.click("#upload button[aria-label*='lear']")
    page.set_input_files("#upload input[type=file]", path)


def put_picture(page, folder, colour: str) -> None:
    """Replace the file by a picture of one colour, `mine.png`."""
    path = folder / "mine.png"
    Image.new("RGB", (300, 200), colour).save(path)
    put(page, path)


def open_file(page, path) -> None:
    """Open a saved run."""
    with page.expect_file_chooser() as chooser:
        page.click("#open")
    chooser.value.set_files(path)


def wait_done(page, run: str) -> None:
    """Wait until another run than the given one is over and Run can be pressed again."""
    page.wait_for_function(
        "run => { const d = document.querySelector('#view .gl-root').dataset; return d.done && d.run !== run; }",
        arg=run,
    )
    page.wait_for_selector("#go:not([disabled])")


def hold(page, pattern):
    """Keep the next request like `pattern` waiting; call what is returned for its route, once it has been sent."""
    held = []
    page.route(pattern, lambda route: held.append(route), times=1)

    def route():
        for _ in range(3000):
            if held:
                return held[0]
            page.wait_for_timeout(20)
        raise AssertionError(f"no request like {pattern} was sent")

    return route


def feed(page, text: str) -> None:
    page.evaluate("([root, text]) => document.querySelector(root).player.feed(text)", [ROOT, text])
