"""The player starts from the page's own HTML, before and without Gradio's scripts, and moves to its place later."""

import re
from collections.abc import Iterator

import httpx
import pytest
from starlette.testclient import TestClient

from app.early import Early
from tests.app.conftest import HERE, serve
from tests.app.steps import ROOT, ask, data, hold, wait_done

PAGE = b"<html><head><title>x</title></head><body><gradio-app></gradio-app></body></html>"


def get(path: str, parts: list[bytes], accept: str = "identity", kind: bytes = b"text/html; charset=utf-8"):
    """The answer of an app that sends these parts, through the middleware."""

    async def app(scope, receive, send):
        headers = [(b"content-length", str(sum(map(len, parts))).encode()), (b"content-type", kind)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
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
    assert get("/demo/", [PAGE]).text == text, "a proxy may keep its prefix"
    other = [PAGE.replace(b"gradio-app", b"div"), b"more"]
    assert get("/", other).content == b"".join(other)
    assert get("/gradio_api/stream", [PAGE, b"more"], kind=b"text/event-stream").content == PAGE + b"more"


@pytest.fixture
def sub_path() -> Iterator[str]:
    yield from serve(HERE / "stub_server.py", {"GRADIO_ROOT_PATH": "/demo"})


@pytest.mark.browser
def test_it_works_behind_a_proxy_that_keeps_the_prefix(sub_path, visit):
    page, lost = visit.blank(), []
    page.on("response", lambda answer: lost.append(answer.url) if answer.status >= 400 else None)
    page.goto(f"{sub_path}demo/", wait_until="commit")
    page.wait_for_selector(f"#view {ROOT}[data-ready]")
    page.wait_for_function("() => [...document.querySelectorAll('#examples img')].every((img) => img.naturalWidth)")
    run = data(page, "run")
    ask(page, "What does it say?")
    wait_done(page, run)
    assert lost == []


def test_behind_a_proxy_nothing_is_asked_for_without_encryption(sub_path):
    told = {"host": "school.example", "x-forwarded-proto": "https", "x-forwarded-host": "school.example"}
    text = httpx.get(sub_path, headers=told).text
    assert 'id="early"' in text and "https://school.example/demo" in text
    assert set(re.findall(r"http://[\w.]+", text)) == {"http://www.w3.org"}, "a name, not an address"


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 1920])
def test_it_plays_while_the_rest_of_the_page_is_on_its_way_and_goes_on_in_its_place(stub_server, visit, width):
    page = visit.blank(reduced_motion="no-preference", viewport={"width": width, "height": 900})
    held = hold(page, "**/assets/index-*.js")
    page.goto(stub_server, wait_until="commit")
    page.wait_for_selector("#early .gl-root[data-ready][data-playing='1']")
    page.wait_for_function("() => +document.querySelector('#early .gl-root').dataset.t > 5")
    assert not page.is_visible("[data-action=tour]"), "its card would open behind the page"
    page.evaluate(
        "() => { window.kept = document.querySelector('#early .gl-root'); kept.player.pause(); kept.player.seek(9); }"
    )
    place = "[kept.getBoundingClientRect().left, kept.clientWidth]"
    before = page.evaluate(place)
    held().continue_()
    page.wait_for_selector(f"{ROOT}[data-ready]")
    assert page.evaluate(f"document.querySelector('{ROOT}') === kept") and page.locator(".gl-root").count() == 1
    assert page.get_attribute(ROOT, "data-t") == "9.000" and page.locator("#early").count() == 0
    assert page.evaluate(place) == before, "nothing is drawn twice, and nothing jumps"
    assert page.is_visible("[data-action=tour]")
