"""The one entry to the generator: `sample(family, seed)`."""

import random
from collections.abc import Callable

from glance.synth.charts import chart, plot
from glance.synth.documents import document
from glance.synth.infographics import infographic
from glance.synth.lines import lines
from glance.synth.sample import Sample
from glance.synth.scenes import scene
from glance.synth.signs import sign
from glance.synth.vocabulary import SPLITS, Split
from glance.synth.wear import worn

Maker = Callable[[random.Random, Split, float, tuple[int, int]], Sample]

MAKERS: dict[str, Maker] = {
    "scenes": scene,
    "signs": sign,
    "infographics": infographic,
    "documents": document,
    "charts": chart,
    "plots": plot,
    "lines": lines,
}
FAMILIES = (
    "scenes",
    "signs",
    "infographics",
    "documents",
    "charts",
)  # what the shipped family has learnt and is judged by
SIZES: tuple[tuple[int, int], ...] = ((256, 256), (320, 192), (192, 320))
WORN_SHARE = 0.2


def sample(
    family: str, seed: int, split: Split = "train", level: float = 1.0, size: tuple[int, int] = (256, 256)
) -> Sample:
    """The sample of `family` that belongs to `seed`.

    Args:
        family: a key of `MAKERS`.
        seed: any integer; the same seed gives the same sample on every machine, another split another one.
        split: names are drawn from words that belong to this split alone.
        level: 0 … 1, how much text there is; 1 fills the page.
        size: (width, height) in pixels, multiples of 32.
    """
    if family not in MAKERS:
        raise ValueError(f"unknown family {family!r}: choose one of {', '.join(MAKERS)}")
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}: choose one of {', '.join(SPLITS)}")
    rng = random.Random(f"{family}/{split}/{seed}")
    return worn(MAKERS[family](rng, split, level, size), rng, WORN_SHARE if level > 0 else 0.0)
