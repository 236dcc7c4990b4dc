"""Heads of every published format are read, and what does not fit is refused in one sentence."""

from __future__ import annotations

import json
import pickle
import re
import warnings

import huggingface_hub.errors
import pytest
import torch
from safetensors.torch import load_file, save_file

from glance import exporters
from glance.checkpoints import files, load_block_head, load_eagle3_head, load_target
from glance.errors import BadCheckpoint
from tests import tiny


@pytest.fixture(scope="module")
def one():
    """A family whose output head is not its embeddings."""
    return tiny.family(tied=False)


@pytest.fixture
def block(one, tmp_path):
    """The folder of a z-lab head."""
    return tiny.save_head(one.block_head, one.parts, tmp_path / "block")


@pytest.fixture
def eagle3(one, tmp_path):
    """The folder of a SpecForge head."""
    return tiny.save_head(one.eagle3_head, one.parts, tmp_path / "eagle3")


def test_other_spellings_of_a_block_head(one, block):
    inner = {"mask_token_id": 263, "target_layer_ids": [1, 3], "block_size": 8}
    tiny.edit_config(block, block_size=None, dflash_config=inner)
    file = block / "model.safetensors"
    save_file({f"model.{k}": v for k, v in load_file(file).items()}, file)
    assert load_block_head(block, one.parts).config == one.block_head.config
    tiny.edit_config(block, dflash_config=None, **inner)
    assert load_block_head(block, one.parts).config == one.block_head.config


def test_other_spellings_of_an_eagle3_head(one, eagle3):
    """The layer's other name, embeddings stored, positions' frequencies stored, SafeAILab's short config, a pickle."""
    file = eagle3 / "model.safetensors"
    tensors = {k.replace("midlayer.", "layers.0."): v for k, v in load_file(file).items()}
    tensors["embed_tokens.weight"] = one.target.embed_tokens.weight.clone()
    tensors["layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(8)
    torch.save(tensors, eagle3 / "pytorch_model.bin")
    file.unlink()
    tiny.edit_config(eagle3, rope_theta=None, rope_scaling=None, torch_dtype="float16")
    loaded = load_eagle3_head(eagle3, one.parts)
    assert loaded.config == one.eagle3_head.config
    for name, tensor in one.eagle3_head.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    assert loaded.embed_tokens.weight.data_ptr() == one.target.embed_tokens.weight.data_ptr(), "one copy in memory"


def test_the_embeddings_of_a_target_with_a_longer_table_are_cut(one, eagle3, monkeypatch):
    longer = torch.nn.Embedding.from_pretrained(torch.cat((one.target.embed_tokens.weight, torch.ones(8, 32))))
    monkeypatch.setattr(one.parts.model, "get_input_embeddings", lambda: longer)
    loaded = load_eagle3_head(eagle3, one.parts)
    assert torch.equal(loaded.embed_tokens.weight, one.target.embed_tokens.weight)


def test_a_mask_id_among_embeddings_that_have_no_logits_is_refused(one, block, monkeypatch):
    longer = torch.nn.Embedding(264 + 8, 32)  # as Llama-3.2-Vision's, with the image token behind the vocabulary
    monkeypatch.setattr(one.parts.model, "get_input_embeddings", lambda: longer)
    tiny.edit_config(block, dflash_config={**INNER, "mask_token_id": 264})
    with pytest.raises(BadCheckpoint, match=r"264 of the head .+ is outside the vocabulary of 264"):
        load_block_head(block, one.parts)


DO = re.compile("(use|give|add|correct|copy|save|must hold|connect|accept|check|choose) ")
INNER = {"mask_token_id": 263, "target_layer_ids": [1, 3]}
BLOCK_REFUSALS = {
    "shifted labels": ({"shift_label": True}, "'shift_label' to True, a variant"),
    "a causal block": ({"dflash_config": {**INNER, "causal": True}}, "'causal' to True, a variant"),
    "another projector": ({"dflash_config": {**INNER, "projector_type": "domino"}}, "'domino', a variant"),
    "biases": ({"attention_bias": True}, "'attention_bias' to True, a variant"),
    "another activation": ({"hidden_act": "gelu"}, "'gelu', a variant"),
    "layer out of range": ({"dflash_config": {"mask_token_id": 263, "target_layer_ids": [1, 6]}}, "layers"),
    "no layers": ({"dflash_config": {"mask_token_id": 263, "target_layer_ids": []}}, "layers"),
    "real token as mask": ({"dflash_config": {**INNER, "mask_token_id": 65}}, "real token"),
    "stop token as mask": ({"dflash_config": {**INNER, "mask_token_id": 258}}, "real token"),
    "mask outside": ({"dflash_config": {**INNER, "mask_token_id": 9999}}, "outside"),
    "no mask": ({"dflash_config": {"target_layer_ids": [1, 3]}}, "lacks 'mask_token_id'"),
    "another width": ({"hidden_size": 64}, "64 wide"),
    "another target's width": ({"target_hidden_size": 64}, "64 wide"),
    "another vocabulary": ({"vocab_size": 300}, "vocabulary of 300"),
    "another depth": ({"num_target_layers": 36}, "36 layers"),
    "another shape": ({"intermediate_size": 64}, "shape"),
    "more layers": ({"num_hidden_layers": 3}, "lacks the tensor layers.2"),
    "layers beyond memory": ({"num_hidden_layers": 10**7}, "lacks the tensor layers.2"),
    "fewer layers": ({"num_hidden_layers": 1}, "unknown tensor layers.1"),
    "scaled positions": ({"rope_scaling": {"rope_type": "yarn", "factor": 4}}, "yarn"),
    "sections that do not add up": ({"rope_scaling": {"type": "mrope", "mrope_section": [4, 2, 1]}}, "not 8 in all"),
    "sections that are none": ({"rope_scaling": {"type": "mrope", "mrope_section": ["4", 2, 2]}}, "sections"),
    "no sections": ({"rope_scaling": {"type": "mrope"}}, "mrope"),
    "sliding layers": ({"layer_types": ["full_attention", "sliding_attention"]}, "full attention"),
    "sliding window": ({"use_sliding_window": True}, "a variant"),
    "no block size": ({"block_size": None}, "lacks 'block_size'"),
    "no inner config": ({"dflash_config": None}, "lacks 'mask_token_id'"),
    "a size that is text": ({"hidden_size": "32"}, "'32' for 'hidden_size'"),
    "a size that is no whole number": ({"block_size": 8.5}, "8.5 for 'block_size'"),
    **{
        f"theta {str(theta)[:9]}": ({"rope_theta": None, "rope_parameters": {"rope_theta": theta}}, "for 'rope_theta'")
        for theta in ("abc", [1], float("nan"), float("inf"), 10**400, -1, True)
    },
    "an infinite epsilon": ({"rms_norm_eps": float("inf")}, "inf for 'rms_norm_eps'"),
    "a block of one": ({"block_size": 1}, "at least 2 slots"),
    "no heads": ({"num_attention_heads": 0}, "0 for 'num_attention_heads'"),
    "heads that do not divide": ({"num_key_value_heads": 3}, "3 for keys"),
    "a size beyond memory": ({"intermediate_size": 10**13}, "shape"),
    "an inner config that is none": ({"dflash_config": 5}, "5 for 'dflash_config'"),
    "layers that are text": ({"dflash_config": {"mask_token_id": 263, "target_layer_ids": ["1"]}}, "layers"),
    "mask that is text": ({"dflash_config": {**INNER, "mask_token_id": "263"}}, "outside"),
    "a vocabulary that is not there": ({"draft_vocab_size": 64}, "lacks the tensor d2t"),
    "another kind": ({"speculators_model_type": "eagle3"}, "of the kind 'eagle3'"),
    "an unknown layer": (
        {"speculators_model_type": "dflash", "transformer_layer_config": {"model_type": "x"}},
        "Qwen3",
    ),
}


def refusal(load, folder, family) -> str:
    """The sentence with which a head is refused."""
    with pytest.raises(BadCheckpoint) as refused:
        load(folder, family.parts)
    sentence = str(refused.value)
    assert sentence.endswith(".") and "\n" not in sentence
    assert DO.search(sentence), f"does not say what to do: {sentence}"
    return str(refused.value)


@pytest.mark.parametrize(("changes", "message"), BLOCK_REFUSALS.values(), ids=BLOCK_REFUSALS)
def test_a_wrong_block_head_is_refused(one, block, changes, message):
    assert_in(message, refusal(load_block_head, tiny.edit_config(block, **changes), one))


EAGLE3_REFUSALS = {
    "normed features": ({"norm_output": True}, "'norm_output' to True, a variant"),
    "normed before the fusion": ({"fc_norm": True}, "'fc_norm' to True, a variant"),
    "layer out of range": ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 6]}}, "layers"),
    "two layers": ({"num_hidden_layers": 2}, "2 layers; use an EAGLE-3 head"),
    "a sliding layer": ({"layer_types": ["sliding_attention"], "sliding_window": 16}, "full attention"),
    "another vocabulary": ({"vocab_size": 300}, "vocabulary of 300"),
    "another draft vocabulary": ({"draft_vocab_size": 64}, "shape"),
    "no draft vocabulary": ({"draft_vocab_size": None}, "lacks 'draft_vocab_size'"),
    "a flag that is none": ({"norm_before_residual": "yes"}, "'yes' for 'norm_before_residual'"),
}


@pytest.mark.parametrize(("changes", "message"), EAGLE3_REFUSALS.values(), ids=EAGLE3_REFUSALS)
def test_a_wrong_eagle3_head_is_refused(one, eagle3, changes, message):
    assert_in(message, refusal(load_eagle3_head, tiny.edit_config(eagle3, **changes), one))


def assert_in(part: str, sentence: str) -> None:
    assert part in sentence


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fc_weight": lambda t: (100 * t).to(torch.int8)}, "int8"),
        ({"fc_weight": lambda t: t.to(torch.float8_e4m3fn)}, "float8_e4m3fn; use a head that is not quantized"),
        ({"fc_weight": lambda t: t / 0}, "not finite"),
        ({"fc_weight": lambda t: None}, "lacks the tensor fc.weight"),
        ({"d2t": lambda t: t.float()}, "float32"),
        ({"t2d": lambda t: None}, "lacks the tensor t2d"),
        ({"t2d": lambda t: ~t}, "d2t and t2d disagree"),
        ({"d2t": lambda t: t.flip(0)}, "must hold offsets"),
    ],
)
def test_weights_that_cannot_be_are_refused(one, eagle3, changes, message):
    assert_in(message, refusal(load_eagle3_head, tiny.edit_tensors(eagle3, **changes), one))


def test_a_list_of_ids_is_recognised_and_said(one, eagle3):
    tiny.edit_tensors(eagle3, d2t=lambda t: t + torch.arange(len(t)))
    with pytest.warns(UserWarning, match="d2t lists target ids instead of offsets"):
        assert torch.equal(load_eagle3_head(eagle3, one.parts).d2t, one.eagle3_head.d2t)


def test_keys_that_nobody_knows_are_said_and_neutral_ones_are_not(one, block):
    known = {"causal": False, "use_swa": False, "projector_type": "dflash", "swa_window_size": None}
    tiny.edit_config(block, dflash_config={**INNER, **known}, shift_label=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_block_head(block, one.parts)
    tiny.edit_config(block, dflash_config={**INNER, "swa_window_size": 128})
    with pytest.warns(UserWarning, match="dflash_config of .* unknown key 'swa_window_size'"):
        load_block_head(block, one.parts)
    tiny.edit_config(block, dflash_config=INNER, twist=1)
    with pytest.warns(UserWarning, match=r"config\.json of .* unknown key 'twist'"):
        load_block_head(block, one.parts)


def test_speculators_counts_from_one_higher_and_leaves_defaults_out(one, tmp_path):
    folder = exporters.save_speculators(one.block_head, one.parts, tmp_path)
    config = json.loads((folder / "config.json").read_text())
    assert config["aux_hidden_state_layer_ids"] == [2, 4]
    layer = config["transformer_layer_config"]
    del layer["rms_norm_eps"], layer["rope_scaling"], layer["rope_theta"]  # Qwen3Config's own: 1e-6, plain, 1e4
    tiny.edit_config(folder, transformer_layer_config=layer, has_no_defaults_at_init=False, lambda_base_start=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_block_head(folder, one.parts).config == one.block_head.config
    for ids, message in (([0, 4], "layers [-1, 3]"), (4, "4 for 'target_layer_ids'"), (["2"], "layers ['2']")):
        tiny.edit_config(folder, aux_hidden_state_layer_ids=ids)
        assert_in(message, refusal(load_block_head, folder, one))
    tiny.edit_config(folder, aux_hidden_state_layer_ids=[2, 4], sample_from_anchor=True)
    assert_in("'sample_from_anchor' to True", refusal(load_block_head, folder, one))


def test_copies_of_the_targets_weights_are_not_held_twice(one, tmp_path):
    """Older speculators files bundle the target's embeddings, output head and last norm."""
    folder = exporters.save_speculators(one.block_head, one.parts, tmp_path)
    file = folder / "model.safetensors"
    bundle = {
        "embed_tokens.weight": one.target.embed_tokens.weight,
        "lm_head.weight": one.target.lm_head.weight,
        "verifier_lm_head.weight": one.target.lm_head.weight,
        "verifier_norm.weight": torch.ones(32),
    }
    save_file({**load_file(file), **{k: v.clone().contiguous() for k, v in bundle.items()}}, file)
    loaded = load_block_head(folder, one.parts)
    assert loaded.config == one.block_head.config
    assert set(loaded.state_dict()) == set(one.block_head.state_dict())


def test_a_head_in_shards_and_another_precision_is_read(one, block):
    file = block / "model.safetensors"
    tensors = [(k, v.bfloat16()) for k, v in load_file(file).items()]
    save_file(dict(tensors[:7]), block / "model-00001-of-00002.safetensors")
    save_file(dict(tensors[7:]), block / "model-00002-of-00002.safetensors")
    file.unlink()
    loaded = load_block_head(block, one.parts).state_dict()
    assert all(torch.equal(loaded[k], v.float()) for k, v in tensors)
    save_file(dict(tensors), file)
    assert_in("hold the same tensor; copy one head", refusal(load_block_head, block, one))


def test_a_tensor_under_two_names_is_refused(one, block):
    file = block / "model.safetensors"
    tensors = load_file(file)
    save_file({**tensors, "model.fc.weight": tensors["fc.weight"].clone()}, file)
    assert_in("with and without the prefix model.; copy one", refusal(load_block_head, block, one))


def test_a_pickle_that_would_run_code_is_refused_and_runs_nothing(one, eagle3, tmp_path):
    class Trap:
        def __reduce__(self):
            return (tmp_path.joinpath("sprung").touch, ())

    (eagle3 / "model.safetensors").unlink()
    for file in ("pytorch_model.bin", "pytorch_model-00001-of-00002.bin"):
        (eagle3 / file).write_bytes(pickle.dumps({"fc.weight": Trap()}, protocol=2))
        assert_in("save it as .safetensors", refusal(load_eagle3_head, eagle3, one))
        (eagle3 / file).unlink()
    torch.save([torch.ones(2)], eagle3 / "pytorch_model.bin")
    assert_in("save it as .safetensors", refusal(load_eagle3_head, eagle3, one))
    assert not (tmp_path / "sprung").exists()


def test_files_that_are_not_there_or_damaged(one, block, tmp_path):
    assert_in("no such folder", refusal(load_block_head, tmp_path / "nowhere", one))
    assert_in("no config.json", refusal(load_block_head, tmp_path, one))
    (block / "model.safetensors").write_bytes(b"not a tensor")
    assert_in("damaged", refusal(load_block_head, block, one))
    (block / "model.safetensors").unlink()
    assert_in("no .safetensors", refusal(load_block_head, block, one))
    for text, message in (("{", "not JSON"), ("[" * 3000 + "]" * 3000, "not JSON"), ("[]", "not a JSON object")):
        (block / "config.json").write_text(text)
        assert_in(message, refusal(load_block_head, block, one))
    with pytest.raises(BadCheckpoint, match="no such folder"):
        load_target(tmp_path / "nowhere")


def hub_error(kind):
    """An error of the hub, without the response that it would wrap."""
    return kind.__new__(kind)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (huggingface_hub.errors.LocalEntryNotFoundError("x"), "cannot be reached; connect once, or copy"),
        (huggingface_hub.errors.OfflineModeIsEnabled("x"), "cannot be reached; connect once, or copy"),
        (ConnectionError("x"), "cannot be reached; connect once, or copy"),
        (type("ProxyError", (Exception,), {})("x"), "cannot be reached; connect once, or copy"),  # of no known base
        (hub_error(huggingface_hub.errors.GatedRepoError), "accept its licence"),
        (hub_error(huggingface_hub.errors.RepositoryNotFoundError), "no public repository z-lab/head"),
    ],
)
def test_a_hub_that_does_not_give_it_is_said(one, monkeypatch, error, message):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(files, "snapshot_download", fail)
    assert_in(message, refusal(load_block_head, "z-lab/head", one))
    with pytest.raises(BadCheckpoint, match=message):
        load_target("z-lab/head")


def test_a_hub_repository_is_fetched_pickles_only_where_there_is_nothing_else(one, eagle3, monkeypatch):
    asked = []

    def fetch(name, allow_patterns, ignore_patterns=None):
        asked.append((name, "pytorch_model*.bin" in allow_patterns))
        return str(eagle3)

    monkeypatch.setattr(files, "snapshot_download", fetch)
    load_eagle3_head("AQ-MedAI/head", one.parts)
    assert asked == [("AQ-MedAI/head", False)]
    torch.save(load_file(eagle3 / "model.safetensors"), eagle3 / "pytorch_model.bin")
    (eagle3 / "model.safetensors").unlink()
    load_eagle3_head("AQ-MedAI/head", one.parts)
    assert asked[1:] == [("AQ-MedAI/head", False), ("AQ-MedAI/head", True)]
