"""The trainer's parts: alignment, dense labels, Muon, schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from glance.synth import Glyphs, Thing, sample
from glance.training.align import copied_from, named_in, pixels_of
from glance.training.architecture import build_image_processor
from glance.training.batch import Encoder
from glance.training.dense import CHARACTERS, DenseHead, dense_labels
from glance.training.muon import Muon, orthogonalize
from glance.training.recipe import Stage, load_recipe
from glance.training.schedule import Schedule

from .tiny import SHAPE


def _glyphs(*texts: str) -> list[Glyphs]:
    return [Glyphs(text, tuple((float(i), 0.0) for i in range(len(text)))) for text in texts]


def test_a_copied_value_points_at_its_characters():
    answer = "Total: $12.30"
    origin = copied_from(answer, _glyphs("Tax:", "$1.10", "Total:", "$12.30"))
    assert origin[0] == (2, 0)
    assert origin[7:] == [(3, i) for i in range(6)]
    assert origin[6] is None


def test_a_value_drawn_twice_is_taken_in_order():
    origin = copied_from("Jan 42, Feb 42.", _glyphs("42", "Jan", "42", "Feb"))
    assert origin[4] == (0, 0)
    assert origin[12] == (2, 0)


def test_half_a_word_is_no_copy():
    assert copied_from("The highest", _glyphs("Then", "high")) == [None] * 11


def test_words_of_a_caption_come_from_the_things_that_they_name():
    things = (Thing("tree", "red", (0, 0, 20, 20)), Thing("boat", "blue", (40, 0, 60, 30)))
    answer = "A blue boat near a red tree."
    origin = named_in(answer, things)
    assert [answer[i] for i, thing in enumerate(origin) if thing == 1] == list("blue boat")
    assert [answer[i] for i, thing in enumerate(origin) if thing == 0] == list("red tree")
    assert set(named_in("The boat is blue.", things)[4:8]) == {1}
    drawn = replace(sample("scenes", 0), answer=answer, things=things)
    assert pixels_of(drawn)[2] == (50, 15) and pixels_of(drawn)[0] is None


def test_things_that_look_alike_are_named_in_turn():
    twins = (Thing("tree", "red", (0, 0, 2, 2)), Thing("tree", "red", (4, 0, 6, 2)))
    origin = named_in("A red tree and a red tree.", twins)
    assert [thing for thing in dict.fromkeys(origin) if thing is not None] == [0, 1]


def test_dense_labels_hold_every_drawn_character(tokenizer):
    drawn = sample("signs", 3)
    encoder = Encoder(tokenizer, build_image_processor(SHAPE), SHAPE)
    pixels = encoder.pixels(encoder.patches([drawn.image]))
    labels = dense_labels((drawn,), pixels, SHAPE)
    found = [CHARACTERS[i - 1] for i in labels.characters.flatten().tolist() if i]
    expected = [c for glyph in drawn.glyphs for c in glyph.text if c != " "]
    assert len(found) >= 0.8 * len(expected)
    assert set(found) <= set(expected)
    loss, accuracy = DenseHead(SHAPE.hidden)(torch.randn(len(labels.kind), SHAPE.hidden), labels)
    assert torch.isfinite(loss)
    assert 0 <= accuracy <= 1


def test_dense_labels_hold_the_things_of_a_scene(tokenizer):
    drawn = sample("scenes", 3)
    encoder = Encoder(tokenizer, build_image_processor(SHAPE), SHAPE)
    pixels = encoder.pixels(encoder.patches([drawn.image]))
    labels = dense_labels((drawn,), pixels, SHAPE)
    assert 1 <= len(set(labels.kind.tolist()) - {0}) <= len(drawn.things)
    assert -100 not in labels.kind


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 24, 8), (2, 8, 24)])
def test_orthogonalized_matrices_have_singular_values_near_one(shape):
    values = torch.linalg.svdvals(orthogonalize(torch.randn(shape, generator=torch.manual_seed(0))))
    assert values.min() > 0.3
    assert values.max() < 1.4


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=str)
def test_muon_learns_a_linear_map(precision):
    torch.manual_seed(0)
    goal, weight = torch.randn(8, 8), torch.nn.Parameter(torch.zeros(8, 8))
    optimizer = Muon([weight], lr=0.05, weight_decay=0.0, precision=precision)
    losses = []
    for _ in range(150):
        x = torch.randn(64, 8)
        loss = (x @ weight.T - x @ goal.T).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.05 * losses[0]


def _stages() -> tuple[Stage, Stage]:
    return (
        Stage("one", steps=4, vision=True, text=False),
        Stage("two", steps=12, vision=False, text=True, rate=(1.0, 0.0), level=(0.0, 1.0), grown=0.5),
    )


def test_a_schedule_by_steps_takes_exactly_its_steps():
    schedule, ends = Schedule(_stages()), []
    while not schedule.done:
        ends.append(schedule.advance())
    assert len(ends) == 16
    assert [i for i, end in enumerate(ends) if end] == [3, 15]


def test_rate_and_level_move_through_a_stage():
    schedule = Schedule(_stages())
    for _ in range(7):
        schedule.advance()
    assert schedule.stage.name == "two"
    assert schedule.rate == pytest.approx(0.75)
    assert schedule.level == pytest.approx(0.5)
    assert schedule.overall == pytest.approx(7 / 16)


def test_a_schedule_by_the_clock_ends_on_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("glance.training.schedule.time.monotonic", lambda: now[0])
    schedule, steps = Schedule(_stages(), minutes=1.0), 0
    while not schedule.done:
        now[0] += 0.5
        steps += 1
        schedule.advance()
    assert now[0] == pytest.approx(60.0, abs=1.5)
    assert schedule.progress.total_steps == steps


def test_recipes_load_by_name():
    recipe = load_recipe("mini-target")
    assert recipe.name == "mini-target"
    assert sum(recipe.families.values()) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="mini-target"):
        load_recipe("maxi")
