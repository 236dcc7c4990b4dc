"""Full-size heads of every published format, without storage: each tensor's name and shape, from published configs."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from glance.checkpoints import TargetParts, speculators
from glance.checkpoints.block import block_config
from glance.checkpoints.eagle3 import eagle3_config
from glance.drafters.block import BlockHead
from glance.drafters.eagle3 import Eagle3Head
from glance.drafters.layers import MRope
from glance.presets import PRESETS
from tests import tiny
from tests.published import SPECFORGE, TARGETS, VOCABULARY, dflash_table, eagle3_table, speculators_config, z_lab

FOLDER = Path("published")


@pytest.fixture(scope="module")
def target():
    """Full-size targets on the meta device, made once each; the tokenizer is a tiny one, without the id 151669."""
    made: dict[str, TargetParts] = {}

    def get(size: str) -> TargetParts:
        if size not in made:
            with torch.device("meta"):
                made[size] = TargetParts(TARGETS[size]().to(torch.bfloat16), tiny.tokenizer(), None)
        return made[size]

    return get


def assert_table(head: torch.nn.Module, table: dict[str, list[int]]) -> None:
    assert {name: list(t.shape) for name, t in head.state_dict().items()} == table


def on_meta(make, config):
    with torch.device("meta"):
        return make(config)


@pytest.fixture(autouse=True)
def no_key_is_unknown():
    """None of the published configs may cause a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@pytest.mark.parametrize(("size", "hidden", "intermediate"), [("8b", 4096, 12288), ("4b", 2560, 9728)])
def test_z_lab_dflash(target, size, hidden, intermediate):
    config = block_config(z_lab(hidden, intermediate), target(size), {}, FOLDER)
    head = on_meta(BlockHead, config)
    assert_table(head, dflash_table(hidden, intermediate))
    assert (config.block_size, config.mask_token_id, config.mrope) == (16, 151669, None)
    if size == "8b":
        count = sum(p.numel() for p in head.parameters())
        assert count == pytest.approx(1048.6e6, rel=1e-4), "the paper's 1.05 B"


def test_z_lab_dflash_with_the_block_size_inside_and_three_axes(target):
    """As the branch of SpecForge for Qwen3-VL writes it."""
    raw = z_lab(4096, 12288)
    inner = {"mask_token_id": 151669, "target_layer_ids": [3, 9, 17, 25, 33], "block_size": raw.pop("block_size")}
    raw |= {"dflash_config": inner, "model_type": "qwen3_vl_text", "rope_theta": 5000000}
    raw["rope_scaling"] = {"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"}
    config = block_config(raw, target("8b"), {}, FOLDER)
    assert_table(on_meta(BlockHead, config), dflash_table(4096, 12288))
    assert config.mrope == MRope((24, 20, 20), interleaved=True)
    assert (config.block_size, config.target_layer_ids) == (16, (3, 9, 17, 25, 33))


def test_speculators_dflash(target):
    skip = {"architectures", "auto_map", "block_size", "dflash_config", "num_target_layers"}
    layer = {k: v for k, v in z_lab(4096, 12288).items() if k not in skip}
    raw = speculators_config(
        "dflash",
        transformer_layer_config=layer,
        block_size=16,
        mask_token_id=151669,
        aux_hidden_state_layer_ids=[2, 10, 18, 26, 34],
        sliding_window_non_causal=False,
        sample_from_anchor=False,
        projector_type="dflash",
        shift_label=False,
        auf=False,
    )
    own = {name: torch.empty(0) for name in ("lm_head.weight", "embed_tokens.weight")}
    config = block_config(speculators.flatten(raw, "dflash", FOLDER), target("8b"), own, FOLDER)
    table = {
        **dflash_table(4096, 12288),
        "lm_head.weight": [32000, 4096],
        "embed_tokens.weight": [VOCABULARY, 4096],
        "t2d": [VOCABULARY],
    }
    assert_table(on_meta(BlockHead, config), table)
    assert config.target_layer_ids == (1, 9, 17, 25, 33)


def test_specforge_and_aq_medai_eagle3(target):
    config = eagle3_config(SPECFORGE, target("8b"), {}, FOLDER)
    head = on_meta(Eagle3Head, config)
    assert_table(head, eagle3_table(4096, 12288, 4096, 1024, VOCABULARY))
    assert config.target_layer_ids == (1, 17, 32)
    assert config.mrope == MRope((24, 20, 20), interleaved=True)
    entries = sum(t.numel() for name, t in head.state_dict().items() if name != "embed_tokens.weight")
    assert entries == 399_707_776, "the paper's 399.7 M"


def test_specforge_eagle3_for_qwen2_5_vl(target):
    raw = {
        **SPECFORGE,
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "max_position_embeddings": 128000,
        "max_window_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        "rope_theta": 1000000,
        "sliding_window": 32768,
        "target_model_type": "qwen2_5_vl",
        "torch_dtype": "bfloat16",
        "vocab_size": 152064,
    }
    config = eagle3_config(raw, target("qwen2.5"), {}, FOLDER)
    assert_table(on_meta(Eagle3Head, config), eagle3_table(3584, 18944, 3584, 512, 152064))
    assert config.mrope == MRope((16, 24, 24), interleaved=False)
    assert config.target_layer_ids == (1, 13, 24)


def test_safeailab_eagle3(target):
    """Its config names neither head dimension nor rotary base."""
    raw = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "bos_token_id": 128000,
        "draft_vocab_size": 32000,
        "eos_token_id": 128001,
        "hidden_act": "silu",
        "hidden_size": 4096,
        "initializer_range": 0.02,
        "intermediate_size": 14336,
        "max_position_embeddings": 2048,
        "model_type": "llama",
        "num_attention_heads": 32,
        "num_hidden_layers": 1,
        "num_key_value_heads": 8,
        "pad_token_id": 0,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "transformers_version": "4.28.1",
        "use_cache": True,
        "vocab_size": VOCABULARY,
    }
    config = eagle3_config(raw, target("8b"), {}, FOLDER)
    assert_table(on_meta(Eagle3Head, config), eagle3_table(4096, 14336, 4096, 1024, VOCABULARY))
    assert (config.head_dim, config.rope_theta, config.mrope) == (128, 10000.0, None)


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_speculators_eagle3(target, kind):
    layer = {
        "model_type": kind,
        "attention_bias": False,
        "head_dim": 128,
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_attention_heads": 32,
        "num_hidden_layers": 1,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-6,
        "rope_theta": 5000000,
        "rope_scaling": None,
        "vocab_size": VOCABULARY,
    }
    raw = speculators_config(
        "eagle3",
        transformer_layer_config=layer,
        eagle_aux_hidden_state_layer_ids=[2, 18, 33],
        embed_requires_grad=False,
        norm_before_fc=False,
        norm_before_residual=True,
    )
    normed = {f"midlayer.self_attn.{n}_norm.weight": [128] for n in "qk"} if kind == "qwen3" else {}
    config = eagle3_config(speculators.flatten(raw, "eagle3", FOLDER), target("4b"), normed, FOLDER)
    assert_table(on_meta(Eagle3Head, config), eagle3_table(2560, 9728, 4096, 1024, VOCABULARY) | normed)
    assert config.target_layer_ids == (1, 17, 32)
    assert config.norm_before_residual and config.qk_norm == bool(normed)


@pytest.mark.parametrize("name", ["qwen3-vl-2b", "qwen3-vl-4b", "qwen3-vl-8b", "qwen2.5-vl-7b"])
def test_the_memory_of_a_preset_is_its_weights_and_room_for_a_request(target, name):
    preset, parts = PRESETS[name], target({"qwen2.5-vl-7b": "qwen2.5"}.get(name, name[-2:]))
    text = parts.model.config.get_text_config()
    heads = []
    if preset.block_head:
        config = block_config(z_lab(text.hidden_size, text.intermediate_size), parts, {}, FOLDER)
        heads.append(on_meta(BlockHead, config))
    if preset.eagle3_head:
        same = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "vocab_size")
        raw = {**SPECFORGE, **{key: getattr(text, key) for key in same}}
        heads.append(on_meta(Eagle3Head, eagle3_config(raw, parts, {}, FOLDER)))
        del heads[-1].embed_tokens  # the target's own
    count = sum(p.numel() for module in (parts.model, *heads) for p in module.parameters())
    assert 1.5 <= preset.memory - 2 * count / 2**30 <= 3.0
