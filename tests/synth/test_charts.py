"""Charts: what is printed on them, and how those of plotting libraries look."""

import random
from itertools import pairwise

import pytest

from glance.synth import SIZES, sample
from glance.synth.looks import TINT, library_look

WORDING = ["The", "the", "highest", "lowest", "title", "is", "with"]


def drawn(family, kind, count=6):
    """The first samples of one kind of chart."""
    found = (sample(family, seed, "test", size=SIZES[seed % 3]) for seed in range(400))
    return [one for one in found if one.task.startswith(f"{kind}/")][:count]


@pytest.mark.parametrize("family", ["charts", "plots"])
@pytest.mark.parametrize("kind", ["bars", "grouped", "horizontal", "line", "pie"])
def test_every_word_of_an_answer_is_printed(family, kind):
    found = drawn(family, kind)
    assert bool(found) == ((family, kind) != ("charts", "grouped"))
    for one in found:
        printed = " ".join(glyphs.text for glyphs in one.glyphs).split()
        for word in one.answer.rstrip(".").replace(":", "").replace(",", "").split():
            assert word in printed or word in WORDING


@pytest.mark.parametrize("family", ["charts", "plots"])
def test_a_comparison_lists_what_it_compares(family):
    found = [one for one in drawn(family, "bars", 60) if one.task.split("/")[1] in ("highest", "lowest")]
    assert found
    for one in found:
        listed, verdict = one.answer.rstrip(".").split(": ")
        values = {float(value): name for name, value in (row.split(" ") for row in listed.split(", "))}
        best = max(values) if "highest" in verdict else min(values)
        assert f" is {values[best]} with " in verdict and float(verdict.rsplit(" ", 1)[1]) == best


def test_a_grouped_chart_names_both_series_of_every_category():
    listed = [one for one in drawn("plots", "grouped", 40) if one.task == "grouped/list"]
    assert listed
    for one in listed:
        rows = one.answer.rstrip(".").split(": ", 1)[1].split(", ")
        categories, series = zip(*(row.split(" ")[:2] for row in rows), strict=True)
        assert categories[::2] == categories[1::2]
        assert len(set(series)) == 2
        assert len(set(categories)) == len(rows) / 2


@pytest.mark.parametrize(
    ("highest", "numbers"),
    [(113.0, ["0", "50", "100"]), (1018.0, ["0", "500", "1000"]), (4.9, ["0", "1", "2", "3", "4"])],
)
@pytest.mark.parametrize("frame", ["box", "grid"])
def test_axes_have_round_numbers_at_their_heights(frame, highest, numbers):
    looks = (library_look(random.Random(seed), (256, 256)) for seed in range(40))
    look = next(look for look in looks if look.frame == frame)
    look.area(40, 30, 230)
    look.axis(40, 30, 230, highest)
    assert [glyphs.text for glyphs in look.canvas.glyphs] == numbers
    heights = [glyphs.centres[0][1] for glyphs in look.canvas.glyphs]
    assert all(abs(below - above - 200 * float(numbers[1]) / highest) <= 1 for below, above in pairwise(heights))
    assert look.canvas.image.getpixel((240, 100)) == (TINT if frame == "grid" else (255, 255, 255))
