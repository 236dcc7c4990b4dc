"""`python -m glance lab reading | acceptance | reach`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

lab = typer.Typer(help="Measure a family on held-out prompts.", no_args_is_help=True)
console = Console(highlight=False)

Preset = Annotated[str, typer.Option(help="Model family.")]
Prompts = Annotated[int, typer.Option(help="Prompts of each task family.")]
Json = Annotated[Path | None, typer.Option("--json", help="Also write the result to this file.")]


def _keep(file: Path | None, figures: dict[str, float | None], rows: list[dict[str, Any]], provenance: Any) -> None:
    if file:
        result = {"figures": figures, "rows": rows, "provenance": provenance}
        file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


@lab.command()
def reading(preset: Preset = "mini", prompts: Prompts = 40, json_file: Json = None) -> None:
    """How well the target reads: exact answers and character errors, by task family."""
    from ..engine import Settings
    from ..presets import load
    from ..provenance import of
    from ..training import evaluate

    family = load(preset)
    found = evaluate.reading(family.parts, prompts, "test", first_seed=5000)
    table = Table("Family", "Samples", "Exact", "Character error", "Ended")
    for name, r in found.items():
        exact = "n/a" if r.exact is None else f"{r.exact:.0%}"
        table.add_row(name, str(r.samples), exact, f"{r.error:.3f}", f"{r.ended:.0%}")
        for task, (right, asked) in r.tasks.items():
            table.add_row(f"  {task}", str(asked), f"{right / asked:.0%}", "", "")
    console.print(table)
    figures = {f"{name}_{key}": getattr(r, key) for name, r in found.items() for key in ("exact", "error")}
    _keep(json_file, figures, [{"family": n, **asdict(r)} for n, r in found.items()], of(family, Settings()))


@lab.command()
def acceptance(
    preset: Preset = "mini",
    prompts: Prompts = 20,
    budget: Annotated[int, typer.Option(help="Nodes of a candidate tree, root excluded.")] = 31,
    blind: Annotated[bool, typer.Option("--blind", help="Also the block head with zeros for states.")] = False,
    json_file: Json = None,
) -> None:
    """τ of each drafter, by task family, with a 95 % interval over prompts."""
    from ..engine import Settings
    from ..presets import load
    from ..provenance import of
    from . import acceptance as suite

    family, settings = load(preset), Settings(max_new_tokens=160, budget=budget)
    table = Table("Family", "Lane", "Prompts", "Rounds", "τ", "95 % interval", "Entropy (nats)")
    lanes = ("eagle3", "glance", "blind") if blind else ("eagle3", "glance")
    rows = list(suite.acceptance(family, prompts, lanes, settings))
    for r in rows:
        interval = f"{r.low:.2f} to {r.high:.2f}"
        table.add_row(r.family, r.lane, str(r.prompts), str(r.rounds), f"{r.tau:.2f}", interval, f"{r.entropy:.2f}")
    console.print(table)
    figures = {f"{r.family}_{r.lane}_tau": round(r.tau, 4) for r in rows}
    _keep(json_file, figures, [asdict(r) for r in rows], {**of(family, settings), "budget": budget})


@lab.command()
def reach(
    preset: Preset = "mini",
    prompts: Prompts = 20,
    photographs: Annotated[Path | None, typer.Option(help="Folder of JPEG photographs to ask about too.")] = None,
    json_file: Json = None,
) -> None:
    """How unsure the target is of pictures that it was trained for, and of others: the limit of the app's warning."""
    from ..engine import Settings
    from ..presets import load
    from ..provenance import of
    from . import reach as suite

    family = load(preset)
    files = sorted(f for f in photographs.iterdir() if f.suffix in (".jpg", ".jpeg")) if photographs else []
    rows = list(suite.measure(family, prompts, files))
    figures = suite.figures(rows)
    table = Table("Kind", "Asked", "Mean (nats)", "Above the limit")
    for kind in dict.fromkeys(r.kind for r in rows):
        nats = [r.nats for r in rows if r.kind == kind]
        table.add_row(kind, str(len(nats)), f"{sum(nats) / len(nats):.2f}", f"{figures[kind + '_above']:.0%}")
    console.print(table)
    console.print(f"limit {figures['limit']:.2f} nats; {figures['outside']:.0%} of what is outside lies above it")
    _keep(json_file, figures, [asdict(r) for r in rows], of(family, Settings()))
