"""How much of a drafter's trees the target accepts, by task family, on held-out prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from ..engine import Decoding, Drafter, Settings, Step
from ..errors import BadInput
from ..presets import Family
from ..synth import FAMILIES, sample
from ..trace import Round

FIRST_SEED = 5000  # of the test split; the shipped examples and the tests use smaller ones


@dataclass(frozen=True)
class Acceptance:
    """τ of one lane on one task family: pooled over the rounds, with a 95 % interval over prompts.

    `accepted` is the mean number of drafted tokens that a round emitted, and `entropy` the mean of the target's
    next-token entropy at the roots of these rounds, nats.
    """

    family: str
    lane: str
    prompts: int
    rounds: int
    tau: float
    low: float
    high: float
    accepted: float
    entropy: float


class Blind:
    """A drafter that is given zeros for the target's states: what it drafts without image, question and answer."""

    def __init__(self, inner: Drafter) -> None:
        self.inner, self.horizon, self.propose = inner, inner.horizon, inner.propose

    def begin(self, prefill: Step, capacity: int) -> None:
        self.inner.begin(_unseen(prefill), capacity)

    def commit(self, accepted: Step) -> None:
        self.inner.commit(_unseen(accepted))


def _unseen(step: Step) -> Step:
    return replace(step, states={layer: torch.zeros_like(state) for layer, state in step.states.items()})


def makers(family: Family, lanes: Sequence[str]) -> dict[str, Callable[[], Drafter]]:
    """Lane → how to make its drafter; besides the family's own lanes there is `blind`."""
    own = {lane: partial(family.drafter, lane) for lane in lanes if lane != "blind"}
    if "blind" in lanes:
        own["blind"] = lambda: Blind(family.drafter("glance"))
    return own


def pooled_tau(runs: Sequence[Sequence[Round]]) -> float:
    """Emitted tokens a round over several runs (as `glance.trace.Summary`)."""
    rounds = [r for run in runs for r in run]
    return sum(len(r.emitted) for r in rounds) / len(rounds)


def interval(runs: Sequence[Sequence[Round]], draws: int = 2000, seed: int = 0) -> tuple[float, float]:
    """95 % percentile bootstrap of the pooled τ, prompts drawn with replacement."""
    tokens = np.array([sum(len(r.emitted) for r in run) for run in runs])
    rounds = np.array([len(run) for run in runs])
    drawn = np.random.default_rng(seed).integers(0, len(runs), (draws, len(runs)))
    low, high = np.percentile(tokens[drawn].sum(1) / rounds[drawn].sum(1), [2.5, 97.5])
    return float(low), float(high)


def acceptance(family: Family, count: int, lanes: Sequence[str], settings: Settings) -> Iterator[Acceptance]:
    """Decode `count` test prompts of each task family with each lane; yields a row as soon as it is there.

    Raises:
        BadInput: a task family whose answers need no round.
    """
    stop = family.stop_rules(settings)
    for kind in FAMILIES:
        drawn = [sample(kind, FIRST_SEED + i, split="test") for i in range(count)]
        prefills = [family.target.prefill(family.prompt(d.image, d.question)) for d in drawn]
        for lane, make in makers(family, lanes).items():
            runs = [list(Decoding(family.target, p, make(), settings, stop)) for p in prefills]
            runs = [run for run in runs if run]  # an answer of one token needs no round
            if not runs:
                raise BadInput(f"There is nothing to measure: all answers about {kind} are one token long.")
            low, high = interval(runs)
            rounds = [r for run in runs for r in run]
            accepted = float(np.mean([len(r.accepted) for r in rounds]))
            entropy = float(np.mean([r.entropy for r in rounds]))
            yield Acceptance(kind, lane, len(runs), len(rounds), pooled_tau(runs), low, high, accepted, entropy)


def figures(rows: Sequence[Acceptance]) -> dict[str, float | None]:
    """τ by family and lane, each lane's mean over the families, and GLANCE's accepted tokens a round over EAGLE-3's."""
    found = {f"{r.family}_{r.lane}_tau": r.tau for r in rows}
    accepted = {}
    for lane in dict.fromkeys(r.lane for r in rows):
        mine = [r for r in rows if r.lane == lane]
        found[f"mean_{lane}_tau"] = float(np.mean([r.tau for r in mine]))
        accepted[lane] = float(np.average([r.accepted for r in mine], weights=[r.rounds for r in mine]))
    found["accepted_glance_over_eagle3"] = accepted["glance"] / accepted["eagle3"] if accepted["eagle3"] else None
    return {name: value if value is None else round(value, 4) for name, value in found.items()}
