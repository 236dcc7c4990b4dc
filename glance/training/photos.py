"""A folder of pictures as a source of samples, for targets that know more than the generator draws."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

from glance.errors import BadInput
from glance.images import load_image
from glance.synth import Sample
from glance.synth.vocabulary import Split

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".heic", ".gif", ".bmp", ".tif", ".tiff", ".pdf")
HELD_OUT = 16  # every sixteenth picture is for validation
QUESTIONS = (
    "Describe the image.",
    "What does the image show?",
    "Read all the text in the image.",
    "Turn the image into Markdown.",
    "List the numbers in the image and what they stand for.",
    "What is the main point of the image? Answer in one sentence.",
)


@cache
def listed(folder: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The folder's pictures in order of their names, and the questions: the lines of `questions.txt`, or `QUESTIONS`.

    Raises:
        BadInput: no such folder, or no picture in it.
    """
    files = tuple(sorted(file for file in folder.glob("*") if file.suffix.lower() in ENDINGS))
    if not files:
        raise BadInput(f"There are no pictures in {folder}; name a folder of image files or PDFs.")
    own = folder / "questions.txt"
    lines = own.read_text(encoding="utf-8").splitlines() if own.exists() else []
    return files, tuple(line.strip() for line in lines if line.strip()) or QUESTIONS


def photo(folder: Path, number: int, split: Split) -> Sample:
    """The picture and the question that belong to `number`; the answer is for the target to give.

    Raises:
        BadInput: as `listed`, or a file that is no picture.
    """
    files, questions = listed(folder)
    held_out = files[::HELD_OUT]
    rng = random.Random(number)
    chosen = held_out if split == "validation" else [file for file in files if file not in held_out] or files
    image, _ = load_image(rng.choice(chosen))
    return Sample(image, rng.choice(questions), "", str(folder), "photo", ())
