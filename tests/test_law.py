"""The entropy law: its formulas, and whether the fit finds a law that is known."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from glance import law
from glance.lab.entropy import laws, sticky


def log(intercept, slope, rounds, horizon=15, seed=0, spread=1.2):
    """Rounds drawn from a law: entropies and accepted lengths."""
    rng = np.random.default_rng(seed)
    entropy = rng.exponential(spread / 2, rounds)
    p = law.match(entropy, intercept, slope)
    misses = rng.random((rounds, horizon)) >= p[:, None]
    return entropy, np.where(misses.any(1), misses.argmax(1), horizon)


def recorded(budget, entropy, accepted):
    """As much of a trace as its law takes: one lane of such rounds under this budget."""
    rounds = tuple(
        SimpleNamespace(draft_passes=1, depths=range(1, min(budget, 15) + 1), bonus=0, accepted=range(a), entropy=e)
        for e, a in zip(entropy, accepted, strict=True)
    )
    own = law.fit(entropy, accepted, min(budget, 15), resamples=20)
    lane = SimpleNamespace(id="glance", rounds=rounds, end=SimpleNamespace(law=own))
    return SimpleNamespace(lanes=(lane,), header=SimpleNamespace(settings={"budget": budget}))


def test_the_mean_is_that_of_the_geometric_series():
    for p, horizon in itertools.product((0.0, 0.3, 0.65, 0.9, 1.0), (1, 8, 15)):
        expected = horizon if p == 1 else p * (1 - p**horizon) / (1 - p)
        assert law.mean_length(p, horizon) == pytest.approx(expected)
    # Lemma 1's own figures: the tail beyond L = 15 is a share p^15 of the whole.
    for p, share in ((0.65, 0.002), (0.80, 0.035), (0.90, 0.206)):
        assert 1 - law.mean_length(p, 15) / (p / (1 - p)) == pytest.approx(share, abs=6e-4)


def test_the_papers_own_numbers():
    assert law.cap(1.226, 15) == pytest.approx(3.34, abs=0.006)  # Appendix B.2
    assert law.cap(1.226, 10_000) == pytest.approx(math.exp(1.226), rel=1e-6) == pytest.approx(3.41, abs=0.005)
    assert law.upper_bracket(1.0) == pytest.approx(2 * math.log(31))
    assert law.upper_bracket([0.0, 0.1]).tolist() == [15, 15]
    assert law.copy_threshold(1.226, 0.70, 15) == pytest.approx(0.086, abs=0.001)


def test_every_fit_of_the_paper_lies_between_its_brackets():
    entropy = np.linspace(0.05, 1.2, 40)
    for intercept, slope in ((0.96, 0.63), (1.226, 0.95)):
        curve = law.expected(entropy, intercept, slope, 15)
        assert (curve < law.upper_bracket(entropy)).all() and (curve > law.lower_bracket(entropy)).all()
    assert law.lower_bracket(9.0) == 0


@pytest.mark.parametrize("horizon", [8, 15])
@pytest.mark.parametrize(("intercept", "slope"), [(0.96, 0.63), (1.5, 1.71), (0.4, 0.0), (-1.0, 0.5)])
def test_the_fit_finds_the_law_that_made_the_rounds(intercept, slope, horizon):
    found = law.fit(*log(intercept, slope, 6000, horizon), horizon, resamples=60)
    assert found.intercept == pytest.approx(intercept, abs=0.1)
    assert found.slope == pytest.approx(slope, abs=0.15)
    assert found.low < found.slope < found.high and found.high - found.low < 0.4
    assert found.rounds == 6000 and found.horizon == horizon
    for entropy, low, high in found.band:
        assert low <= law.expected(entropy, found.intercept, found.slope, horizon) <= high
        assert 0 < low < high < horizon


def test_the_interval_holds_the_true_slope_about_as_often_as_it_says():
    hits = 0
    for seed in range(100):
        found = law.fit(*log(1.0, 0.8, 120, seed=seed), 15, resamples=200)
        hits += found.low <= 0.8 <= found.high
    assert 86 <= hits <= 100


def test_the_fit_is_where_the_likelihood_has_no_slope():
    entropy, accepted = log(1.0, 0.8, 60)
    found = law.fit(entropy, accepted, 15)

    def likelihood(intercept, slope):
        p = law.match(entropy, intercept, slope)
        prior = law.PRIOR * (intercept**2 + slope**2) / 2
        return (accepted * np.log(p) + (accepted < 15) * np.log(1 - p)).sum() - prior

    best = likelihood(found.intercept, found.slope)
    for d0, d1 in itertools.product((-1e-3, 0, 1e-3), repeat=2):
        assert likelihood(found.intercept + d0, found.slope + d1) <= best + 1e-9


def test_a_round_cut_by_a_stop_rule_saw_no_miss():
    entropy, accepted = log(1.0, 0.8, 4000)
    stop = np.random.default_rng(1).integers(0, 6, 4000)  # the answer would end here
    cut = stop <= accepted
    seen = np.minimum(accepted, stop)
    told = law.fit(entropy, seen, 15, cut, resamples=20)
    untold = law.fit(entropy, seen, 15, resamples=20)
    assert told.intercept == pytest.approx(1.0, abs=0.15)
    assert untold.intercept < 0.7


def test_runs_of_two_budgets_follow_one_law():
    """A round that took all of a small tree saw no miss, though others went on."""
    runs = [recorded(budget, *log(3.0, 1.5, 500, horizon=min(budget, 15), seed=budget)) for budget in (7, 31)]
    (found,) = laws(runs)
    assert found.law.horizon == 15 and found.budget == 31
    assert found.law.intercept == pytest.approx(3.0, abs=0.2)
    assert found.law.slope == pytest.approx(1.5, abs=0.2)
    copying = [recorded(budget, [0.1, 0.2] * 50, [min(budget, 15), 0] * 50) for budget in (7, 31)]
    (found,) = laws(copying)
    assert found.copying == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("rounds", [3, 10, 40])
@pytest.mark.parametrize("accepted", [0, 8, "steps"])
def test_a_log_without_noise_stays_finite(rounds, accepted):
    entropy = np.linspace(0, 2, rounds)
    lengths = np.where(entropy < 1, 8, 0) if accepted == "steps" else np.full(rounds, accepted)
    found = law.fit(entropy, lengths, 8)
    assert (found is None) == (rounds < law.MIN_ROUNDS or accepted != "steps")
    if found:
        numbers = [found.intercept, found.slope, found.low, found.high, found.r, *np.ravel(found.band)]
        assert np.isfinite(numbers).all()
        assert found.slope > 0 > found.r


def test_no_law_where_there_is_nothing_to_fit():
    entropy, accepted = log(1.0, 0.8, 40)
    assert law.fit(entropy, np.zeros(40), 15) is None
    assert law.fit(np.full(40, 0.5), accepted, 15) is None
    assert law.fit([], [], 15) is None


def test_the_same_log_gives_the_same_interval():
    assert law.fit(*log(1.0, 0.8, 50), 15) == law.fit(*log(1.0, 0.8, 50), 15)


def test_the_noise_ceiling_of_known_variances():
    entropy = np.repeat(np.arange(50.0), 400)
    noise = np.tile(np.repeat([-2.0, 2.0], 200), 50)
    assert law.noise_ceiling(entropy, entropy * 0) == 0
    assert law.noise_ceiling(entropy, entropy) == pytest.approx(1)
    assert law.noise_ceiling(entropy, noise) == pytest.approx(0)
    signal = entropy.var()
    assert law.noise_ceiling(entropy, entropy + noise) == pytest.approx(signal / (signal + 4))


def test_two_states():
    geometric = law.two_state(0.3, 0.8, 0.8, 0.9, 0.6, 15)  # Assumption 3: equal states are the geometric
    assert geometric == pytest.approx([0.8**length for length in range(1, 16)])
    sticky = law.two_state(0.25, 1.0, 0.7, 1.0, 1.0, 15)
    assert sticky.sum() == pytest.approx(0.25 * 15 + 0.75 * float(law.mean_length(0.7, 15)))  # Theorem 2B
    at = law.copy_threshold(1.226, 0.7, 15)
    assert law.two_state(at, 1.0, 0.7, 1.0, 1.0, 15).sum() == pytest.approx(math.exp(1.226))
    rng = np.random.default_rng(0)
    lengths = []
    for _ in range(20_000):
        copying, length = rng.random() < 0.3, 0
        while length < 8 and rng.random() < (0.95 if copying else 0.6):
            length += 1
            copying = rng.random() < (0.9 if copying else 0.2)
        lengths.append(length)
    model = law.two_state(0.3, 0.95, 0.6, 0.9, 0.8, 8)
    assert [law.tail(lengths, length) for length in range(1, 9)] == pytest.approx(model, abs=0.012)


def test_two_states_are_found_in_rounds_that_they_made():
    rng = np.random.default_rng(1)
    _, short = log(math.log(0.6 / 0.4), 0.0, 4000)
    lengths = np.where(rng.random(4000) < 0.2, 15, short)
    assert sticky(lengths, 15) == pytest.approx((0.2, 0.6), abs=0.021)
    assert sticky(short, 15) == pytest.approx((0.0, 0.6), abs=0.011)
    seen = rng.integers(0, 16, 4000)  # where a stop rule would end each round
    assert sticky(np.minimum(lengths, seen), 15, seen < lengths) == pytest.approx((0.2, 0.6), abs=0.03)


def test_a_wider_tree_is_worth_most_in_between():
    entropy = np.linspace(0, 12, 4001)
    value = law.width_value(entropy, 4.0, 1.0, 15)
    best = entropy[value.argmax()]
    assert law.match(best, 4.0, 1.0) == pytest.approx((1 / 16) ** (1 / 15), abs=2e-3)
    assert value[0] < value.max() > value[-1]


def test_the_tail():
    assert law.tail([0, 8, 7, 12]) == 0.5
    assert law.tail([0, 8, 7, 12], 1) == 0.75
    assert law.tail([]) == 0
