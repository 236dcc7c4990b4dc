"""Charts: what is printed on them, and the looks that they have."""

import random
from itertools import pairwise

import pytest

from glance.synth import SIZES, sample
from glance.synth.looks import TINT, any_look


def charts(kind, count=6):
    """The first samples of one kind of chart."""
    found = (sample("charts", seed, "test", size=SIZES[seed % 3]) for seed in range(400))
    return [one for one in found if one.task.startswith(f"{kind}/")][:count]


@pytest.mark.parametrize("kind", ["bars", "grouped", "horizontal", "line", "pie"])
def test_every_value_of_an_answer_is_printed(kind):
    for one in charts(kind):
        printed = " ".join(glyphs.text for glyphs in one.glyphs).split()
        for word in one.answer.rstrip(".").replace(":", "").replace(",", "").split():
            assert word in printed or word in ["The", "highest", "lowest", "title", "is", "with"]


def test_a_grouped_chart_names_both_series_of_every_category():
    listed = [one for one in charts("grouped", 40) if one.task == "grouped/list"]
    assert listed
    for one in listed:
        rows = one.answer.rstrip(".").split(": ", 1)[1].split(", ")
        categories = [row.rsplit(" ", 2)[0] for row in rows]
        series = [row.rsplit(" ", 2)[1] for row in rows]
        assert categories[::2] == categories[1::2]
        assert len(set(series)) == 2
        assert len(set(categories)) == len(rows) / 2


def test_charts_have_three_looks():
    looks = [any_look(random.Random(seed), (256, 256)) for seed in range(40)]
    assert {look.frame for look in looks} == {"bare", "box", "grid"}
    assert all(len(set(look.colours)) == 6 for look in looks)


@pytest.mark.parametrize(
    ("highest", "numbers"),
    [(113.0, ["0", "50", "100"]), (1018.0, ["0", "500", "1000"]), (4.9, ["0", "1", "2", "3", "4"])],
)
def test_axes_have_round_numbers_at_their_heights(highest, numbers):
    looks = [any_look(random.Random(seed), (256, 256)) for seed in range(40)]
    for frame in ("box", "grid"):
        look = next(look for look in looks if look.frame == frame)
        look.axis(40, 30, 230, highest)
        assert [glyphs.text for glyphs in look.canvas.glyphs] == numbers
        heights = [glyphs.centres[0][1] for glyphs in look.canvas.glyphs]
        steps = [above - below for below, above in pairwise(heights)]
        assert all(abs(step + 200 * float(numbers[1]) / highest) <= 1 for step in steps)
        assert (look.canvas.image.getpixel((240, 100)) == TINT) == (frame == "grid")
