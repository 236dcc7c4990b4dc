"""`python -m glance train target|glance|eagle3`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

train = typer.Typer(help="Train the embedded family from its recipes.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="Folder of the run; a run that it holds already is resumed.")]
Minutes = Annotated[float | None, typer.Option(help="Fit the run to this much time instead of the recipe's steps.")]
Workers = Annotated[int, typer.Option(help="Workers that share the work; set OMP_NUM_THREADS=1 with more than one.")]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, or cuda with products in bfloat16.")]
Target = Annotated[Path, typer.Option(help="Folder of the target whose answers the head learns to draft.")]
Earlier = Annotated[Path | None, typer.Option(help="Folder of a finished model of this kind to begin with.")]
Corpus = Annotated[Path | None, typer.Option(help="Folder of answers and states; share it between heads to compare.")]


@train.command("target")
def target(
    out: Out,
    recipe: str = "mini-target",
    minutes: Minutes = None,
    workers: Workers = 1,
    start_from: Earlier = None,
    device: Device = "cpu",
) -> None:
    """Train the target model."""
    from glance.training.target import train_target

    typer.echo(f"saved in {train_target(_recipe(recipe), out, minutes, workers, start_from=start_from, device=device)}")


@train.command("glance")
def glance(
    target: Target,
    out: Out,
    recipe: str = "mini-glance",
    corpus: Corpus = None,
    workers: Workers = 1,
    start_from: Earlier = None,
    device: Device = "cpu",
) -> None:
    """Train the GLANCE block head of a target."""
    _head(recipe, target, out, corpus, workers, device, start_from)


@train.command("eagle3")
def eagle3(
    target: Target,
    out: Out,
    recipe: str = "mini-eagle3",
    corpus: Corpus = None,
    workers: Workers = 1,
    start_from: Earlier = None,
    device: Device = "cpu",
) -> None:
    """Train the EAGLE-3 head of a target."""
    _head(recipe, target, out, corpus, workers, device, start_from)


def _head(
    recipe: str, target: Path, out: Path, corpus: Path | None, workers: int, device: str, start_from: Path | None
) -> None:
    """The recipe says which kind of head it makes."""
    from glance.training.heads import train_head

    head = train_head(_recipe(recipe), target, out, corpus, workers, device, start_from=start_from)
    typer.echo(f"saved in {head}")


def _recipe(name: str):
    """The named recipe; an unknown name is one sentence on standard error."""
    from glance.training.recipe import load_recipe

    try:
        return load_recipe(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
