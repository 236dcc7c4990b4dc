"""What the commands share: their options, loading what these name, and keeping what was measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from .outputs import check_output, write_text

if TYPE_CHECKING:
    from .family import Family

console = Console(highlight=False, emoji=False)  # :key: in a model's text is no emoji

Preset = Annotated[str, typer.Option(help="Model family.", envvar="GLANCE_PRESET")]
With = Annotated[
    list[str],
    typer.Option(
        "--with",
        metavar="PART=VALUE",
        help="Replace a part of the preset: target, block_head, eagle3_head (folder, hub id or none), dtype, quantize.",
    ),
]
Budget = Annotated[int, typer.Option(help="Nodes of a candidate tree, root excluded.")]
NewTokens = Annotated[int, typer.Option(help="Longest answer.")]


def _writable(path: Path | None) -> Path | None:
    return check_output(path)  # before the work, which can take hours


Json = Annotated[Path | None, typer.Option("--json", callback=_writable, help="Also write the result to this file.")]


def load(preset: str, parts: Sequence[str]) -> Family:
    """The family that `--preset` and `--with` name; raises as `presets.parse` and `presets.load`."""
    from . import presets

    return presets.load(preset, **presets.parse(parts))


def keep(
    file: Path | None, figures: Mapping[str, float | None], rows: Sequence[Any], provenance: Any, **more: Any
) -> None:
    """Write a measurement: a flat mapping of figures, the rows behind them, `more` beside them, and where it was made.

    Args:
        file: None writes nothing.
    """
    if file:
        result = {"figures": figures, "rows": rows, **more, "provenance": provenance}
        write_text(file, json.dumps(result, indent=1, allow_nan=False) + "\n")
