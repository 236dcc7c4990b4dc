"""The player starts from the page's own HTML, before and without Gradio's scripts, and moves to its place later."""

import pytest
from starlette.testclient import TestClient

from app.early import Early
from tests.app.steps import ROOT, hold

PAGE = b"<html><head><title>x</title></head><body><gradio-app></gradio-app></body></html>"


def get(path: str, parts: list[bytes], accept: str = "identity"):
    """The answer of an app that sends these parts, through the middleware."""

    async def app(scope, receive, send):
        size = str(sum(map(len, parts))).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", size)]})
        for i, part in enumerate(parts):
            await send({"type": "http.response.body", "body": part, "more_body": i + 1 < len(parts)})

    return TestClient(Early(app)).get(path, headers={"accept-encoding": accept})


def test_the_page_is_completed_however_it_comes_and_nothing_else_is():
    page = get("/", [PAGE[:20], PAGE[20:50], PAGE[50:]])
    text = page.text
    assert int(page.headers["content-length"]) == len(page.content) > len(PAGE)
    assert text.index("G.startPage = ") < text.index("</head>") < text.index('<div id="early">')
    assert text.index("Glance.startPage(") < text.index("<gradio-app") and text.count('id="early"') == 1
    packed = get("/", [PAGE], "gzip, br")
    assert packed.headers["content-encoding"] == "gzip" and packed.text == text
    assert int(packed.headers["content-length"]) < 0.4 * len(text)
    assert get("/gradio_api/stream", [PAGE, b"more"]).content == PAGE + b"more"


@pytest.mark.browser
def test_it_plays_while_the_rest_of_the_page_is_on_its_way_and_goes_on_in_its_place(stub_server, visit):
    page = visit.blank(reduced_motion="no-preference", viewport={"width": 1280, "height": 900})
    held = hold(page, "**/assets/index-*.js")
    page.goto(stub_server, wait_until="commit")
    page.wait_for_selector("#early .gl-root[data-ready][data-playing='1']")
    page.wait_for_function("() => +document.querySelector('#early .gl-root').dataset.t > 5")
    assert not page.is_visible("[data-action=tour]"), "its card would open behind the page"
    page.evaluate(
        "() => { window.kept = document.querySelector('#early .gl-root'); kept.player.pause(); kept.player.seek(9); }"
    )
    width = page.evaluate("kept.clientWidth")
    held().continue_()
    page.wait_for_selector(f"{ROOT}[data-ready]")
    assert page.evaluate(f"document.querySelector('{ROOT}') === kept") and page.locator(".gl-root").count() == 1
    assert page.get_attribute(ROOT, "data-t") == "9.000" and page.locator("#early").count() == 0
    assert page.evaluate("kept.clientWidth") == width, "nothing is drawn twice"
    assert page.is_visible("[data-action=tour]")
