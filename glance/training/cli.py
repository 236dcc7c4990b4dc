"""`python -m glance train target|glance|eagle3`."""

from pathlib import Path
from typing import Annotated

import typer

train = typer.Typer(help="Train the embedded family from its recipes.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="Folder of the run; a run that it holds already is resumed.")]
Minutes = Annotated[float | None, typer.Option(help="Fit the run to this much time instead of the recipe's steps.")]


@train.command("target")
def target(out: Out, recipe: str = "mini-target", minutes: Minutes = None, threads: int = 0) -> None:
    """Train the target model."""
    import torch

    from glance.training.recipe import load_recipe
    from glance.training.target import train_target

    if threads:
        torch.set_num_threads(threads)
    typer.echo(f"saved in {train_target(load_recipe(recipe), out, minutes)}")


if __name__ == "__main__":
    train()
