"""How unsure a target is of pictures that it was trained for, and of others: the limit of `glance.reach`."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from ..engine import Decoding, Settings, certainty
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
    """One picture with a question: which kind it is, and the mean entropy in nats of the answer's first tokens."""

    kind: str
    inside: bool
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
    """`count` test pictures of each task family, then pages and photographs from outside, each asked every question."""
    for kind in FAMILIES:
        for i in range(count):
            drawn = sample(kind, FIRST_SEED + i, split="test")
            yield Asked(kind, True, drawn.question, ask(family, drawn.image, drawn.question))
    outside = [(kind, page(kind, i)) for kind in _TEXTS for i in range(max(1, count // 4))]
    outside += [("photograph", load_image(path)[0]) for path in photographs]
    for kind, image in outside:
        for question in QUESTIONS:
            yield Asked(kind, False, question, ask(family, image, question))


def figures(rows: Sequence[Asked]) -> dict[str, float]:
    """`limit` (nats), and the share of each kind that lies above it."""
    limit = float(np.percentile([r.nats for r in rows if r.inside], PERCENTILE))
    kinds = dict.fromkeys(r.kind for r in rows)
    shares = {k: float(np.mean([r.nats > limit for r in rows if r.kind == k])) for k in kinds}
    outside = [r.nats > limit for r in rows if not r.inside]
    return {"limit": limit, "outside": float(np.mean(outside)), **{f"{k}_above": share for k, share in shares.items()}}
