"""A target's folder is read back as it was saved, and what is damaged is refused in one sentence."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from glance.checkpoints import load_target
from glance.errors import BadCheckpoint
from tests import tiny
from tests.test_checkpoints import DO


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def family(request):
    return tiny.family(tied=request.param)


def test_a_target_is_read_back_with_the_same_answers(family, tmp_path):
    made = family.parts
    for part in (made.model, made.tokenizer, made.image_processor):
        part.save_pretrained(tmp_path)
    loaded = load_target(tmp_path)
    prompt = family.prompt(tiny.picture(), "What?")
    again = type(family)("again", loaded, family.block_head, family.eagle3_head)
    assert torch.equal(again.prompt(tiny.picture(), "What?").ids, prompt.ids)
    assert torch.equal(again.target.prefill(prompt).logits, family.target.prefill(prompt).logits)
    assert again.eos_ids == family.eos_ids
    (tmp_path / "generation_config.json").unlink()
    bare = type(family)("bare", load_target(tmp_path), family.block_head, family.eagle3_head)
    assert bare.eos_ids == {made.tokenizer.eos_token_id}, "an answer must be able to end"


def setting(key, value):
    """A damage to a JSON file: another value of a key, at the top or in an inner object."""

    def damage(data):
        made = json.loads(data)
        next(part for part in (made, *made.values()) if isinstance(part, dict) and key in part)[key] = value
        return json.dumps(made).encode()

    return damage


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("model.safetensors", lambda data: data[: len(data) // 2], "cannot be loaded"),
        ("config.json", lambda data: b"[]", "cannot be loaded"),
        ("config.json", lambda data: data.replace(b'"qwen3_vl"', b'"qwen3"'), "type 'qwen3'"),
        ("config.json", lambda data: data.replace(b'"intermediate_size": 48', b'"intermediate_size": 64'), "be loaded"),
        ("config.json", setting("image_token_id", 50), "has 0 image tokens where 1 belong; copy"),
        ("config.json", setting("image_token_id", ord("u") - 33), "has 1 image tokens where 0 belong; copy"),
        ("config.json", setting("image_token_id", None), "cannot be loaded: .+'image_token_id'; copy"),
        ("config.json", setting("num_hidden_layers", 4), r"has the tensor .+\.layers\.4\..+ does not use; copy"),
        ("config.json", setting("depth", 2), r"has the tensor .+\.blocks\.2\..+ does not use; copy"),
        ("chat_template.jinja", lambda data: None, "cannot be loaded: .+ chat template"),
        ("chat_template.jinja", lambda data: b"{{ raise_exception('No system.') }}", "be loaded: No system; copy it"),
        ("chat_template.jinja", lambda data: b"{{ messages[0].content[0].text }}?", "0 image tokens where 1 belong"),
        ("tokenizer_config.json", lambda data: b"[]", "cannot be loaded"),
        ("preprocessor_config.json", lambda data: b"[]", "cannot be loaded"),
        ("preprocessor_config.json", setting("merge_size", 3), "merge_size 3 and its vision config 2; copy"),
        ("preprocessor_config.json", setting("patch_size", 8), "patch_size 8 and its vision config 16; copy"),
        ("generation_config.json", setting("eos_token_id", "x"), "an eos_token_id that is no number; copy"),
    ],
)
def test_a_damaged_target_is_refused(family, tmp_path, file, damage, message):
    for part in (family.parts.model, family.parts.tokenizer, family.parts.image_processor):
        part.save_pretrained(tmp_path)
    damaged = damage((tmp_path / file).read_bytes())
    (tmp_path / file).unlink()
    if damaged is not None:
        (tmp_path / file).write_bytes(damaged)
    with pytest.raises(BadCheckpoint, match=message) as refused:
        load_target(tmp_path)
    sentence = str(refused.value)
    assert sentence.endswith(".") and "\n" not in sentence
    assert DO.search(sentence), f"does not say what to do: {sentence}"


def test_tensors_that_no_target_needs_are_passed_over(family, tmp_path):
    """Positions' frequencies, which old files hold, and the layers of a multi-token head."""
    for part in (family.parts.model, family.parts.tokenizer, family.parts.image_processor):
        part.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    names = ("model.language_model.layers.0.self_attn.rotary_emb.inv_freq", "mtp.layers.0.mlp.up_proj.weight")
    save_file({**load_file(file), **{name: torch.ones(8) for name in names}}, file, {"format": "pt"})
    load_target(tmp_path)
