"""The folder of a run: which run it holds, and its curve, so that a run goes on where it stopped and as itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glance.errors import BadInput

STATE, CURVE = "state.pt", "curve.csv"


def claim(out: Path, about: Mapping[str, Any]) -> bool:
    """Note in `recipe.json` what a new run is about; True if the folder holds this run already.

    Raises:
        BadInput: it holds a run about something else.
    """
    out.mkdir(parents=True, exist_ok=True)
    note, text = out / "recipe.json", json.dumps(about, indent=1)
    if not (out / STATE).exists():
        note.write_text(text)
        return False
    if not note.exists() or note.read_text() != text:
        raise BadInput(f"The folder {out} holds a run of another recipe, target or beginning; choose another folder.")
    return True


def begin_curve(out: Path, columns: Sequence[str], done: int) -> None:
    """Write the curve's heading, and below it what an earlier part of the run wrote up to its last checkpoint.

    The first column is the step; `done` is that of the checkpoint, 0 for a new run.
    """
    curve = out / CURVE
    earlier = curve.read_text().splitlines()[1:] if done and curve.exists() else []
    kept = [row for row in earlier if int(row.split(",")[0]) <= done]
    curve.write_text("".join(f"{row}\n" for row in (",".join(columns), *kept)))
