"""`python -m glance lab reading | wording | acceptance | sweep | reach | law`."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ..errors import BadInput
from ..options import Budget, Json, NewTokens, Preset, With, console, keep, load
from ..outputs import check_output

lab = typer.Typer(help="Measure a family on held-out prompts, or runs that were recorded.", no_args_is_help=True)

Runs = Annotated[list[Path], typer.Argument(help="Saved runs (NDJSON); without any, the shipped examples.")]
Prompts = Annotated[int, typer.Option(min=1, help="Prompts of each task family.")]
Budgets = Annotated[list[int], typer.Option("--budget", min=1, help="Nodes of a tree; once for each budget.")]
Passes = Annotated[list[int], typer.Option("--passes", min=1, help="Draft passes of EAGLE-3; once for each number.")]
Heads = Annotated[list[Path], typer.Option("--head", help="Another block head for this target; once for each.")]
Kinds = Annotated[list[str], typer.Option("--family", help="Task family; once for each.")]


@lab.command()
def reading(
    preset: Preset = "mini",
    parts: With = [],  # noqa: B006
    prompts: Prompts = 40,
    json_file: Json = None,
) -> None:
    """How well the target reads: exact answers and character errors, by task family."""
    from ..engine import Settings
    from ..provenance import of
    from ..training import evaluate

    family = load(preset, parts)
    found = evaluate.reading(family.parts, prompts, "test", first_seed=5000)
    table = Table("Family", "Samples", "Exact", "Character error", "Ended")
    for name, r in found.items():
        table.add_row(name, str(r.samples), f"{r.exact:.0%}", f"{r.error:.3f}", f"{r.ended:.0%}")
        for task, (right, asked) in r.tasks.items():
            table.add_row(f"  {task}", str(asked), f"{right / asked:.0%}", "", "")
    console.print(table)
    figures = {f"{name}_{key}": getattr(r, key) for name, r in found.items() for key in ("exact", "error")}
    keep(json_file, figures, [{"family": n, **asdict(r)} for n, r in found.items()], of(family, Settings()))


@lab.command()
def wording(
    preset: Preset = "mini",
    parts: With = [],  # noqa: B006
    prompts: Annotated[int, typer.Option(min=1, help="Scenes.")] = 10,
    seeds: Annotated[int, typer.Option(min=1, help="Answers to each.")] = 8,
    json_file: Json = None,
) -> None:
    """How freely the target words captions at T = 1, and how often they still name the things that are drawn."""
    from ..engine import Settings
    from ..provenance import of
    from . import wording as suite

    family, settings = load(preset, parts), Settings(max_new_tokens=160, temperature=1.0)
    rows = list(suite.wording(family, prompts, seeds, settings))
    table = Table("Scene", "Answers", "Wordings", "Right things")
    for r in rows:
        table.add_row(str(r.scene), str(r.answers), str(r.wordings), f"{r.right / r.answers:.0%}")
    console.print(table)
    figures = suite.figures(rows)
    console.print(f"{figures['wordings']:.1f} wordings a scene; {figures['right']:.0%} name the right things")
    keep(json_file, figures, [asdict(r) for r in rows], of(family, settings))


@lab.command()
def acceptance(
    preset: Preset = "mini",
    parts: With = [],  # noqa: B006
    prompts: Prompts = 20,
    budget: Budget = 31,
    blind: Annotated[bool, typer.Option("--blind", help="Also the block head with zeros for states.")] = False,
    json_file: Json = None,
) -> None:
    """τ of each drafter, by task family, with a 95 % interval over prompts."""
    from ..engine import Settings
    from ..provenance import of
    from . import acceptance as suite

    settings = Settings(max_new_tokens=160, budget=budget)
    family = load(preset, parts)
    settings = replace(settings, tie_threshold=family.tie_threshold)
    table = Table("Family", "Lane", "Prompts", "Rounds", "τ", "95 % interval", "Entropy (nats)")
    lanes = ("eagle3", "glance", "blind") if blind else ("eagle3", "glance")
    rows = list(suite.acceptance(family, prompts, lanes, settings))
    for r in rows:
        interval = f"{r.low:.2f} to {r.high:.2f}"
        table.add_row(r.family, r.lane, str(r.prompts), str(r.rounds), f"{r.tau:.2f}", interval, f"{r.entropy:.2f}")
    console.print(table)
    figures = suite.figures(rows)
    means = ", ".join(f"{lane} {figures[f'mean_{lane}_tau']:.2f}" for lane in lanes)
    ratio = figures["accepted_glance_over_eagle3"]
    shown = "n/a" if ratio is None else f"{ratio:.2f}"
    console.print(f"mean τ: {means}; accepted tokens a round, GLANCE over EAGLE-3: {shown}")
    keep(json_file, figures, [asdict(r) for r in rows], {**of(family, settings), "budget": budget})


@lab.command()
def sweep(
    preset: Preset = "mini",
    parts: With = [],  # noqa: B006
    budgets: Budgets = [7, 15, 31, 63],  # noqa: B006
    passes: Passes = [8],  # noqa: B006
    heads: Heads = [],  # noqa: B006
    kinds: Kinds = ["documents", "charts"],  # noqa: B006
    prompts: Prompts = 6,
    max_new_tokens: NewTokens = 160,
    repeats: Annotated[int, typer.Option(min=1, help="Measured runs of each drafter and prompt, after a warm-up.")] = 3,
    json_file: Json = None,
) -> None:
    """Decode speed over autoregressive decoding at several tree budgets, EAGLE-3 passes and block heads."""
    from ..checkpoints import load_block_head
    from ..engine import Settings
    from ..provenance import of
    from ..synth import FAMILIES
    from . import sweep as suite

    if unknown := [kind for kind in kinds if kind not in FAMILIES]:
        raise BadInput(f"There is no task family {unknown[0]!r}; choose among {', '.join(FAMILIES)}.")
    for budget in budgets:
        Settings(max_new_tokens, budget)  # refused before anything is measured
    family = load(preset, parts)
    for lane in ("eagle3", "glance"):
        family.check_lane(lane)
    others = {str(folder.resolve()): load_block_head(folder, family.parts) for folder in heads}
    racing = suite.entrants(family, others, budgets, passes)
    rows = []
    for row in suite.sweep(family, racing, kinds, prompts, repeats, max_new_tokens):
        rows.append(row)
        console.print(f"[dim]{row['family']} {row['seed']}: {row['runs'][0]['tokens']} tokens[/dim]")
    if not rows:
        raise BadInput("There is nothing to measure: all answers are one token long.")
    found = suite.shortly_named(suite.points(racing, rows))
    table = Table("Drafter", "Layers", "Passes", "Budget", "τ", "Drafting", "Over autoregressive", "Min to max")
    for p in found:
        setting = (p.name, str(p.layers), str(p.passes), str(p.budget))
        table.add_row(*setting, f"{p.tau:.2f}", f"{p.drafting:.0%}", f"{p.speed:.2f}", f"{p.low:.2f} to {p.high:.2f}")
    console.print(table)
    asked = {"families": kinds, "prompts": prompts, "repeats": repeats, "max_new_tokens": max_new_tokens}
    figures = {f"{p.name} {p.passes} {p.budget}": round(p.speed, 3) for p in found}
    keep(json_file, figures, rows, of(family, Settings()) | asked, points=[asdict(p) for p in found])


@lab.command()
def reach(
    preset: Preset = "mini",
    parts: With = [],  # noqa: B006
    prompts: Prompts = 20,
    photographs: Annotated[Path | None, typer.Option(help="Folder of JPEG photographs to ask about too.")] = None,
    json_file: Json = None,
) -> None:
    """How unsure the target is of pictures that it was trained for, and of others: the limit of the app's warning."""
    from ..engine import Settings
    from ..provenance import of
    from . import reach as suite

    family = load(preset, parts)
    files = sorted(f for f in photographs.iterdir() if f.suffix.lower() in (".jpg", ".jpeg")) if photographs else []
    if photographs and not files:
        raise BadInput(f"There is no .jpg or .jpeg in {photographs}; name a folder of photographs.")
    rows = list(suite.measure(family, prompts, files))
    figures = suite.figures(rows)
    table = Table("Kind", "Asked", "Mean (nats)", "Above the limit")
    judged = [r for r in rows if r.group != "limit"]
    for kind in dict.fromkeys(r.kind for r in judged):
        nats = [r.nats for r in judged if r.kind == kind]
        table.add_row(kind, str(len(nats)), f"{sum(nats) / len(nats):.2f}", f"{figures[kind + '_above']:.0%}")
    console.print(table)
    shares = f"{figures['outside']:.0%} of what is outside lies above it, {figures['inside']:.0%} of what is inside"
    console.print(f"limit {figures['limit']:.2f} nats; {shares}")
    keep(json_file, figures, [asdict(r) for r in rows], of(family, Settings()))


@lab.command()
def law(
    runs: Runs = [],  # noqa: B006
    json_file: Json = None,
) -> None:
    """The entropy law of recorded runs: its fit, brackets and noise ceiling, and what a wider tree is worth."""
    from .. import trace
    from ..examples import FOLDER
    from ..law import MIN_ROUNDS
    from ..provenance import machine
    from ..saved import text_of
    from .entropy import laws

    files = runs or sorted(FOLDER.glob("*.ndjson"))
    check_output(json_file, *files)
    lanes = list(laws(trace.read(text_of(file)) for file in files))
    if not lanes:
        raise BadInput(f"A law takes {MIN_ROUNDS} rounds of a lane that drafted; name more runs, or longer ones.")
    figures: dict[str, float] = {}
    rows = []
    for lane in lanes:
        figures |= lane.figures()
        fit, entropies, lengths = lane.law, list(lane.by_entropy()), list(lane.survival())
        rows.append({"lane": lane.lane, "by_entropy": entropies, "survival": lengths})
        console.print(
            f"[bold]{escape(lane.lane)}[/bold]: {fit.rounds} rounds, logit p = {fit.intercept:.2f} - {fit.slope:.2f} H "
            f"(95 % of slopes {fit.low:.2f} to {fit.high:.2f}), r = {fit.r:.2f}, noise ceiling {lane.ceiling:.2f}"
        )
        if lane.threshold > 1:
            said = "even if all copied, the mean at H = 0 would not pass e^intercept"
        elif lane.threshold < 0:
            said = "the mean at H = 0 passes e^intercept whatever the share"
        else:
            said = f"above {lane.threshold:.0%} the mean at H = 0 would pass e^intercept"
        console.print(
            f"the law's cap {lane.cap:.2f}; two states: {lane.copying:.0%} of rounds copy, the others match with "
            f"{lane.other:.2f} a token; {said}"
        )
        for numbers in (entropies, lengths):
            table = Table(*(name.replace("_", " ") for name in numbers[0]))
            for row in numbers:
                table.add_row(*(f"{value:.3g}" for value in row.values()))
            console.print(table)
    keep(json_file, figures, rows, {**machine(), "runs": [file.name for file in files]})
