"""How well a target reads: greedy answers to held-out samples against what was drawn."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from glance.checkpoints import TargetParts
from glance.synth import FAMILIES, Sample, sample
from glance.synth.vocabulary import Split
from glance.training.corpus import answer_samples


@dataclass(frozen=True)
class Reading:
    """One family's figures.

    Args:
        samples: how many were asked.
        exact: share of answers equal to the drawn text, character for character; None where wordings are free.
        error: character error rate, edits per character of the true answer, pooled.
        ended: share of answers that ended by themselves.
        tasks: task → (exact answers, all answers), where one wording is right.
    """

    samples: int
    exact: float | None
    error: float
    ended: float
    tasks: dict[str, tuple[int, int]]


def edit_distance(one: str, two: str) -> int:
    """Insertions, deletions and substitutions between two strings (Levenshtein)."""
    row = list(range(len(two) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(two, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def reading(
    parts: TargetParts,
    count: int = 40,
    split: Split = "validation",
    first_seed: int = 0,
    max_new_tokens: int = 160,
    level: float = 1.0,
) -> dict[str, Reading]:
    """Figures of each family over `count` samples of a split that training never draws from."""
    ends = parts.eos_ids
    found: dict[str, Reading] = {}
    for family in FAMILIES:
        drawn = [sample(family, first_seed + i, split, level) for i in range(count)]
        answers = answer_samples(parts, drawn, max_new_tokens)
        texts = [parts.tokenizer.decode([t for t in ids if t not in ends]) for ids in answers]
        found[family] = _figures(drawn, texts, [ids[-1] in ends for ids in answers])
    return found


def _figures(drawn: list[Sample], texts: list[str], ended: list[bool]) -> Reading:
    fixed = [text == one.answer for one, text in zip(drawn, texts, strict=True) if not one.alternatives]
    edits = sum(edit_distance(text, one.answer) for one, text in zip(drawn, texts, strict=True))
    return Reading(
        samples=len(drawn),
        exact=sum(fixed) / len(fixed) if fixed else None,
        error=edits / sum(len(one.answer) for one in drawn),
        ended=sum(ended) / len(ended),
        tasks=by_task(drawn, texts),
    )


def by_task(drawn: list[Sample], texts: list[str]) -> dict[str, tuple[int, int]]:
    """Task → (exact answers, all answers); tasks whose wording is free are left out."""
    counts: dict[str, list[bool]] = defaultdict(list)
    for one, text in zip(drawn, texts, strict=True):
        if not one.alternatives:
            counts[one.task].append(text == one.answer)
    return {name: (sum(right), len(right)) for name, right in sorted(counts.items())}
