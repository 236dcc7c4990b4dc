"""The player starts from the page's HTML: it need not wait until Gradio has fetched its parts and built the page.

Gradio puts what it gets as `head` into the page only when it builds it, seconds later on a slow machine. So the page is
completed on its way out.
"""

from __future__ import annotations

import gzip
from typing import Any

from app.replay import PAGE_SCRIPTS, PLOTLY, address
from app.theme import STYLE

_MARK = b"<gradio-app"  # the page's own element
_BODY = """<div id="early"><b>GLANCE</b><span>The rest of the page is coming…</span>
<div class="gl-root"><p>Loading the player…</p></div></div>
<script>Glance.startPage(document.getElementById("early"), "{plotly}");</script>
"""


def _parts() -> tuple[str, str]:
    """What comes before the end of the head, and what comes before Gradio's own element."""
    plotly = address(PLOTLY)
    scripts = "\n".join(path.read_text(encoding="utf-8") for path in PAGE_SCRIPTS)
    head = f'<style>{STYLE}</style><link rel="preload" as="script" href="{plotly}"><script>{scripts}</script>'
    return head, _BODY.format(plotly=plotly)


class Early:
    """Middleware that adds the player to the page of a Gradio app.

    Args:
        app: the app that answers, in the ASGI protocol.
    """

    def __init__(self, app: Any) -> None:
        self.app = app
        self.head, self.body = (part.encode() for part in _parts())

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        start: dict[str, Any] = {}
        page = bytearray()

        async def complete(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = dict(message["headers"])
                if headers.get(b"content-type", b"").startswith(b"text/html") and b"content-encoding" not in headers:
                    start.update(message)  # held back: the page may lie at any path, behind a proxy
                    return
            if not start:
                await send(message)
                return
            page.extend(message.get("body", b""))
            if message.get("more_body"):
                return
            whole = bytes(page)
            if _MARK in whole:
                whole = whole.replace(_MARK, self.body + _MARK, 1).replace(b"</head>", self.head + b"</head>", 1)
                headers = [h for h in start["headers"] if h[0] != b"content-length"] + [(b"vary", b"accept-encoding")]
                if b"gzip" in dict(scope["headers"]).get(b"accept-encoding", b""):  # Gradio packs what has an ending
                    whole = gzip.compress(whole, 6)
                    headers.append((b"content-encoding", b"gzip"))
                start["headers"] = [*headers, (b"content-length", str(len(whole)).encode())]
            await send(start)
            await send({"type": "http.response.body", "body": whole})

        await self.app(scope, receive, complete)
