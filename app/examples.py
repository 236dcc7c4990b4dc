"""The recorded runs that are shipped: a picture, and the trace of a real run on it under the same name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "examples"


@dataclass(frozen=True)
class Example:
    """A picture, the question that was asked about it, and the NDJSON of the run."""

    name: str
    image: Path
    question: str
    trace: str


def _order(path: Path) -> tuple[str, str]:
    family, _, number = path.stem.partition("-")
    return number, family


def shipped(folder: Path = FOLDER) -> tuple[Example, ...]:
    """Every `family-number.ndjson` of the folder that has its picture: one of each family first, then the seconds."""
    found = []
    for path in sorted(folder.glob("*.ndjson"), key=_order):
        image = path.with_suffix(".png")
        if image.exists():
            text = path.read_text(encoding="utf-8")
            header = json.loads(text[: text.index("\n")])
            found.append(Example(path.stem, image, header["question"], text))
    return tuple(found)
