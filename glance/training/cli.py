"""`python -m glance train target|glance|eagle3`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from glance.errors import BadInput

train = typer.Typer(help="Train the embedded family from its recipes, or heads for a Qwen3-VL.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="Folder of the run; a run that it holds already is resumed.")]
Minutes = Annotated[
    float | None, typer.Option(min=0.1, help="Fit the run to this much time instead of the recipe's steps.")
]
Workers = Annotated[
    int, typer.Option(min=1, help="Workers that share the work; set OMP_NUM_THREADS=1 with more than one.")
]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, or cuda with products in bfloat16.")]
Target = Annotated[str, typer.Option(help="The target whose answers the head learns to draft: a folder or a hub id.")]
Preset = Annotated[str, typer.Option(help="Instead of --target: a preset, whose target and type are taken.")]
Images = Annotated[Path | None, typer.Option(help="Folder of pictures to ask about, instead of the recipe's families.")]
Earlier = Annotated[
    str, typer.Option(help="A finished model of this kind to begin with: a folder, or a head's hub id.")
]
Corpus = Annotated[Path | None, typer.Option(help="Folder of answers and states; share it between heads to compare.")]


def _recipe(name: str, kind: str) -> Any:
    """The recipe of that name. Raises `BadInput` where there is none, or one of another kind."""
    from glance.training.recipe import load_recipe

    recipe = load_recipe(name)
    own = getattr(recipe, "kind", "target")
    if own != kind:
        raise BadInput(f"The recipe {name} is one for `train {own}`; choose another for `train {kind}`.")
    return recipe


@train.command("target")
def target(
    out: Out,
    recipe: str = "mini-target",
    minutes: Minutes = None,
    workers: Workers = 1,
    start_from: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="Folder of a finished target to begin with.")
    ] = None,
    device: Device = "cpu",
) -> None:
    """Train the target model."""
    from glance.training.target import train_target

    folder = train_target(_recipe(recipe, "target"), out, minutes, workers, start_from=start_from, device=device)
    typer.echo(f"saved in {folder}")


def _head_command(kind: str, what: str) -> None:
    """Register the command that trains one kind of head."""

    def head(
        out: Out,
        target: Target = "",
        preset: Preset = "",
        recipe: str = f"mini-{kind}",
        images: Images = None,
        corpus: Corpus = None,
        start_from: Earlier = "",
        workers: Workers = 1,
        device: Device = "cpu",
    ) -> None:
        from glance.presets import resolve
        from glance.training.heads import train_head

        dtype, chosen = "float32", _recipe(recipe, kind)
        if bool(target) == bool(preset):
            raise BadInput("Name the target by either --target or --preset.")
        if preset:
            found = resolve(preset)
            if found.quantize != "none":
                raise BadInput(
                    f"{preset} loads its target in {found.quantize}; set GLANCE_QUANTIZE=none to train with it."
                )
            target, dtype = found.target, found.dtype
        if images:
            chosen = replace(chosen, families={str(images.resolve()): 1.0})
        if not chosen.families:
            raise BadInput(f"The recipe {recipe} draws no pictures of its own; name a folder of them with --images.")
        folder = train_head(chosen, target, out, corpus, workers, device, dtype, start_from or None)
        typer.echo(f"saved in {folder}")

    about = f"Train the {what} of a target. `accelerate launch -m glance train {kind} …` shares it among GPUs."
    train.command(kind, help=about)(head)


_head_command("glance", "GLANCE block head")
_head_command("eagle3", "EAGLE-3 head")
