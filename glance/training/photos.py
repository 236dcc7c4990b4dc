"""A folder of pictures as a source of samples, for targets that know more than the generator draws."""

from __future__ import annotations

import logging
import random
from functools import cache
from pathlib import Path

from glance.errors import BadInput
from glance.images import load_image
from glance.prompt import check_image
from glance.synth import Sample
from glance.synth.vocabulary import Split

log = logging.getLogger(__name__)
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
        BadInput: no such folder, no picture in it, or questions that are not UTF-8.
    """
    files = sorted(f for f in folder.glob("[!.]*") if f.suffix.lower() in ENDINGS)  # macOS writes a ._NAME beside
    if not files:
        raise BadInput(f"There are no pictures in {folder}; name a folder of image files or PDFs.")
    own = folder / "questions.txt"
    try:
        lines = own.read_text(encoding="utf-8-sig").splitlines() if own.exists() else []
    except UnicodeDecodeError:
        raise BadInput(f"{own} is not UTF-8 text; save it as UTF-8, one question a line.") from None
    questions = tuple(line.strip() for line in lines if line.strip()) or QUESTIONS
    learnt = [file for i, file in enumerate(files) if i % HELD_OUT] or files  # a single picture serves both
    held_out = files[::HELD_OUT]
    return {"train": learnt, "validation": held_out, "test": held_out}, questions


def photo(folder: Path, number: int, split: Split) -> Sample:
    """The picture and the question that belong to `number`; the answer is for the target to give.

    A file that cannot be used is left out with a warning, and another stands in for it: one of thousands does not end
    the work.

    Raises:
        BadInput: as `listed`, or no file of the split can be used.
    """
    files, questions = listed(folder)
    rng = random.Random(number)
    question = rng.choice(questions)
    for file in rng.sample(files[split], len(files[split])):
        try:
            return Sample(check_image(load_image(file)[0]), question, "", str(folder), "photo", ())
        except BadInput as error:
            log.warning("%s is left out. %s", file, error)
    raise BadInput(f"No picture of {folder} can be used; the log says why of each.")
