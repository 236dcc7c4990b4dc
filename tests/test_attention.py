"""Where the target looks: against the weights that transformers itself gives in an eager copy of the model."""

from __future__ import annotations

import threading

import pytest
import torch

from glance import trace
from glance.attention import attend, weights
from glance.engine import Settings
from glance.errors import BadInput
from glance.race import race
from tests import tiny

LAYERS = (1, 3)  # the fused layers of the tiny block head


@pytest.fixture(scope="module")
def prompt(family):
    return family.prompt(tiny.picture(), "What is it?")


@pytest.fixture(scope="module")
def answer(family, prompt):
    made = trace.read("".join(race(family, prompt, Settings(max_new_tokens=24), ["autoregressive"])))
    return made.lanes[0].end.ids


@pytest.fixture(scope="module")
def expected(prompt, answer):
    """The weights of an eager copy, one plain forward over prompt and answer: layer -> [heads, rows, keys]."""
    model = tiny.parts(attention="eager").model
    ids = torch.cat((prompt.ids, torch.tensor([answer])), 1)
    with torch.no_grad():
        out = model(
            input_ids=ids, pixel_values=prompt.pixels, image_grid_thw=prompt.grid, use_cache=False,
            mm_token_type_ids=(ids == model.config.image_token_id).int(), output_attentions=True,
        )  # fmt: skip
    return {i: out.attentions[i][0] for i in LAYERS}


@pytest.mark.parametrize(("end", "emitted"), [(2, 1), (9, 1), (9, 5), (20, 19)])
def test_it_is_what_an_eager_model_says(family, prompt, answer, expected, end, emitted):
    found = attend(family, prompt, answer[:end], emitted)
    last = prompt.length + end
    rows = range(last - emitted - 1, last - 1)  # a token is chosen by the row before it
    mean = torch.stack([w[:, list(rows)].mean((0, 1)) for w in expected.values()]).mean(0)
    right = mean[: prompt.length][prompt.ids[0] == family.parts.model.config.image_token_id]
    assert torch.tensor(found.values) == pytest.approx(right, abs=1e-6)
    assert found.share == pytest.approx(float(right.sum()), abs=1e-6) and 0 < found.share < 1
    assert found.rows * found.columns == len(found.values) == prompt.images[0]["tokens"]
    assert (found.layers, found.tokens, found.agreeing) == (LAYERS, emitted, emitted)
    assert max(found.values) - min(found.values) > 1e-4, "a test on even attention would see no mistake"


def test_a_target_of_padded_passes_is_looked_at_in_ordinary_ones(family, prompt, answer, monkeypatch):
    ordinary = attend(family, prompt, answer[:9], 1)
    monkeypatch.setattr(family.target, "padded", True)
    assert attend(family, prompt, answer[:9], 1) == ordinary


def test_the_rows_are_those_that_chose_the_tokens(family, prompt, answer, expected):
    """One row further would be seen: the check above has teeth."""
    found = torch.tensor(attend(family, prompt, answer[:9], 1).values)
    is_image = prompt.ids[0] == family.parts.model.config.image_token_id
    for row, same in ((prompt.length + 7, True), (prompt.length + 8, False), (prompt.length + 6, False)):
        mean = torch.stack([w[:, row].mean(0) for w in expected.values()]).mean(0)[: prompt.length][is_image]
        assert ((found - mean).abs().max() < 1e-6) == same


def test_the_grid_is_laid_out_as_the_picture_is(family):
    wide = attend(family, family.prompt(tiny.picture(size=(128, 64)), "Q?"), (70, 71, 72), 1)
    assert (wide.rows, wide.columns) == (2, 4)


def test_the_model_is_left_as_it_was(family, prompt, answer):
    before = family.target.prefill(prompt).logits
    attend(family, prompt, answer[:9], 3)
    model = family.parts.model
    assert model.config.text_config._attn_implementation == "sdpa"
    assert not any(layer.self_attn._forward_hooks for layer in model.model.language_model.layers)
    assert torch.equal(family.target.prefill(prompt).logits, before)


def test_another_request_on_the_model_is_not_looked_at(family, prompt):
    text = family.target.text
    with weights(text, LAYERS) as found:
        other = threading.Thread(target=lambda: family.target.prefill(prompt))
        other.start()
        other.join()
    assert found == {}


def test_a_run_of_another_model_is_noticed(family, prompt, answer):
    other = tuple((i + 1) % 200 for i in answer[:9])
    assert attend(family, prompt, other, 4).agreeing < 4


@pytest.mark.parametrize(
    ("ids", "emitted", "words"),
    [
        ((1,), 1, "does not fit"), ((1, 2), 0, "does not fit"), ((1, 2), 2, "does not fit"),
        ((1, 10**6), 1, "does not know"), ((1, -1), 1, "does not know"), ((1,) * 3000, 5, "does not fit"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(family, prompt, ids, emitted, words):
    with pytest.raises(BadInput, match=words):
        attend(family, prompt, ids, emitted)


def test_without_one_picture_there_is_nothing_to_show(family):
    for images in (None, [tiny.picture(1), tiny.picture(2)]):
        with pytest.raises(BadInput, match="one picture"):
            attend(family, family.prompt(images, "Q?"), (1, 2), 1)
