"""The command line: `python -m glance compare | bench | calibrate | export | train | lab | …`."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from typer import Context
from typer.core import TyperGroup

from . import trace as traces
from .errors import BadCheckpoint, BadInput
from .hosting import cli as hosting
from .lab.cli import lab
from .lanes import LANES
from .options import Budget, Json, NewTokens, Preset, With, console, keep, load
from .outputs import check_output, new_folder, write_text
from .training.cli import train


class Refusing(TyperGroup):
    """Commands whose refusals are one sentence on standard error, with exit code 2."""

    def invoke(self, ctx: Context) -> Any:
        """Run the chosen command, also of a group below this one."""
        try:
            return super().invoke(ctx)
        except (BadInput, BadCheckpoint, traces.TraceError) as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(2) from None
        except OSError as error:
            if not error.filename:
                raise
            typer.echo(f"{error.filename}: {error.strerror}. Choose another file or folder.", err=True)
            raise typer.Exit(2) from None


app = typer.Typer(
    cls=Refusing,
    help="Lossless speculative decoding on a vision-language model.",
    no_args_is_help=True,
    add_completion=False,
)
app.add_typer(train, name="train")
app.add_typer(lab, name="lab")
hosting.register(app)


@app.command()
def compare(
    image: Annotated[Path, typer.Argument(help="An image, or a PDF (its first page).")],
    question: str,
    preset: Preset = "mini",
    parts: With = [],  # noqa: B006
    lanes: Annotated[
        str, typer.Option(help=f"With commas between: {', '.join(LANES)}. The first is the reference; all without it.")
    ] = "",
    max_new_tokens: NewTokens = 256,
    budget: Budget = 31,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Of the draws at a temperature above 0.")] = 0,
    exact_ties: Annotated[
        bool, typer.Option("--exact-ties", help="Below fp32: make near-ties ordinary decoding's own, at its price.")
    ] = False,
    json_file: Json = None,
) -> None:
    """Answer one question with several decoders; exit code 0 only if every greedy lane is byte-identical."""
    from .engine import Settings
    from .images import load_image
    from .race import race

    settings = Settings(max_new_tokens, budget, temperature, seed, exact_ties=exact_ties)
    picture, notes = load_image(image)
    check_output(json_file, image)
    family = load(preset, parts)
    settings = replace(settings, tie_threshold=family.tie_threshold)
    chosen = [lane.strip() for lane in lanes.split(",") if lane.strip()] or family.lanes
    prompt = family.prompt(picture, question)
    list(race(family, prompt, replace(settings, max_new_tokens=min(8, max_new_tokens)), chosen))  # warm up
    text = "".join(race(family, prompt, settings, chosen))
    if json_file:  # before anything is printed: the reader of a pipe may have gone
        write_text(json_file, text)
    for note in notes:
        console.print(f"[dim]{note}[/dim]")
    trace = traces.read(text)
    console.print(_lane_table(trace))
    for lane in trace.lanes:
        if lane.end.note:
            console.print(f"{_name(trace, lane.id)}: {lane.end.note}", markup=False)
        if lane.end.identity.verdict == "differs":
            console.print(lane.end.identity.sentence, markup=False)
    typer.echo(trace.lanes[0].end.text)
    if any(lane.end.identity.verdict == "differs" or lane.end.reason == "failed" for lane in trace.lanes):
        raise typer.Exit(1)


def _name(trace: traces.Trace, lane: str) -> str:
    return next(x["name"] for x in trace.header.lanes if x["id"] == lane)


def _number(value: float | None, digits: int = 2) -> str:
    return "n/a" if value is None else f"{value:.{digits}f}"


def _lane_table(trace: traces.Trace) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=0)
    table.add_column("Lane", no_wrap=True)
    for heading in ("New\ntokens", "Target\npasses", "Draft\npasses", "τ", "ms/\ntoken", "tok/s", "Speedup"):
        table.add_column(heading, justify="right")
    table.add_column("Identity", no_wrap=True)
    reference = trace.lanes[0].end.summary
    for lane in trace.lanes:
        s = lane.end.summary
        speedup = reference.ms_per_token / s.ms_per_token if s.ms_per_token and reference.ms_per_token else None
        table.add_row(
            _name(trace, lane.id),
            str(s.tokens),
            str(s.target_passes),
            str(s.draft_passes),
            _number(s.tau),
            _number(s.ms_per_token),
            _number(s.tokens_per_s, 0),
            "n/a" if speedup is None else f"{speedup:.2f}×",
            lane.end.identity.verdict,
        )
    return table


@app.command()
def bench(
    preset: Preset = "mini",
    parts: With = [],  # noqa: B006
    max_new_tokens: NewTokens = 128,
    budget: Budget = 31,
    repeats: Annotated[int, typer.Option(min=1, help="Measured runs of each lane and prompt, after a warm-up.")] = 3,
    json_file: Json = None,
) -> None:
    """Measure decode speed as ratios on the shipped examples."""
    from . import bench as benches
    from .engine import Settings
    from .examples import shipped
    from .provenance import of

    family = load(preset, parts)
    settings = Settings(max_new_tokens=max_new_tokens, budget=budget, tie_threshold=family.tie_threshold)
    for lane in LANES:
        family.check_lane(lane)
    rows = []
    for row in benches.run(family, shipped(), settings, repeats):
        rows.append(row)
        console.print(f"[dim]{row['name']}: {row['tokens']} tokens[/dim]")
    if not rows:
        raise BadInput("There is nothing to measure: no example is shipped, or all answers are one token long.")
    table = Table("Ratio", "Median", "Min", "Max", "Prompts")
    measured = benches.ratios(rows)
    for r in measured:
        table.add_row(r.name, f"{r.median:.2f}", f"{r.low:.2f}", f"{r.high:.2f}", str(r.prompts))
    console.print(table)
    figures = {r.name: round(r.median, 3) for r in measured}
    keep(json_file, figures, rows, of(family, settings), ratios=[asdict(r) for r in measured])


@app.command()
def calibrate(
    preset: Preset = "mini",
    parts: With = [],  # noqa: B006
    max_new_tokens: NewTokens = 96,
    budget: Budget = 31,
    checked: Annotated[
        int, typer.Option("--check", help="Held-out prompts of each kind to decode with the gate and without it.")
    ] = 0,
    json_file: Json = None,
) -> None:
    """Measure the threshold of the tie gate: how far packed rows are from single ones on this device, in this dtype."""
    from . import calibrate as calibration
    from .engine import Settings
    from .examples import shipped
    from .provenance import of
    from .synth import FAMILIES, sample

    family = load(preset, parts)
    settings = Settings(max_new_tokens=max_new_tokens, budget=budget)
    rows: list[calibration.Row] = []
    for example in shipped():
        prefill = family.target.prefill(family.prompt(example.open(), example.question))
        rows += calibration.measure(family.target, prefill, family.stop_rules(settings), budget)
        console.print(f"[dim]{example.name}: {len(rows)} rows[/dim]")
    if not rows:
        raise BadInput("There is nothing to measure: no example is shipped, or all answers are one token long.")
    figures = calibration.figures(rows)
    drawn = (sample(kind, 1000 + seed, split="test") for seed in range(checked) for kind in FAMILIES)
    prompts = (family.prompt(d.image, d.question) for d in drawn)
    runs = []
    for run in calibration.check(family, prompts, replace(settings, tie_threshold=figures["threshold"])):
        runs.append(run)
        said = (f"{way} {'identical' if run[way]['identical'] else 'differs'}" for way in calibration.WAYS)
        console.print(f"[dim]{len(runs)}. {run['lane']}, {run['tokens']} tokens: {', '.join(said)}[/dim]")
    if runs:
        figures |= calibration.check_figures(runs)
    table = Table("Figure", "Value")
    for name, value in figures.items():
        table.add_row(name.replace("_", " "), f"{value:.4g}")
    console.print(table)
    how = {**of(family, settings), "budget": budget, "max_new_tokens": max_new_tokens}
    keep(json_file, figures, [asdict(r) for r in rows], how, runs=runs)


@app.command()
def examples(
    preset: Preset = "mini",
    parts: With = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="Folder.")] = None,
) -> None:
    """Draw the shipped examples again and record their traces."""
    from .examples import FOLDER, record

    for name in record(load(preset, parts), out or FOLDER):
        console.print(name)


FORMATS = {"dflash": ("glance",), "specforge": ("eagle3",), "speculators": ("eagle3", "glance")}


@app.command()
def export(
    out: Annotated[Path, typer.Option(help="Folder; each head gets one of its own in it.")],
    form: Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")],
    preset: Preset = "mini",
    parts: With = [],  # noqa: B006
) -> None:
    """Write the draft heads of a family in a format that other engines load."""
    from . import exporters

    if form not in FORMATS:
        raise BadInput(f"There is no format {form!r}; choose among {', '.join(FORMATS)}.")
    family = load(preset, parts)
    heads = {"glance": family.block_head, "eagle3": family.eagle3_head}
    lanes = [lane for lane in FORMATS[form] if heads[lane]]
    if not lanes:
        family.check_lane(FORMATS[form][0])
    for lane in lanes:
        new_folder(out / lane)
    save = exporters.save_speculators if form == "speculators" else exporters.save_head
    for lane in lanes:
        console.print(str(save(heads[lane], family.parts, out / lane)), markup=False, soft_wrap=True)


Run = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A saved run (NDJSON).")]


@app.command()
def replay(run: Run, out: Annotated[Path, typer.Option(help="The page.")] = Path("replay.html")) -> None:
    """Make a saved run into one HTML file that plays in any browser, without a server or a network."""
    from .export import replay_html
    from .saved import text_of

    write_text(check_output(out, run), replay_html(text_of(run)))
    console.print(str(out), markup=False, soft_wrap=True)


@app.command()
def rounds(run: Run, csv: Annotated[Path, typer.Option(help="The table.")] = Path("rounds.csv")) -> None:
    """Make a saved run into a table for a spreadsheet, a row a round."""
    from .export import rounds_csv
    from .saved import text_of

    write_text(check_output(csv, run), rounds_csv(traces.read(text_of(run))))
    console.print(str(csv), markup=False, soft_wrap=True)


@app.command()
def presets() -> None:
    """List the model families: what they consist of, and what it takes to run them."""
    from .presets import PRESETS

    for name, preset in PRESETS.items():
        how = preset.dtype if preset.quantize == "none" else f"{preset.dtype}, {preset.quantize}"
        console.print(f"[bold]{name}[/bold]  {preset.memory:g} GiB in {how}  ({preset.licence})")
        for title, part, lane in (
            ("target", preset.target, ""),
            ("block head", preset.block_head, "glance"),
            ("EAGLE-3 head", preset.eagle3_head, "eagle3"),
        ):
            console.print(f"  {title}: {part or 'none.'} {preset.notes.get(lane, '')}".rstrip(), soft_wrap=True)
