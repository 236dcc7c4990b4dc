"""How fast block heads decode at several tree budgets: which budget, and which depth of the head, is worth its cost."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..drafters.block import BlockDrafter, BlockHead
from ..engine import Decoding, Drafter, Settings
from ..presets import Family
from ..synth import sample
from ..target import Prefill
from ..trace import Round
from .acceptance import FIRST_SEED, pooled_tau


@dataclass(frozen=True)
class Point:
    """One drafter at one budget, over some prompts.

    Args:
        drafter: `eagle3`, `glance`, or the folder of another block head.
        layers: decoder layers of its head.
        tau: tokens emitted a round, pooled over the rounds.
        drafting: share of its time spent drafting: passes and tree.
        over_autoregressive, over_eagle3: median over the prompts of that lane's decode time over this one's, EAGLE-3 at
            the same budget; above 1 where this one is faster.
    """

    drafter: str
    layers: int
    budget: int
    prompts: int
    tau: float
    drafting: float
    over_autoregressive: float
    over_eagle3: float


@dataclass(frozen=True)
class _Run:
    """The rounds of one prompt's last repeat, and the median decode time over the repeats, milliseconds."""

    rounds: list[Round]
    ms: float


Key = tuple[str, int]  # drafter and budget; the autoregressive lane's budget is 0


def sweep(
    family: Family,
    heads: Mapping[str, BlockHead],
    kinds: Sequence[str],
    count: int,
    budgets: Sequence[int],
    repeats: int,
    max_new_tokens: int,
) -> Iterator[list[Point]]:
    """Decode `count` held-out prompts of each kind with every drafter at every budget, lanes interleaved.

    Args:
        heads: other block heads for the same target, beside the family's own.

    Yields:
        After each prompt, the points over all prompts so far.
    """
    drafters: dict[str, Callable[[], Drafter]] = {lane: partial(family.drafter, lane) for lane in ("eagle3", "glance")}
    layers = {"eagle3": 1, "glance": family.block_head.config.num_hidden_layers}
    for name, head in heads.items():
        target = family.target
        drafters[name] = partial(BlockDrafter, head, target.embed_tokens, target.lm_head, padded=target.padded)
        layers[name] = head.config.num_hidden_layers
    makers = {("autoregressive", 0): partial(family.drafter, "autoregressive")}
    makers |= {(name, budget): make for budget in budgets for name, make in drafters.items()}
    runs: dict[Key, list[_Run]] = {key: [] for key in makers}
    for kind in kinds:
        for seed in range(FIRST_SEED, FIRST_SEED + count):
            drawn = sample(kind, seed, split="test")
            prefill = family.target.prefill(family.prompt(drawn.image, drawn.question))
            one = _measure(family, prefill, makers, repeats, max_new_tokens)
            if not one["autoregressive", 0].rounds:
                continue  # an answer of one token needs no round
            for key, run in one.items():
                runs[key].append(run)
            yield [_point(name, layers[name], budget, runs) for name, budget in runs if budget]


def _measure(
    family: Family,
    prefill: Prefill,
    makers: Mapping[Key, Callable[[], Drafter]],
    repeats: int,
    max_new_tokens: int,
) -> dict[Key, _Run]:
    """Decode one prompt with every drafter, `repeats` times after a warm-up."""
    spent: dict[Key, list[float]] = {key: [] for key in makers}
    rounds: dict[Key, list[Round]] = {}
    for repeat in range(repeats + 1):
        for key, make in makers.items():
            settings = Settings(max_new_tokens=max_new_tokens, budget=key[1] or 1, tie_threshold=family.tie_threshold)
            rounds[key] = list(Decoding(family.target, prefill, make(), settings, family.stop_rules(settings)))
            if repeat:
                spent[key].append(sum(r.total_ms for r in rounds[key]))
    return {key: _Run(rounds[key], statistics.median(spent[key])) for key in makers}


def _point(name: str, layers: int, budget: int, runs: Mapping[Key, Sequence[_Run]]) -> Point:
    mine = runs[name, budget]
    rounds = [r for run in mine for r in run.rounds]

    def over(key: Key) -> float:
        return statistics.median(other.ms / run.ms for other, run in zip(runs[key], mine, strict=True))

    return Point(
        name,
        layers,
        budget,
        len(mine),
        pooled_tau([run.rounds for run in mine]),
        sum(r.ms["draft"] + r.ms["build"] for r in rounds) / sum(r.total_ms for r in rounds),
        over(("autoregressive", 0)),
        over(("eagle3", budget)),
    )
