"""`python -m glance space | serve-command | engine`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

console = Console(highlight=False)
Preset = Annotated[str, typer.Option(help="Model family.")]


def space(
    out: Annotated[Path, typer.Option(help="A new folder.")],
    static: Annotated[bool, typer.Option("--static", help="A free static Space: recorded runs, no model.")] = False,
    preset: Preset = "mini",
) -> None:
    """Assemble a folder that can be pushed as a Hugging Face Space."""
    from ..examples import shipped
    from . import gallery
    from . import space as spaces

    if static:
        gallery.build(out, shipped())
    else:
        spaces.live(out, preset)
    files = [path for path in out.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    console.print(f"{len(files)} files, {size / 1e6:.0f} MB in {out}. To push them:", soft_wrap=True, markup=False)
    console.print(f"hf upload --repo-type space USER/NAME {out} .", soft_wrap=True, markup=False)


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(space)
