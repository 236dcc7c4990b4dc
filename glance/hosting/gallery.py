"""The free static Space, which is also a web page for any server or a folder on a stick: recorded runs, no Python."""

from __future__ import annotations

import html
import shutil
from collections.abc import Sequence
from pathlib import Path

from ..examples import Example
from ..export import replay_html
from ..outputs import new_folder
from .space import CARD, RECORDED, card

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>GLANCE: recorded runs</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }}
ul {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: 1rem; padding: 0; }}
li {{ list-style: none; }}
a {{ display: block; height: 100%; padding: .75rem; box-sizing: border-box; border: 1px solid; border-radius: .5rem; }}
a:focus-visible {{ outline: 3px solid #e69f00; outline-offset: 2px; }}
img {{ display: block; width: 100%; height: 10rem; object-fit: contain; background: #fff; margin-bottom: .5rem; }}
</style>
<h1>GLANCE: recorded runs</h1>
<p>Three decoders answer the same question about the same picture with the same bytes: autoregressive, EAGLE-3 and
GLANCE. Choose a run; it plays in your browser, round by round, at its recorded speed.</p>
<ul>
{items}
</ul>
</html>
"""
ITEM = '<li><a href="{name}.html"><img src="{name}{suffix}" alt="" loading="lazy">{question}</a></li>'


def build(out: Path, examples: Sequence[Example]) -> None:
    """Write the index, a page and a picture for each run, and the card of a static Space.

    Raises:
        BadInput: a folder that holds something already.
    """
    new_folder(out)
    for run in examples:
        shutil.copy(run.image, out / f"{run.name}{run.image.suffix}")
        (out / f"{run.name}.html").write_text(replay_html(run.trace), encoding="utf-8")
    items = [
        ITEM.format(name=run.name, suffix=run.image.suffix, question=html.escape(run.question)) for run in examples
    ]
    (out / "index.html").write_text(PAGE.format(items="\n".join(items)), encoding="utf-8")
    fields = {**CARD, "sdk": "static", "app_file": "index.html"}
    (out / "README.md").write_text(card(fields, RECORDED), encoding="utf-8")
