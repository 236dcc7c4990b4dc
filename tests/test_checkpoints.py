"""Heads are read back bit-equal, and what does not fit is refused in one sentence."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

from glance.checkpoints import load_block_head, load_eagle3_head, load_target
from glance.errors import BadCheckpoint
from tests import tiny


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def family(request):
    return tiny.family(tied=request.param)


def test_both_formats_are_read_back_bit_equal(family, tmp_path):
    block = load_block_head(tiny.save_block_head(family.block_head, tmp_path / "b"), family.parts)
    eagle3 = load_eagle3_head(tiny.save_eagle3_head(family.eagle3_head, tmp_path / "e"), family.parts)
    for loaded, made in ((block, family.block_head), (eagle3, family.eagle3_head)):
        assert loaded.config == made.config
        for name, tensor in made.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], tensor), name


def test_other_spellings_of_the_same_head(family, tmp_path):
    folder = tiny.save_block_head(
        family.block_head,
        tmp_path,
        block_size=None,
        dflash_config={"mask_token_id": 263, "target_layer_ids": [1, 3], "block_size": 8},
    )
    file = folder / "model.safetensors"
    save_file({f"model.{k}": v for k, v in load_file(file).items()}, file)
    assert load_block_head(folder, family.parts).config == family.block_head.config
    folder = tiny.save_eagle3_head(family.eagle3_head, tmp_path / "e")
    file = folder / "model.safetensors"
    tensors = {k.replace("midlayer.", "layers.0."): v for k, v in load_file(file).items()}
    del tensors["embed_tokens.weight"]
    save_file(tensors, file)
    assert torch.equal(load_eagle3_head(folder, family.parts).embed_tokens.weight, family.target.embed_tokens.weight)


BLOCK_REFUSALS = {
    "unknown config key": ({"shift_label": True}, "unknown key 'shift_label'"),
    "layer out of range": ({"dflash_config": {"mask_token_id": 263, "target_layer_ids": [1, 6]}}, "layers"),
    "no layers": ({"dflash_config": {"mask_token_id": 263, "target_layer_ids": []}}, "layers"),
    "real token as mask": (
        {"dflash_config": {"mask_token_id": 65, "target_layer_ids": [1, 3]}},
        "real token",
    ),
    "stop token as mask": (
        {"dflash_config": {"mask_token_id": 258, "target_layer_ids": [1, 3]}},
        "real token",
    ),
    "mask outside": ({"dflash_config": {"mask_token_id": 9999, "target_layer_ids": [1, 3]}}, "outside"),
    "no mask": ({"dflash_config": {"target_layer_ids": [1, 3]}}, "lacks 'mask_token_id'"),
    "unknown inner key": (
        {"dflash_config": {"mask_token_id": 263, "target_layer_ids": [1, 3], "causal": True}},
        "causal",
    ),
    "another width": ({"hidden_size": 64}, "64 wide"),
    "another depth": ({"num_target_layers": 36}, "36 layers"),
    "another shape": ({"intermediate_size": 64}, "shape"),
    "more layers": ({"num_hidden_layers": 3}, "lacks the tensor layers.2"),
    "fewer layers": ({"num_hidden_layers": 1}, "unknown tensor layers.1"),
    "scaled positions": ({"rope_scaling": {"rope_type": "yarn", "factor": 4}}, "plain RoPE"),
    "sliding layers": ({"layer_types": ["full_attention", "sliding_attention"]}, "full attention"),
    "sliding window": ({"use_sliding_window": True}, "full attention"),
    "no block size": ({"block_size": None}, "lacks 'block_size'"),
    "no inner config": ({"dflash_config": None}, "lacks 'mask_token_id'"),
    "a size that is text": ({"hidden_size": "32"}, "'32' for 'hidden_size'"),
    "a size that is no whole number": ({"block_size": 8.5}, "8.5 for 'block_size'"),
    "no heads": ({"num_attention_heads": 0}, "0 for 'num_attention_heads'"),
    "heads that do not divide": ({"num_key_value_heads": 3}, "3 for keys"),
    "a size beyond memory": ({"intermediate_size": 10**13}, "shape"),
    "an inner config that is none": ({"dflash_config": 5}, "5 for 'dflash_config'"),
    "layers that are text": ({"dflash_config": {"mask_token_id": 263, "target_layer_ids": ["1"]}}, "layers"),
    "mask that is text": ({"dflash_config": {"mask_token_id": "263", "target_layer_ids": [1, 3]}}, "outside"),
}


@pytest.mark.parametrize(("changes", "message"), BLOCK_REFUSALS.values(), ids=BLOCK_REFUSALS)
def test_a_wrong_block_head_is_refused(family, tmp_path, changes, message):
    folder = tiny.save_block_head(family.block_head, tmp_path, **changes)
    with pytest.raises(BadCheckpoint, match=message) as refused:
        load_block_head(folder, family.parts)
    assert "\n" not in str(refused.value)


EAGLE3_REFUSALS = {
    "unknown config key": ({"norm_output": True}, "unknown key 'norm_output'"),
    "layer out of range": ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 6]}}, "layers"),
    "two layers": ({"num_hidden_layers": 2}, "an EAGLE-3 head has one"),
    "another vocabulary": ({"vocab_size": 300}, "vocabulary of 300"),
    "another draft vocabulary": ({"draft_vocab_size": 64}, "shape"),
    "no draft vocabulary": ({"draft_vocab_size": None}, "lacks 'draft_vocab_size'"),
    "three-axis positions": (
        {"rope_scaling": {"rope_type": "default", "mrope_section": [4, 2, 2]}},
        "plain RoPE",
    ),
}


@pytest.mark.parametrize(("changes", "message"), EAGLE3_REFUSALS.values(), ids=EAGLE3_REFUSALS)
def test_a_wrong_eagle3_head_is_refused(family, tmp_path, changes, message):
    folder = tiny.save_eagle3_head(family.eagle3_head, tmp_path, **changes)
    with pytest.raises(BadCheckpoint, match=message):
        load_eagle3_head(folder, family.parts)


@pytest.mark.parametrize("name", ["d2t", "t2d", "fc.weight", "lm_head.weight"])
def test_a_missing_tensor_is_named(family, tmp_path, name):
    folder = tiny.save_eagle3_head(family.eagle3_head, tmp_path)
    file = folder / "model.safetensors"
    save_file({k: v for k, v in load_file(file).items() if k != name}, file)
    with pytest.raises(BadCheckpoint, match=f"lacks the tensor {name}"):
        load_eagle3_head(folder, family.parts)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("fc.weight", lambda t: (100 * t).to(torch.int8), "int8"),
        ("fc.weight", lambda t: t / 0, "not finite"),
        ("d2t", lambda t: t.float(), "float32"),
    ],
)
def test_weights_that_are_no_numbers_of_their_kind_are_refused(family, tmp_path, name, change, message):
    folder = tiny.save_eagle3_head(family.eagle3_head, tmp_path)
    file = folder / "model.safetensors"
    tensors = load_file(file)
    save_file({**tensors, name: change(tensors[name])}, file)
    with pytest.raises(BadCheckpoint, match=message):
        load_eagle3_head(folder, family.parts)


def test_a_head_in_shards_and_another_precision_is_read(family, tmp_path):
    folder = tiny.save_block_head(family.block_head, tmp_path)
    file = folder / "model.safetensors"
    tensors = [(k, v.bfloat16()) for k, v in load_file(file).items()]
    save_file(dict(tensors[:7]), folder / "model-00001-of-00002.safetensors")
    save_file(dict(tensors[7:]), folder / "model-00002-of-00002.safetensors")
    file.unlink()
    loaded = load_block_head(folder, family.parts).state_dict()
    assert all(torch.equal(loaded[k], v.float()) for k, v in tensors)


def test_a_list_of_ids_is_not_taken_for_offsets(family, tmp_path):
    folder = tiny.save_eagle3_head(family.eagle3_head, tmp_path)
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors["d2t"] = tensors["d2t"] + torch.arange(len(tensors["d2t"]))
    save_file(tensors, file)
    with pytest.raises(BadCheckpoint, match="offsets"):
        load_eagle3_head(folder, family.parts)


def test_files_that_are_not_there_or_damaged(family, tmp_path):
    with pytest.raises(BadCheckpoint, match=r"no config\.json"):
        load_block_head(tmp_path / "nowhere", family.parts)
    folder = tiny.save_block_head(family.block_head, tmp_path)
    (folder / "model.safetensors").write_bytes(b"not a tensor")
    with pytest.raises(BadCheckpoint, match="damaged"):
        load_block_head(folder, family.parts)
    (folder / "model.safetensors").unlink()
    with pytest.raises(BadCheckpoint, match=r"no \.safetensors"):
        load_block_head(folder, family.parts)
    for text, message in (("{", "not JSON"), ("[]", "not a JSON object")):
        (folder / "config.json").write_text(text)
        with pytest.raises(BadCheckpoint, match=message):
            load_block_head(folder, family.parts)
    with pytest.raises(BadCheckpoint, match="no such folder"):
        load_target(tmp_path / "nowhere")


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


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("model.safetensors", lambda data: data[: len(data) // 2], "cannot be loaded"),
        ("config.json", lambda data: b"[]", "cannot be loaded"),
        ("config.json", lambda data: data.replace(b'"qwen3_vl"', b'"qwen3"'), "type 'qwen3'"),
        ("config.json", lambda data: data.replace(b'"intermediate_size": 48', b'"intermediate_size": 64'), "be loaded"),
    ],
)
def test_a_damaged_target_is_refused(family, tmp_path, file, damage, message):
    for part in (family.parts.model, family.parts.tokenizer, family.parts.image_processor):
        part.save_pretrained(tmp_path)
    (tmp_path / file).write_bytes(damage((tmp_path / file).read_bytes()))
    with pytest.raises(BadCheckpoint, match=message) as refused:
        load_target(tmp_path)
    assert "\n" not in str(refused.value)
