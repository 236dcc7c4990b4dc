"""The warning for pictures outside what a small target was trained for."""

from __future__ import annotations

import json
from statistics import mean

import pytest

from glance import reach, trace
from glance.engine import Settings
from glance.lab.reach import Asked, figures, page
from glance.presets import ASSETS, PRESETS
from glance.race import race
from tests import tiny


def test_only_the_first_tokens_count():
    assert reach.uncertainty([]) == 0.0
    assert reach.uncertainty([1.0, 2.0]) == 1.5
    assert reach.uncertainty([1.0] * reach.FIRST + [9.0] * 50) == 1.0


def test_no_warning_at_the_limit_or_without_one():
    assert reach.warning([1.0], None) == ""
    assert reach.warning([1.0], 1.0) == ""
    assert "1.25 nats" in reach.warning([1.25], 1.0)


@pytest.mark.parametrize(("limit", "warned"), [(0.01, True), (100.0, False), (None, False)])
def test_the_reference_lane_carries_the_warning(limit, warned):
    family = tiny.family()
    family.reach = limit
    made = trace.read("".join(race(family, family.prompt(tiny.picture(), "What?"), Settings(max_new_tokens=24))))
    reference, *others = made.lanes
    entropies = [made.header.first_entropy, *(e for r in reference.rounds for e in r.entropies)]
    assert ("unusually unsure" in reference.end.note) == warned
    assert not any("unusually unsure" in lane.end.note for lane in others)
    if warned:
        assert f"{mean(entropies[: reach.FIRST]):.2f} nats" in reference.end.note


def test_a_run_cut_short_is_not_judged():
    family = tiny.family()
    family.reach = 0.01
    made = trace.read("".join(race(family, family.prompt(tiny.picture(), "What?"), Settings(max_new_tokens=3))))
    assert made.lanes[0].end.reason == "length" and made.lanes[0].end.note == ""


def test_a_sampled_answer_is_not_judged():
    """The limit was measured on greedy answers; heat alone makes others less certain."""
    family = tiny.family()
    family.reach = 0.01
    settings = Settings(max_new_tokens=24, temperature=1.0)
    made = trace.read("".join(race(family, family.prompt(tiny.picture(), "What?"), settings)))
    assert "unusually unsure" not in made.lanes[0].end.note


def test_the_limit_is_the_one_that_was_measured():
    kept = json.loads((ASSETS / "bench/reach.json").read_text())
    assert PRESETS["mini"].reach == round(kept["figures"]["limit"], 2)
    setting = [row["nats"] for row in kept["rows"] if row["group"] == "limit"]
    above = sum(nats > kept["figures"]["limit"] for nats in setting) / len(setting)
    assert 0.03 < above < 0.07
    assert kept["figures"]["inside"] < 0.15 < 0.8 < kept["figures"]["outside"]


def test_figures_are_shares_above_the_limit():
    rows = [Asked("charts", "limit", "?", nats / 100) for nats in range(101)]
    rows += [Asked("charts", "inside", "?", nats) for nats in (0.2, 0.4, 0.6, 0.96)]
    rows += [Asked("photograph", "outside", "?", nats) for nats in (0.5, 0.99, 1.5, 2.0)]
    found = figures(rows)
    assert found["limit"] == pytest.approx(0.95)
    assert found["charts_above"] == found["inside"] == 0.25
    assert found["photograph_above"] == found["outside"] == 0.75


def test_pages_from_outside_are_drawn_alike_everywhere():
    assert page("Greek", 1).tobytes() == page("Greek", 1).tobytes() != page("Greek", 2).tobytes()
