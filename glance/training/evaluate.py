"""How well a target reads: greedy answers to held-out samples against what was drawn."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from glance.checkpoints import TargetParts
from glance.errors import BadInput
from glance.synth import FAMILIES, Sample, sample
from glance.synth.canvas import BRIGHT
from glance.synth.shapes import SHAPES
from glance.synth.vocabulary import Split
from glance.training.corpus import BATCHED, answer_samples

# (colour, kind) of a thing that a caption names
_THING = re.compile(rf"\b({'|'.join(BRIGHT)}) ({'|'.join(SHAPES)})\b")


@dataclass(frozen=True)
class Reading:
    """One family's figures.

    Args:
        samples: how many were asked.
        exact: share of answers that say what is drawn and nothing else (`says`).
        error: character error rate, edits per character of the true answer, pooled.
        ended: share of answers that ended by themselves.
        tasks: task → (exact answers, all answers).
    """

    samples: int
    exact: float
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


def says(one: Sample, text: str) -> bool:
    """Whether an answer says exactly what is drawn.

    Where one wording is right, it is that one, character for character. Otherwise wordings are free: a sign's answer
    quotes its text in full; a scene's caption names its things in their colours, no fewer and no more.
    """
    if not one.alternatives:
        return text == one.answer
    if one.things:
        return sorted(_THING.findall(text)) == sorted((thing.colour, thing.kind) for thing in one.things)
    quoted = re.search('"(.*)"', text)
    return quoted is not None and quoted[1] == " ".join(glyphs.text for glyphs in one.glyphs)


def reading(
    parts: TargetParts,
    count: int = 40,
    split: Split = "validation",
    first_seed: int = 0,
    max_new_tokens: int = 160,
) -> dict[str, Reading]:
    """Figures of each family over `count` samples of a split that training never draws from.

    Raises:
        BadInput: a target that cannot answer in batches.
    """
    if parts.model.config.model_type not in BATCHED:
        raise BadInput(f"Reading is measured on Qwen targets alone, not on {parts.model.config.model_type}.")
    ends = parts.eos_ids
    found: dict[str, Reading] = {}
    for family in FAMILIES:
        drawn = [sample(family, first_seed + i, split) for i in range(count)]
        answers = answer_samples(parts, drawn, max_new_tokens)
        texts = [parts.tokenizer.decode([t for t in ids if t not in ends]) for ids in answers]
        found[family] = _figures(drawn, texts, [ids[-1] in ends for ids in answers])
    return found


def _figures(drawn: list[Sample], texts: list[str], ended: list[bool]) -> Reading:
    edits = sum(edit_distance(text, one.answer) for one, text in zip(drawn, texts, strict=True))
    tasks = by_task(drawn, texts)
    return Reading(
        samples=len(drawn),
        exact=sum(right for right, _ in tasks.values()) / len(drawn),
        error=edits / sum(len(one.answer) for one in drawn),
        ended=sum(ended) / len(ended),
        tasks=tasks,
    )


def by_task(drawn: list[Sample], texts: list[str]) -> dict[str, tuple[int, int]]:
    """Task → (exact answers, all answers)."""
    counts: dict[str, list[bool]] = defaultdict(list)
    for one, text in zip(drawn, texts, strict=True):
        counts[one.task].append(says(one, text))
    return {name: (sum(right), len(right)) for name, right in sorted(counts.items())}
