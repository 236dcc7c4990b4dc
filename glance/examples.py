"""The shipped examples: pictures from the generator's test split, each with the recorded trace of its run.

`python -m glance examples` makes them, so the first screen needs no model (nothing here imports one until `record`
runs) and a test can record them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from . import trace

if TYPE_CHECKING:
    from .presets import Family

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "examples"
MAX_NEW_TOKENS = 160

# Family and seed in the generator's test split, which no training saw; the first plays first. They are chosen among
# those that the target reads best, so they show the decoding and say nothing of how well it reads.
CHOSEN = (
    ("signs", 96),
    ("charts", 126),
    ("infographics", 93),
    ("documents", 651),
    ("scenes", 42),
    ("charts", 185),
    ("infographics", 128),
    ("documents", 549),
)


@dataclass(frozen=True)
class Example:
    """A shipped picture, the question that was asked about it, and the NDJSON of the run."""

    name: str
    image: Path
    question: str
    trace: str

    @property
    def run(self) -> str:
        """The run's id."""
        return json.loads(self.trace[: self.trace.index("\n")])["run"]

    def open(self) -> Image.Image:
        """The picture, RGB."""
        return Image.open(self.image).convert("RGB")


def shipped(folder: Path = FOLDER) -> tuple[Example, ...]:
    """The examples that lie in a folder, in the order of `CHOSEN`."""
    found = []
    for family, seed in CHOSEN:
        path = folder / f"{family}-{seed}.ndjson"
        if path.exists():
            text = path.read_text(encoding="utf-8")
            question = trace.read(text[: text.index("\n") + 1]).header.question
            found.append(Example(path.stem, path.with_suffix(".png"), question, text))
    return tuple(found)


def record(family: Family, folder: Path = FOLDER) -> Iterator[str]:
    """Draw every chosen example, decode it with all lanes and write picture and trace; yields the names."""
    from .engine import Settings
    from .race import race
    from .synth import sample

    settings = Settings(max_new_tokens=MAX_NEW_TOKENS)
    folder.mkdir(parents=True, exist_ok=True)
    for kind, seed in CHOSEN:
        drawn = sample(kind, seed, split="test")
        name = f"{kind}-{seed}"
        drawn.image.save(folder / f"{name}.png", optimize=True)
        prompt = family.prompt(drawn.image, drawn.question)
        for text in (race(family, prompt, settings) for _ in range(2)):  # the first run warms up
            kept = "".join(text)
        (folder / f"{name}.ndjson").write_text(kept, encoding="utf-8")
        yield name
