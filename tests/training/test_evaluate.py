"""The reading figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glance.errors import BadInput
from glance.synth import FAMILIES, Glyphs, Thing, sample
from glance.training.evaluate import _figures, by_task, edit_distance, reading, says
from tests import tiny_targets


@pytest.mark.parametrize(
    ("one", "two", "distance"),
    [("", "", 0), ("abc", "abc", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("ab", "ba", 2)],
)
def test_edit_distance(one, two, distance):
    assert edit_distance(one, two) == edit_distance(two, one) == distance


def test_a_target_without_batches_is_refused():
    with pytest.raises(BadInput, match="on Qwen targets alone, not on mllama"):
        reading(tiny_targets.llama_vision())


def test_figures_of_one_family():
    drawn = [replace(sample("documents", 1), answer="abcd"), replace(sample("documents", 2), answer="efgh")]
    found = _figures(drawn, ["abcd", "efgx"], [True, False])
    assert (found.exact, found.error, found.ended) == (0.5, 1 / 8, 0.5)


def test_a_sign_is_read_when_all_its_text_is_quoted_in_any_wording():
    sign = replace(sample("signs", 1), glyphs=(Glyphs("NO ENTRY", ()), Glyphs("5 km", ())))
    assert says(sign, 'It says "NO ENTRY 5 km".') and says(sign, '"NO ENTRY 5 km"')
    for wrong in ('It says "NO ENTRY".', "It says NO ENTRY 5 km.", 'It says "NO ENTRY 6 km".', ""):
        assert not says(sign, wrong)


def test_a_caption_is_right_when_it_names_all_things_and_no_other():
    box = (0.0, 0.0, 1.0, 1.0)
    scene = replace(
        sample("scenes", 0), things=(Thing("tree", "red", box), Thing("house", "blue", box)), alternatives=True
    )
    assert says(scene, "A small blue house next to a red tree by the sea.")
    for wrong in ("A red tree.", "A red tree, a blue house and a red tree.", "A blue tree and a red house.", ""):
        assert not says(scene, wrong)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_drawn_answer_itself_is_right(family):
    assert all(says(one, one.answer) for one in (sample(family, seed) for seed in range(60)))


def test_exact_answers_are_counted_by_task():
    drawn = [sample("charts", seed) for seed in range(6)]
    counts = by_task(drawn, [one.answer for one in drawn[:3]] + [""] * 3)
    assert sum(right for right, _ in counts.values()) == 3
    assert sum(total for _, total in counts.values()) == 6
