"""Training sees what serving sees: pixels, ids, positions, and the forward pass."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoTokenizer

from glance.synth import SIZES, sample
from glance.targets import qwen_vl
from glance.training.architecture import build_image_processor, build_target, save_target
from glance.training.batch import Encoder
from glance.training.forward import TargetForward
from glance.training.tokenizer import MASK, SPECIAL

from .tiny import SHAPE


@pytest.fixture(scope="module")
def parts(tokenizer):
    return build_image_processor(SHAPE), build_target(SHAPE, tokenizer, seed=0).eval()


@pytest.mark.parametrize("size", SIZES)
def test_a_batch_holds_the_prompt_of_inference_bit_for_bit(tokenizer, parts, size):
    processor, model = parts
    drawn = [sample("documents", 1, size=size), sample("scenes", 2, size=size)]
    batch = Encoder(tokenizer, processor, SHAPE)(drawn)
    for row, one in enumerate(drawn):
        prompt = qwen_vl.encode([one.image], one.question, tokenizer, processor, model.config)
        assert torch.equal(batch.pixels[row], prompt.pixels)
        assert prompt.grid.tolist() == [[1, *batch.grid]]
        assert torch.equal(batch.ids[row, : prompt.length], prompt.ids[0])
        assert torch.equal(batch.positions[:, 0, : prompt.length], prompt.positions[:, 0])
        after = batch.positions[:, 0, prompt.length :]
        assert torch.equal(after, (torch.arange(prompt.length, batch.ids.shape[1]) + prompt.rope_delta).expand(3, -1))
        answer = batch.labels[row][batch.labels[row] >= 0]
        assert tokenizer.decode(answer, skip_special_tokens=True) == one.answer


def test_pointers_name_the_cell_of_the_glyph(tokenizer, parts):
    processor, _ = parts
    one = sample("documents", 5)
    batch = Encoder(tokenizer, processor, SHAPE)([one])
    columns = one.image.width // SHAPE.cell
    pointed = batch.pointers[0] >= 0
    assert pointed.sum() > 10
    cells = {(int(x // SHAPE.cell), int(y // SHAPE.cell)) for g in one.glyphs for x, y in g.centres}
    for column in batch.pointers[0][pointed].tolist():
        cell = column - batch.first
        assert (cell % columns, cell // columns) in cells


@pytest.mark.parametrize("learns", [True, False], ids=["learning", "reading"])
@pytest.mark.parametrize("size", SIZES)
def test_the_fast_forward_pass_equals_transformers(tokenizer, parts, size, learns):
    processor, model = parts
    batch = Encoder(tokenizer, processor, SHAPE)([sample("charts", seed, size=size) for seed in (1, 2)])
    run = TargetForward(model)
    with torch.set_grad_enabled(learns):  # attention is computed in another way where it learns
        states, _, _ = run.read(batch.ids, batch.positions, batch.first, run.see(batch.pixels, batch.grid))
    with torch.no_grad():
        expected = model(
            input_ids=batch.ids,
            pixel_values=batch.pixels.flatten(0, 1),
            image_grid_thw=torch.tensor([[1, *batch.grid]] * 2),
            mm_token_type_ids=(batch.ids == model.config.image_token_id).int(),
        ).logits
    assert torch.allclose(model.lm_head(states), expected, atol=2e-5)


def test_the_tokenizer_is_qwen_like(tokenizer, parts, tmp_path):
    processor, model = parts
    save_target(model, tokenizer, processor, tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    content = [{"type": "image"}, {"type": "text", "text": "Read 42."}]
    text = loaded.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    assert text == (
        "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Read 42.<|im_end|>\n<|im_start|>assistant\n"
    )
    assert all(len(loaded(name)["input_ids"]) == 1 for name in SPECIAL)
    for string in ("Total: 1,204.50", "naïve ✓ 日本", "two\nlines"):
        ids = loaded(string)["input_ids"]
        assert loaded.decode(ids) == string
        assert loaded.convert_tokens_to_ids(MASK) not in ids
    assert len(loaded("2024")["input_ids"]) == 4
    assert model.generation_config.eos_token_id == loaded.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
