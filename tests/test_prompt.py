"""Prompts: positions, hashes, caps, hostile text."""

from __future__ import annotations

import pytest
import torch
from PIL import Image

from glance.errors import BadInput
from glance.prompt import neutralize
from glance.targets.qwen_vl import rope_positions
from tests import tiny

# Worked out by hand: two text tokens, an image, one text token. (grid in patches, merge 2) -> columns and delta.
GOLDEN = [
    ((1, 4, 4), [[0, 1, 2, 2, 2, 2, 4], [0, 1, 2, 2, 3, 3, 4], [0, 1, 2, 3, 2, 3, 4]], -2),
    ((1, 2, 4), [[0, 1, 2, 2, 4], [0, 1, 2, 2, 4], [0, 1, 2, 3, 4]], 0),
    ((1, 2, 2), [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]], 0),
    ((1, 6, 4), [[0, 1, *[2] * 6, 5], [0, 1, 2, 2, 3, 3, 4, 4, 5], [0, 1, 2, 3, 2, 3, 2, 3, 5]], -3),
]


@pytest.mark.parametrize(("grid", "columns", "delta"), GOLDEN)
def test_positions_of_an_image_between_text(grid, columns, delta):
    visual = grid[1] * grid[2] // 4
    positions, got = rope_positions([False] * 2 + [True] * visual + [False], [grid], 2)
    assert positions[:, 0].tolist() == columns
    assert got == delta


@pytest.mark.parametrize("sizes", [[], [(96, 64)], [(64, 96), (128, 32)], [(2000, 30)]])
def test_positions_agree_with_transformers(family, sizes):
    prompt = family.prompt([tiny.picture(i, s) for i, s in enumerate(sizes)], "What?")
    types = (prompt.ids == family.parts.model.config.image_token_id).int()
    positions, delta = family.parts.model.model.get_rope_index(prompt.ids, types, prompt.grid)
    assert torch.equal(prompt.positions, positions)
    assert prompt.rope_delta == int(delta)


def test_each_visual_token_has_a_placeholder(family):
    prompt = family.prompt(tiny.picture(size=(2000, 2000)), "What?")
    placeholders = int((prompt.ids == family.parts.model.config.image_token_id).sum())
    assert placeholders == prompt.images[0]["tokens"] == 16  # 128 x 128 pixels in cells of 32 x 32


def test_the_aspect_ratio_survives_the_resize(family):
    for size in ((800, 200), (200, 800), (997, 1009)):
        width, height = family.seen(tiny.picture(size=size)).size
        assert abs(width - height * size[0] / size[1]) <= 32


@pytest.mark.parametrize("name", tiny.SPECIAL)
def test_special_tokens_typed_by_a_visitor_are_ordinary_text(family, name):
    plain = family.prompt(tiny.picture(), "Is it x?")
    typed = family.prompt(tiny.picture(), f"Is it {name}? {name}")
    token = family.parts.tokenizer.convert_tokens_to_ids(name)
    assert (typed.ids == token).sum() == (plain.ids == token).sum()
    assert typed.question == f"Is it {name}? {name}"


def test_neutralized_text_reads_alike():
    assert neutralize("a <|im_end|> b", ["<|im_end|>"]).replace("\u200b", "") == "a <|im_end|> b"


def test_a_nested_special_token_stays_broken():
    text = neutralize("<|im_<|im_end|>end|>", ["<|im_end|>"])
    assert "<|im_end|>" not in text


def test_half_an_emoji_is_shown_as_such_and_two_halves_are_one(family):
    assert family.prompt(None, "a\ud83d").question == "a\ufffd"
    assert family.prompt(None, "a\ud83d\ude00").question == "a😀"


@pytest.mark.parametrize("size", [(0, 5), (5, 0)])
def test_an_image_without_pixels_is_refused(family, size):
    with pytest.raises(BadInput, match="no pixels"):
        family.prompt(Image.new("RGB", size), "What?")


@pytest.mark.parametrize("question", ["", "   \n", None])
def test_an_empty_question_is_refused(family, question):
    with pytest.raises(BadInput, match="Type a question"):
        family.prompt(tiny.picture(), question)


@pytest.mark.parametrize("question", [0, 7, b"What?", ["What?"]])
def test_a_question_that_is_no_text_is_refused(family, question):
    with pytest.raises(BadInput, match=f"must be a text, not {type(question).__name__}; type one"):
        family.prompt(None, question)


def test_a_long_question_is_refused(family):
    with pytest.raises(BadInput, match="shorten"):
        family.prompt(None, "a" * 2001)


@pytest.mark.parametrize(("size", "refusal"), [((10, 2000), ""), ((10, 2010), "201 to 1"), ((2004, 10), "200.4 to 1")])
def test_strips_up_to_the_processors_limit(family, size, refusal):
    image = Image.new("RGB", size)
    if not refusal:
        assert family.prompt(image, "What?").length > 0
    else:
        with pytest.raises(BadInput, match=rf"a ratio of {refusal}; crop it to a ratio of at most 200 to 1\.$"):
            family.prompt(image, "What?")


def test_a_single_pixel_is_scaled_up(family):
    assert family.prompt(Image.new("RGB", (1, 1)), "What?").images[0]["tokens"] >= 1


def test_hashes_tell_prompts_and_images_apart(family):
    one, again, other = (family.prompt(tiny.picture(i), "What?") for i in (1, 1, 2))
    assert one.images == again.images != other.images
    assert one.ids_sha256 == again.ids_sha256
    assert one.ids_sha256 != family.prompt(tiny.picture(1), "Who?").ids_sha256


def test_a_prompt_beyond_the_models_positions_is_refused(family, monkeypatch):
    monkeypatch.setattr(family.parts.model.config.text_config, "max_position_embeddings", 40)
    with pytest.raises(BadInput, match="40 fit"):
        family.prompt(tiny.picture(), "What is the name of the thing in the middle?")
