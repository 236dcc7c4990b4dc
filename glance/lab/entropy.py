"""The entropy law of recorded runs, lane by lane: no model is needed, only traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .. import law
from ..trace import Law, Round, Trace

ENTROPIES = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
GROUP = 10  # rounds of a group of the noise ceiling, at the least


@dataclass(frozen=True)
class LaneLaw:
    """One lane's rounds of all runs, and the law that they follow.

    Args:
        rounds: those in which the head drafted.
        ceiling: the best R squared of any predictor that sees the root entropy alone.
        cap: the longest mean accepted length that the law allows, which is at entropy 0.
        copying, other: of the two-state model fitted by `sticky`: the share of rounds that copy and accept all, and
            the probability of a match in the others.
        threshold: the share of copying rounds above which the mean at entropy 0 passes e^intercept.
        budget: the largest tree budget of the runs, for the upper bracket, which knows none below 2.
    """

    lane: str
    rounds: tuple[Round, ...]
    law: Law
    ceiling: float
    cap: float
    copying: float
    other: float
    threshold: float
    budget: int

    def figures(self) -> dict[str, float]:
        """Flat numbers, each under the lane's name."""
        fitted = ("intercept", "slope", "low", "high", "horizon", "r", "rounds")
        own = ("ceiling", "cap", "copying", "other", "threshold")
        found = {name: getattr(self.law, name) for name in fitted} | {name: getattr(self, name) for name in own}
        return {f"{self.lane}_{name}": value for name, value in found.items()}

    def by_entropy(self) -> Iterator[dict[str, float]]:
        """At each of `ENTROPIES`: the law's mean accepted length, its brackets, and what a wider tree is worth."""
        fit = self.law
        for nats in ENTROPIES:
            yield {
                "entropy": nats,
                "lower": float(law.lower_bracket(nats)),
                "law": float(law.expected(nats, fit.intercept, fit.slope, fit.horizon)),
                "upper": float(law.upper_bracket(nats, self.budget, fit.horizon)),
                "width": float(law.width_value(nats, fit.intercept, fit.slope, fit.horizon)),
            }

    def survival(self) -> Iterator[dict[str, float]]:
        """For each length: the share of rounds that reach it, as measured, by the law, and by the two-state model.

        Measured, a round that a stop rule cut counts with what it reached.
        """
        fit, lengths = self.law, [len(r.accepted) for r in self.rounds]
        p = law.match([r.entropy for r in self.rounds], fit.intercept, fit.slope)
        model = law.two_state(self.copying, 1.0, self.other, 1.0, 1.0, fit.horizon)
        for i, share in enumerate(model):
            yield {
                "length": i + 1,
                "measured": law.tail(lengths, i + 1),
                "law": float((p ** (i + 1)).mean()),
                "two_state": float(share),
            }


def sticky(accepted: Sequence[int], horizon: int, cut: ArrayLike = False) -> tuple[float, float]:
    """(pi, rho) of the two-state model whose states last and whose copying state accepts all: maximum likelihood.

    A round accepts l < L with probability (1 - pi) rho^l (1 - rho), else the horizon L; of one that a stop rule cut at
    l, only l or more is known, which has probability pi + (1 - pi) rho^l. Searched on a grid of 0.01.

    Args:
        cut: True for a round in which no miss was seen, as in `law.fit`.
    """
    length = np.asarray(accepted)
    rounds = np.stack((length, (length >= horizon) | cut))
    (lengths, open_ended), counts = np.unique(rounds, axis=1, return_counts=True)
    lengths, open_ended, counts = (found[:, None, None] for found in (lengths, open_ended, counts))
    pi, rho = np.meshgrid(np.linspace(0, 0.99, 100), np.linspace(0.01, 0.99, 99))
    reached = (1 - pi) * rho**lengths
    likelihood = (counts * np.log(np.where(open_ended, pi + reached, reached * (1 - rho)))).sum(0)
    best = np.unravel_index(likelihood.argmax(), likelihood.shape)
    return float(pi[best]), float(rho[best])


def laws(traces: Iterable[Trace]) -> Iterator[LaneLaw]:
    """The law of each lane that drafted, over all runs; a lane with too few rounds has none and is left out.

    Runs may differ in budget: of a round that reached its own run's horizon, no miss was seen.
    """
    found: dict[str, list[Round]] = {}
    open_ended: dict[str, list[bool]] = {}
    horizons: dict[str, int] = {}
    budgets: dict[str, int] = {}
    for trace in traces:
        for lane in trace.lanes:
            drafted = [r for r in lane.rounds if r.draft_passes]
            found.setdefault(lane.id, []).extend(drafted)
            deepest = max((d for r in drafted for d in r.depths), default=0)
            horizon = lane.end.law.horizon if lane.end and lane.end.law else deepest
            unseen = [r.bonus is None or len(r.accepted) >= horizon for r in drafted]
            open_ended.setdefault(lane.id, []).extend(unseen)
            horizons[lane.id] = max(horizons.get(lane.id, 0), horizon)
            budgets[lane.id] = max(budgets.get(lane.id, 2), trace.header.settings.get("budget", 2))
    for lane, rounds in found.items():
        horizon = horizons[lane]
        entropies, lengths = [r.entropy for r in rounds], [len(r.accepted) for r in rounds]
        if fit := law.fit(entropies, lengths, horizon, open_ended[lane]):
            copying, other = sticky(lengths, horizon, open_ended[lane])
            yield LaneLaw(
                lane=lane,
                rounds=tuple(rounds),
                law=fit,
                ceiling=law.noise_ceiling(entropies, lengths, min(50, max(1, len(rounds) // GROUP))),
                cap=law.cap(fit.intercept, horizon),
                copying=copying,
                other=other,
                threshold=law.copy_threshold(fit.intercept, other, horizon),
                budget=budgets[lane],
            )
