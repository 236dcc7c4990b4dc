"""The reading figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glance.synth import sample
from glance.training.evaluate import _figures, by_task, edit_distance


@pytest.mark.parametrize(
    ("one", "two", "distance"),
    [("", "", 0), ("abc", "abc", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("ab", "ba", 2)],
)
def test_edit_distance(one, two, distance):
    assert edit_distance(one, two) == edit_distance(two, one) == distance


def test_free_wordings_count_no_exact_match():
    drawn = [replace(sample("documents", 1), answer="abcd"), replace(sample("documents", 2), answer="efgh")]
    found = _figures(drawn, ["abcd", "efgx"], [True, False])
    assert (found.exact, found.error, found.ended) == (0.5, 1 / 8, 0.5)
    free = [replace(one, alternatives=True) for one in drawn]
    assert _figures(free, ["abcd", "efgx"], [True, True]).exact is None


def test_exact_answers_are_counted_by_task():
    drawn = [sample("charts", seed) for seed in range(6)]
    counts = by_task(drawn, [one.answer for one in drawn[:3]] + [""] * 3)
    assert sum(right for right, _ in counts.values()) == 3
    assert sum(total for _, total in counts.values()) == 6
