"""The entropy law: how long a draft survives, from how sure the target is at the round's root.

Places in brackets are those of arXiv 2609.00355, version 1. H is the target's next-token entropy at the root in nats, a
the accepted length, L the horizon: how many tokens a round can accept at most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .trace import Law, Round

Array = NDArray[np.float64]

MIN_ROUNDS = 10  # fewer hold too few misses for two parameters
RESAMPLES = 400
GRID = 13  # points of a band
PRIOR = 1e-2  # precision of a normal prior on both parameters: it only keeps a separable log finite


def mean_length(p: ArrayLike, horizon: int) -> Array:
    """M(p), the sum of p^l for l = 1..L: mean length of a run of matches of probability p, cut at L (Lemma 1)."""
    return np.power.outer(np.asarray(p, float), np.arange(1, horizon + 1)).sum(-1)


def match(entropy: ArrayLike, intercept: ArrayLike, slope: ArrayLike) -> Array:
    """Probability that the drafter matches the target: logit p = b0 - b1 H (Equation 2)."""
    logit = np.asarray(intercept) - np.asarray(slope) * np.asarray(entropy, float)
    return 0.5 * (1 + np.tanh(logit / 2))


def expected(entropy: ArrayLike, intercept: ArrayLike, slope: ArrayLike, horizon: int) -> Array:
    """E[a | H] = M(p(H)), the law truncated at the horizon (Equation 2 with Lemma 1)."""
    return mean_length(match(entropy, intercept, slope), horizon)


def cap(intercept: float, horizon: int) -> float:
    """The most that the law allows at any entropy, M(sigma(b0)), which is at most e^b0 (Theorem 2A)."""
    return float(expected(0.0, intercept, 0.0, horizon))


def tail(accepted: Sequence[int], length: int = 8) -> float:
    """P(a >= length): the share of rounds that accept that many tokens (Appendix F)."""
    return float(np.mean(np.asarray(accepted) >= length)) if len(accepted) else 0.0


def upper_bracket(entropy: ArrayLike, budget: int = 31, horizon: int = 15) -> Array:
    """The verification ceiling 2 ln N / H (Figure 4), which no round can reach above the horizon."""
    with np.errstate(divide="ignore"):
        return np.minimum(horizon, 2 * np.log(budget) / np.asarray(entropy, float))


def lower_bracket(entropy: ArrayLike, gamma: float = 0.2) -> Array:
    """AdaEDL's lower bound on acceptance, 1 - sqrt(gamma H), not below 0 (Figure 4; formula of arXiv 2410.18351).

    The paper does not say how it becomes an accepted length. Read directly, E[a] >= P(a >= 1), it lies below the
    paper's fits, as its figure says.
    """
    return np.maximum(0, 1 - np.sqrt(gamma * np.asarray(entropy, float)))


def noise_ceiling(entropy: ArrayLike, accepted: ArrayLike, bins: int = 50) -> float:
    """The best R squared of any predictor that sees H alone, Var(E[a | H]) / Var(a) (Proposition 2).

    Estimated between `bins` groups of neighbouring entropies, as in the paper. With few rounds a group it comes out too
    high.
    """
    a = np.asarray(accepted, float)[np.argsort(entropy, kind="stable")]
    if a.size == 0 or a.var() == 0:
        return 0.0
    groups = np.array_split(a, min(bins, a.size))
    return float(sum(g.size * (g.mean() - a.mean()) ** 2 for g in groups) / a.size / a.var())


def two_state(
    copying: float, rho_copy: float, rho_other: float, stay_copy: float, stay_other: float, horizon: int
) -> Array:
    """P(a >= l) for l = 1..L, [L], of a run that copies or does not (Assumption 3, Equation 4).

    Args:
        copying: probability that the run begins in the copying state (pi).
        rho_copy, rho_other: probability of a match in each state (rho_D, rho_U).
        stay_copy, stay_other: probability of staying in a state after a match (t_DD, t_UU).
    """
    rho = np.array([rho_copy, rho_other])
    after = np.array([[stay_copy, 1 - stay_copy], [1 - stay_other, stay_other]]) * rho  # K = T D
    mass, survival = np.array([copying, 1 - copying]) * rho, []
    for _ in range(horizon):
        survival.append(mass.sum())
        mass = mass @ after
    return np.array(survival)


def copy_threshold(intercept: float, rho_other: float, horizon: int) -> float:
    """The share of copying runs above which the mean at H = 0 passes e^b0, pi* (Theorem 2B)."""
    other = float(mean_length(rho_other, horizon))
    return float((np.exp(intercept) - other) / (horizon - other))


def width_value(entropy: ArrayLike, intercept: float, slope: float, horizon: int) -> Array:
    """What a wider tree is worth at H, in proportion: E[a | H] (1 - p) (Equation 5), with E truncated."""
    p = match(entropy, intercept, slope)
    return mean_length(p, horizon) * (1 - p)


def _maximum_likelihood(entropy: Array, hits: Array, misses: Array, weights: Array) -> Array:
    """(b0, b1) of each row of weights [rows, n], by Newton's method on the logistic likelihood: [rows, 2]."""
    b0, b1 = np.zeros((2, len(weights), 1))
    for _ in range(60):
        p = match(entropy, b0, b1)
        rest = weights * (hits - (hits + misses) * p)
        curve = weights * (hits + misses) * p * (1 - p)
        g0 = rest.sum(1, keepdims=True) - PRIOR * b0
        g1 = -(rest @ entropy)[:, None] - PRIOR * b1
        h00 = curve.sum(1, keepdims=True) + PRIOR
        h01 = -(curve @ entropy)[:, None]
        h11 = (curve @ entropy**2)[:, None] + PRIOR
        determinant = h00 * h11 - h01**2
        steps = (h11 * g0 - h01 * g1) / determinant, (h00 * g1 - h01 * g0) / determinant
        d0, d1 = (np.clip(step, -2, 2) for step in steps)
        b0, b1 = b0 + d0, b1 + d1
        if max(np.abs(d0).max(), np.abs(d1).max()) < 1e-9:
            break
    return np.hstack((b0, b1))


def fit(
    entropy: ArrayLike, accepted: ArrayLike, horizon: int, cut: ArrayLike = False, resamples: int = RESAMPLES
) -> Law | None:
    """The law of a log of rounds, with 95 % bootstrap intervals over rounds (seed 0: the same log, the same interval).

    Every offset of a round matches with the probability of its root's entropy (Assumption 2 with Lemma 1), so a round
    is a matches and then a miss, unless it reached the horizon or a stop rule cut it. The paper does not say how its
    logs were fitted; this is the maximum likelihood of that model. Rounds of one answer depend on each other, which no
    interval over rounds knows.

    Args:
        entropy, accepted: H in nats and a, one a round.
        cut: True for a round in which no miss was seen: a stop rule ended it, or its own run had a nearer horizon.

    Returns:
        None for fewer than `MIN_ROUNDS` rounds, or for a log without any match, any miss or any spread of H.
    """
    entropy, accepted = np.asarray(entropy, float), np.asarray(accepted, float)
    n = len(entropy)
    misses = ((accepted < horizon) & ~np.broadcast_to(np.asarray(cut, bool), n)).astype(float)
    if n < MIN_ROUNDS or np.ptp(entropy) < 1e-6 or not accepted.any() or not misses.any():
        return None
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=resamples)
    (best, *others) = _maximum_likelihood(entropy, accepted, misses, np.vstack((np.ones(n), drawn)))
    others = np.array(others)
    low, high = np.quantile(others[:, 1], (0.025, 0.975))
    grid = np.linspace(entropy.min(), entropy.max(), GRID)
    curves = expected(grid, others[:, :1], others[:, 1:], horizon)
    band = np.column_stack((grid, *np.quantile(curves, (0.025, 0.975), axis=0)))
    r = np.corrcoef(entropy, accepted)[0, 1] if np.ptp(accepted) else 0.0
    return Law(
        float(best[0]), float(best[1]), float(low), float(high), horizon, float(r), n, tuple(map(tuple, band.tolist()))
    )


def of_rounds(rounds: Sequence[Round], horizon: int) -> Law | None:
    """The law of one lane's rounds, without those in which its head was silent; see `fit`."""
    rounds = [r for r in rounds if r.draft_passes]
    return fit(
        [r.entropy for r in rounds],
        [len(r.accepted) for r in rounds],
        horizon,
        [r.bonus is None for r in rounds],
    )
