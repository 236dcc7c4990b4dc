"""How fast drafters decode at several tree budgets: which budget, how many EAGLE-3 passes, how deep a block head.

Every setting is divided by autoregressive decoding, and averaged geometrically, so the figures of any two settings may
be divided too: each lane can be compared at the budget that suits it best.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..drafters.block import BlockHead
from ..engine import Decoding, Drafter, Settings
from ..errors import BadInput
from ..presets import Family
from ..synth import sample
from ..target import Prefill
from ..trace import Round
from .acceptance import FIRST_SEED


@dataclass(frozen=True)
class Entrant:
    """A drafter at one setting: decoder layers of its head, draft passes a round, tree budget."""

    name: str
    layers: int
    passes: int
    budget: int
    make: Callable[[], Drafter]


@dataclass(frozen=True)
class Point:
    """An entrant's figures over some prompts.

    Args:
        tau: tokens emitted a round, pooled over the rounds.
        drafting: share of its decode time spent on the passes and the tree of its drafter.
        speed: autoregressive milliseconds a token over this one's, geometric mean over the prompts; above 1 where this
            one is faster. `low` and `high` are its extremes. Prefill, of target and head, is left out.
    """

    name: str
    layers: int
    passes: int
    budget: int
    prompts: int
    tau: float
    drafting: float
    speed: float
    low: float
    high: float


def entrants(
    family: Family, heads: Mapping[str, BlockHead], budgets: Sequence[int], passes: Sequence[int]
) -> list[Entrant]:
    """EAGLE-3 with each number of passes, the family's block head and others for its target, at every budget.

    Raises:
        BadInput: a head that reads layers of the target which the family's own heads do not.
    """
    found = []
    for name, head in {"glance": family.block_head, **heads}.items():
        if not {*head.config.target_layer_ids} <= family.target.layers:
            raise BadInput(f"The head {name} reads other layers of the target than the family's; name one that agrees.")
        make = partial(family.drafter, "glance", head=head)
        found += [Entrant(name, head.config.num_hidden_layers, 1, budget, make) for budget in budgets]
    for steps in passes:
        make = partial(family.drafter, "eagle3", steps=steps)
        found += [Entrant("eagle3", 1, steps, budget, make) for budget in budgets]
    return found


def sweep(
    family: Family, racing: Sequence[Entrant], kinds: Sequence[str], count: int, repeats: int, max_new_tokens: int
) -> Iterator[dict[str, Any]]:
    """Decode `count` held-out prompts of each kind with every entrant.

    Yields:
        A row a prompt: the autoregressive milliseconds a token, and each entrant's `tokens` and `rounds`, `ms` a token,
        and the share of it that is `drafting`.
    """
    first = Entrant("autoregressive", 0, 0, 1, partial(family.drafter, "autoregressive"))
    for kind in kinds:
        for seed in range(FIRST_SEED, FIRST_SEED + count):
            drawn = sample(kind, seed, split="test")
            prefill = family.target.prefill(family.prompt(drawn.image, drawn.question))
            reference, *runs = _measure(family, prefill, [first, *racing], repeats, max_new_tokens)
            if reference["rounds"]:  # an answer of one token needs none
                yield {"family": kind, "seed": seed, "autoregressive_ms": reference["ms"], "runs": runs}


def _measure(
    family: Family, prefill: Prefill, racing: Sequence[Entrant], repeats: int, max_new_tokens: int
) -> list[dict[str, Any]]:
    """Medians over the repeats, after a warm-up; in each repeat every entrant decodes once."""
    decoded: list[list[list[Round]]] = [[] for _ in racing]
    for repeat in range(repeats + 1):
        for runs, one in zip(decoded, racing, strict=True):
            settings = Settings(max_new_tokens=max_new_tokens, budget=one.budget, tie_threshold=family.tie_threshold)
            rounds = list(Decoding(family.target, prefill, one.make(), settings, family.stop_rules(settings)))
            if repeat:
                runs.append(rounds)
    return [_figures(runs) for runs in decoded]


def _figures(runs: Sequence[Sequence[Round]]) -> dict[str, Any]:
    tokens, count = sum(len(r.emitted) for r in runs[0]), len(runs[0])
    if not tokens:
        return {"tokens": 0, "rounds": 0}
    totals = [sum(r.total_ms for r in run) for run in runs]
    drafts = [sum(r.ms["draft"] + r.ms["build"] for r in run) for run in runs]
    ms = statistics.median(totals) / tokens
    return {"tokens": tokens, "rounds": count, "ms": ms, "drafting": sum(drafts) / sum(totals)}


def points(racing: Sequence[Entrant], rows: Sequence[Mapping[str, Any]]) -> list[Point]:
    """The figures of a sweep's rows, in the order of its entrants."""
    found = []
    for i, one in enumerate(racing):
        runs = [row["runs"][i] for row in rows]
        speeds = [row["autoregressive_ms"] / run["ms"] for row, run in zip(rows, runs, strict=True)]
        spent = [run["ms"] * run["tokens"] for run in runs]
        found.append(
            Point(
                one.name,
                one.layers,
                one.passes,
                one.budget,
                len(rows),
                sum(run["tokens"] for run in runs) / sum(run["rounds"] for run in runs),
                sum(run["drafting"] * ms for run, ms in zip(runs, spent, strict=True)) / sum(spent),
                statistics.geometric_mean(speeds),
                min(speeds),
                max(speeds),
            )
        )
    return found


def shortly_named(found: Sequence[Point]) -> list[Point]:
    """The same points; of each head's folder as many of the last parts, two at least, as tell it from the others."""
    names = {point.name for point in found}
    tails = ({name: "/".join(Path(name).parts[-kept:]) for name in names} for kept in itertools.count(2))
    short = next(tail for tail in tails if len({*tail.values()}) == len(names))
    return [replace(point, name=short[point.name]) for point in found]
