"""The shipped examples: pictures from the generator's test split, each with the recorded trace of its run.

`python -m glance examples` makes them, so the first screen needs no model and a test can record them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from . import trace
from .engine import Settings
from .presets import ASSETS, Family
from .race import race

FOLDER = ASSETS / "examples"
SETTINGS = Settings(max_new_tokens=160)

# family and seed in the generator's test split, which no training saw; the first is the one that plays first
CHOSEN = (
    ("documents", 1),
    ("charts", 1),
    ("infographics", 1),
    ("signs", 1),
    ("scenes", 1),
    ("documents", 2),
    ("charts", 2),
    ("infographics", 2),
)


@dataclass(frozen=True)
class Example:
    """A shipped picture, its question, and the files of both picture and trace."""

    name: str
    question: str
    image: Path
    trace: Path

    def open(self) -> Image.Image:
        """The picture, RGB."""
        return Image.open(self.image).convert("RGB")


def shipped(folder: Path = FOLDER) -> list[Example]:
    """The examples of a folder, in the order of `CHOSEN`; the question comes from the trace's header."""
    names = [f"{family}-{seed}" for family, seed in CHOSEN]
    found = [name for name in names if (folder / f"{name}.ndjson").exists()]
    return [
        Example(name, _question(folder / f"{name}.ndjson"), folder / f"{name}.png", folder / f"{name}.ndjson")
        for name in found
    ]


def _question(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return trace.read(next(lines)).header.question


def record(family: Family, folder: Path = FOLDER) -> Iterator[str]:
    """Draw every chosen example, decode it with all lanes and write picture and trace; yields the names."""
    from .synth import sample

    folder.mkdir(parents=True, exist_ok=True)
    for kind, seed in CHOSEN:
        drawn = sample(kind, seed, split="test")
        name = f"{kind}-{seed}"
        drawn.image.save(folder / f"{name}.png", optimize=True)
        prompt = family.prompt(drawn.image, drawn.question)
        "".join(race(family, prompt, SETTINGS))  # warm up: the recorded times are of a second run
        (folder / f"{name}.ndjson").write_text("".join(race(family, prompt, SETTINGS)), encoding="utf-8")
        yield name
