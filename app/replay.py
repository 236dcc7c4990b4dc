"""The player as a component of Gradio, and the files that it is made of. `assets/player/page.js` is its other half."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from glance.examples import Example
from glance.export import PLAYER, TEMPLATE, scripts

STYLE = PLAYER / "viewer.css"
TOUR = PLAYER.parent / "tour" / "en"  # a file a step; the texts of another language lie in a folder beside it
PLOTLY, *SCRIPTS = scripts()

PAGE_SCRIPTS = (*SCRIPTS, PLAYER / "page.js")

_ON_LOAD = """
const ask = {
  look: (question) => trigger('look', question), keep: () => trigger('keep'), back: () => trigger('back')
};
window.Glance.moveIn(element, props, watch, ask);
"""

_STATUS_ON_LOAD = """
const line = element.querySelector('.gl-status');
const update = () => { line.textContent = props.value || ''; };
watch('value', update);
update();
"""


def version() -> str:
    """A tag of the contents of the player and its tour."""
    digest = hashlib.sha256()
    for path in (PLOTLY, *PAGE_SCRIPTS, STYLE, TEMPLATE, *sorted(TOUR.glob("*.md"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def address(path: Path) -> str:
    """Where the page finds a file of the player, as Gradio's own page names its parts."""
    return f"./gradio_api/file={path}?v={version()}"


def replay(value: str | None = None, examples: Sequence[Example] = (), **arguments: Any) -> gr.HTML:
    """The player. Its value is the NDJSON text of a run, whole or growing; a link can bring the examples back.

    Its event `look` asks where the target looked (`lane`, `round`, `ticket`); the prop `answer` takes what to show. The
    tour replaces what is on the page: `keep` comes before, `back` when it is closed.

    The text never enters a template: the player alone owns what is inside, and shows tokens as plain text. A
    factory, not a subclass: a subclass of a component writes a stale copy of its module beside the source.
    """
    return gr.HTML(
        value,
        html_template='<div class="gl-root"><p>Loading the player…</p></div>',
        js_on_load=_ON_LOAD,
        apply_default_css=False,
        folder=str(PLAYER),
        version=version(),
        tour=" ".join(path.name for path in sorted(TOUR.glob("*.md"))),
        tourfolder=str(TOUR),
        examples=json.dumps({example.run: example.name for example in examples}),
        answer="",
        **arguments,
    )


_PICKER_ON_LOAD = """
const base = (window.gradio_config && window.gradio_config.root) || '';
const list = element.querySelector('.gl-picker');
const locked = () => document.querySelector('#go:disabled');
let wait;
/* A run under way ends before another takes its place: what is still on its way would come back over that. */
const alone = (does) => {
  clearInterval(wait);
  if (!locked()) { does(); return; }
  trigger('leave');
  wait = setInterval(() => { if (!locked()) { clearInterval(wait); does(); } }, 30);
};
const mark = (chosen) => [...list.children].forEach((button, i) => button.setAttribute('aria-pressed', i === chosen));
JSON.parse(props.items).forEach((item, i) => {
  const button = document.createElement('button'), image = document.createElement('img');
  const words = document.createElement('span');
  button.type = 'button';
  button.dataset.name = item.name;
  image.src = base + '/gradio_api/file=' + item.image;
  image.alt = '';
  words.textContent = item.question;
  button.append(image, words);
  button.onclick = () => { mark(i); alone(() => trigger('pick', { index: i })); };
  list.append(button);
});
mark(0);
const wanted = new URLSearchParams(location.hash.slice(1)).get('example');
const linked = JSON.parse(props.items).findIndex((item) => item.name === wanted);
if (linked > 0) list.children[linked].click();
"""


def picker(examples: Sequence[Example], **arguments: Any) -> gr.HTML:
    """Buttons with a thumbnail and a question each; its event `pick` carries the `index`, also of a linked example.

    Before it, the event `leave` asks for the end of a run that is under way, and the button Run tells when that is.
    """
    items = [{"name": e.name, "image": str(e.image), "question": e.question} for e in examples]
    return gr.HTML(
        html_template='<div class="gl-picker" role="group" aria-label="Recorded runs"></div>',
        js_on_load=_PICKER_ON_LOAD,
        apply_default_css=False,
        items=json.dumps(items),
        **arguments,
    )


def status(value: str = "", **arguments: Any) -> gr.HTML:
    """One line of plain text that screen readers announce when it changes."""
    return gr.HTML(
        value,
        html_template='<p class="gl-status" role="status"></p>',
        js_on_load=_STATUS_ON_LOAD,
        apply_default_css=False,
        **arguments,
    )
