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
HELD_OUT = 16  # every sixteenth picture is not learnt from
QUESTIONS = (
    "Describe the image.",
    "What does the image show?",
    "Read all the text in the image.",
    "Turn the image into Markdown.",
    "List the numbers in the image and what they stand for.",
    "What is the main point of the image? Answer in one sentence.",
)


@cache
def listed(folder: Path) -> tuple[dict[Split, list[Path]], tuple[str, ...]]:
    """The folder's pictures by split, in order of their names, and the questions: the lines of `questions.txt`, or
    `QUESTIONS`.

    Raises:
        BadInput: no such folder, or no picture in it.
    """
    files = sorted(file for file in folder.glob("*") if file.suffix.lower() in ENDINGS)
    if not files:
        raise BadInput(f"There are no pictures in {folder}; name a folder of image files or PDFs.")
    own = folder / "questions.txt"
    lines = own.read_text(encoding="utf-8").splitlines() if own.exists() else []
    questions = tuple(line.strip() for line in lines if line.strip()) or QUESTIONS
    learnt = [file for i, file in enumerate(files) if i % HELD_OUT] or files  # a single picture serves both
    held_out = files[::HELD_OUT]
    return {"train": learnt, "validation": held_out, "test": held_out}, questions


def photo(folder: Path, number: int, split: Split) -> Sample:
    """The picture and the question that belong to `number`; the answer is for the target to give.

    Raises:
        BadInput: as `listed`, or a file that is no picture.
    """
    files, questions = listed(folder)
    rng = random.Random(number)
    image, _ = load_image(rng.choice(files[split]))
    return Sample(image, rng.choice(questions), "", str(folder), "photo", ())
