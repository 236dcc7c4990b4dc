"""How freely a target words the captions of scenes when its tokens are drawn at T = 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count as numbers
from itertools import islice

from ..engine import Decoding, Settings
from ..presets import Family
from ..synth import Sample, sample
from ..training.evaluate import says
from .acceptance import FIRST_SEED


@dataclass(frozen=True)
class Worded:
    """Answers to one scene: how many, how many different ones, and how many that name the things that are drawn."""

    scene: int
    answers: int
    wordings: int
    right: int


def scenes(count: int) -> Iterator[tuple[int, Sample]]:
    """(seed, sample) of the first `count` test scenes that are to be described."""
    drawn = ((seed, sample("scenes", seed, split="test")) for seed in numbers(FIRST_SEED))
    return islice(((seed, one) for seed, one in drawn if one.alternatives), count)


def wording(family: Family, count: int, seeds: int, settings: Settings) -> Iterator[Worded]:
    """Answer `count` test scenes with `seeds` seeds each, by ordinary decoding (every lane says the same)."""
    stop = family.stop_rules(settings)
    for number, one in scenes(count):
        prefill, texts = family.target.prefill(family.prompt(one.image, one.question)), []
        for seed in range(seeds):
            chosen = replace(settings, seed=seed)
            run = Decoding(family.target, prefill, family.drafter("autoregressive"), chosen, stop)
            for _ in run:
                pass
            texts.append(family.parts.tokenizer.decode(run.answer, skip_special_tokens=True))
        yield Worded(number, seeds, len(set(texts)), sum(says(one, text) for text in texts))


def figures(rows: Sequence[Worded]) -> dict[str, float]:
    """Mean wordings of a scene, and the share of all answers that name the right things."""
    answers = sum(row.answers for row in rows)
    return {
        "wordings": sum(row.wordings for row in rows) / len(rows),
        "right": sum(row.right for row in rows) / answers,
    }
