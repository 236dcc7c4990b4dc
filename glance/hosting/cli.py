"""`python -m glance space | serve-command | engine`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import NewTokens, Preset, With, console


def space(
    out: Annotated[Path, typer.Option(help="A new folder.")],
    static: Annotated[bool, typer.Option("--static", help="A free static Space: recorded runs, no model.")] = False,
    preset: Preset = "mini",
    parts: With = [],  # noqa: B006
) -> None:
    """Assemble a folder that can be pushed as a Hugging Face Space."""
    from ..examples import shipped
    from ..presets import parse
    from . import gallery
    from . import space as spaces

    if static:
        gallery.build(out, shipped())
    else:
        spaces.live(out, preset, **parse(parts))
    files = [path for path in out.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    console.print(f"{len(files)} files, {size / 1e6:.0f} MB in {out}. To push them:", soft_wrap=True, markup=False)
    console.print(f"hf upload --repo-type space USER/NAME {out} .", soft_wrap=True, markup=False)


def serve_command(
    engine: Annotated[str, typer.Option(help="sglang or vllm.")],
    preset: Preset = "qwen3-vl-8b",
    parts: With = [],  # noqa: B006
    head: Annotated[str, typer.Option(help="Whose head drafts: glance, eagle3 or none.")] = "glance",
    budget: Annotated[int, typer.Option(min=1, help="Nodes of EAGLE-3's tree, root excluded.")] = 31,
) -> None:
    """Print the command that starts a production engine with the same target and head."""
    from ..presets import parse
    from .serve import command

    typer.echo(command(engine, preset, head, budget, **parse(parts)))


def engine(
    image: Annotated[Path, typer.Argument(help="An image, or a PDF (its first page).")],
    question: str,
    url: Annotated[str | None, typer.Option(help="Of an OpenAI-compatible server.", envvar="GLANCE_ENGINE_URL")] = None,
    max_new_tokens: NewTokens = 256,
    timeout: Annotated[float, typer.Option(help="Seconds of silence to wait.")] = 60.0,
) -> None:
    """Ask a running production engine, and print its text, speed and acceptance."""
    from ..images import load_image
    from . import engine as engines

    picture, _ = load_image(image)
    shown = 0
    for answer in engines.ask(engines.address(url), picture, question, max_new_tokens, timeout):
        typer.echo(answer.text[shown:], nl=False)
        shown = len(answer.text)
    typer.echo()
    console.print(answer.sentence(), markup=False, soft_wrap=True)
    console.print(engines.NO_TREES, markup=False, soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(space)
    app.command("serve-command")(serve_command)
    app.command()(engine)
