"""How unsure a target is of pictures that it was trained for, and of others: the limit of `glance.reach`."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from ..engine import Decoding, Settings, certainty
from ..errors import BadInput
from ..images import load_image
from ..presets import Family
from ..reach import FIRST, uncertainty
from ..synth import FAMILIES, sample
from ..synth.fonts import font
from .acceptance import FIRST_SEED

PERCENTILE = 95
QUESTIONS = ("What is in the picture?", "What does it say?", "Read the document.")
_TEXTS = {
    "dense page": "the contract between both parties ends after twelve months unless one of them writes before",
    "Cyrillic": "Привет мир документ счёт сумма итого адрес город",
    "Greek": "Καλημέρα κόσμε έγγραφο σύνολο πόλη οδός αριθμός",
}


@dataclass(frozen=True)
class Asked:
    """One picture with a question, and the mean entropy in nats of the answer's first tokens.

    `group` is "limit" for pictures of the trained kind that set the limit, "inside" for others of that kind, and
    "outside".
    """

    kind: str
    group: str
    question: str
    nats: float


def page(kind: str, seed: int) -> Image.Image:
    """A page full of text that the small family cannot read: too small, or of another script."""
    rng, size = random.Random(f"{kind}/{seed}"), 15 if kind == "dense page" else 60
    image = Image.new("RGB", (800, 1000), "white")
    draw, face = ImageDraw.Draw(image), font("DejaVuSans", size)
    for y in range(40, 960 - size, int(1.3 * size)):
        line = ""
        while draw.textlength(line, face) < 620:
            line += rng.choice(_TEXTS[kind].split()) + " "
        draw.text((40, y), line, "black", face)
    return image


def ask(family: Family, image: Image.Image, question: str) -> float:
    """`uncertainty` of the target's greedy answer."""
    settings = Settings(max_new_tokens=FIRST)
    prefill = family.target.prefill(family.prompt(image, question))
    entropies, _ = certainty(prefill.logits[None])
    run = Decoding(family.target, prefill, family.drafter("autoregressive"), settings, family.stop_rules(settings))
    return uncertainty([*entropies, *(r.entropy for r in run)])


def measure(family: Family, count: int, photographs: Sequence[Path] = ()) -> Iterator[Asked]:
    """`count` pictures of each task family for the limit, as many others of the test split, then pages and photographs
    from outside, each asked every question."""
    outside = [(kind, page(kind, i)) for kind in _TEXTS for i in range(max(1, count // 4))]
    outside += [("photograph", _photograph(path)) for path in photographs]  # a bad one is refused before the work
    for group, split in (("limit", "validation"), ("inside", "test")):
        for kind in FAMILIES:
            for i in range(count):
                drawn = sample(kind, FIRST_SEED + i, split=split)
                yield Asked(kind, group, drawn.question, ask(family, drawn.image, drawn.question))
    for kind, image in outside:
        for question in QUESTIONS:
            yield Asked(kind, "outside", question, ask(family, image, question))


def _photograph(path: Path) -> Image.Image:
    try:
        return load_image(path)[0]
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def figures(rows: Sequence[Asked]) -> dict[str, float]:
    """`limit` (nats), and the shares above it: of all pictures inside and outside, and of each kind."""
    limit = float(np.percentile([r.nats for r in rows if r.group == "limit"], PERCENTILE))
    judged = [r for r in rows if r.group != "limit"]
    kinds = dict.fromkeys(r.kind for r in judged)

    def above(chosen: Iterable[Asked]) -> float:
        return float(np.mean([r.nats > limit for r in chosen]))

    return {
        "limit": limit,
        **{group: above(r for r in judged if r.group == group) for group in ("inside", "outside")},
        **{f"{kind}_above": above(r for r in judged if r.kind == kind) for kind in kinds},
    }
