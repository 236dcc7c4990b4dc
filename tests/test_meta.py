"""Full-size heads of every published format, without storage: each tensor's name and shape, from the published config.

The tables restate what the formats' own files hold; the configs are those of the published heads.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)

from glance.checkpoints import TargetParts, speculators
from glance.checkpoints.block import block_config
from glance.checkpoints.eagle3 import eagle3_config
from glance.drafters.block import BlockHead
from glance.drafters.eagle3 import Eagle3Head
from glance.drafters.layers import MRope
from glance.presets import PRESETS
from tests import tiny

FOLDER = Path("published")
VOCABULARY = 151936


def qwen3_vl(hidden: int, intermediate: int, layers: int, heads: int, depth: int, vision: int, mlp: int, tied: bool):
    """A Qwen3-VL config of some size."""
    rope = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [24, 20, 20], "mrope_interleaved": True}
    return Qwen3VLConfig(
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": hidden,
            "intermediate_size": intermediate,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "max_position_embeddings": 262144,
            "rope_parameters": rope,
        },
        vision_config={
            "depth": depth,
            "hidden_size": vision,
            "intermediate_size": mlp,
            "out_hidden_size": hidden,
            "deepstack_visual_indexes": [8, 16, 24] if depth == 27 else [5, 11, 17],
        },
        tie_word_embeddings=tied,
    )


def qwen2_5_vl():
    """Qwen2.5-VL-7B."""
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}
    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": 152064,
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "max_position_embeddings": 128000,
            "rope_parameters": rope,
        },
        vision_config={"hidden_size": 1280, "intermediate_size": 3420, "out_hidden_size": 3584},
        tie_word_embeddings=False,
    )


TARGETS = {
    "2b": lambda: Qwen3VLForConditionalGeneration(qwen3_vl(2048, 6144, 28, 16, 24, 1024, 4096, tied=True)),
    "4b": lambda: Qwen3VLForConditionalGeneration(qwen3_vl(2560, 9728, 36, 32, 24, 1024, 4096, tied=True)),
    "8b": lambda: Qwen3VLForConditionalGeneration(qwen3_vl(4096, 12288, 36, 32, 27, 1152, 4304, tied=False)),
    "qwen2.5": lambda: Qwen2_5_VLForConditionalGeneration(qwen2_5_vl()),
}


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


def mlp(prefix: str, hidden: int, intermediate: int) -> dict[str, list[int]]:
    return {
        f"{prefix}.mlp.gate_proj.weight": [intermediate, hidden],
        f"{prefix}.mlp.up_proj.weight": [intermediate, hidden],
        f"{prefix}.mlp.down_proj.weight": [hidden, intermediate],
        f"{prefix}.input_layernorm.weight": [hidden],
        f"{prefix}.post_attention_layernorm.weight": [hidden],
    }


def attention(prefix: str, hidden: int, inputs: int, q: int, kv: int) -> dict[str, list[int]]:
    return {
        f"{prefix}.self_attn.q_proj.weight": [q, inputs],
        f"{prefix}.self_attn.k_proj.weight": [kv, inputs],
        f"{prefix}.self_attn.v_proj.weight": [kv, inputs],
        f"{prefix}.self_attn.o_proj.weight": [hidden, q],
    }


def dflash_table(hidden: int, intermediate: int) -> dict[str, list[int]]:
    """A DFlash head of five layers and five captured states; 32 heads and 8 key heads of 128."""
    table = {"fc.weight": [hidden, 5 * hidden], "hidden_norm.weight": [hidden], "norm.weight": [hidden]}
    for i in range(5):
        prefix = f"layers.{i}"
        table |= mlp(prefix, hidden, intermediate) | attention(prefix, hidden, hidden, 4096, 1024)
        table |= {f"{prefix}.self_attn.{n}_norm.weight": [128] for n in "qk"}
    return table


def eagle3_table(hidden: int, intermediate: int, q: int, kv: int, vocabulary: int) -> dict[str, list[int]]:
    """An EAGLE-3 head with 32000 draft tokens."""
    return {
        "embed_tokens.weight": [vocabulary, hidden],
        "fc.weight": [hidden, 3 * hidden],
        **attention("midlayer", hidden, 2 * hidden, q, kv),
        **mlp("midlayer", hidden, intermediate),
        "midlayer.hidden_norm.weight": [hidden],
        "norm.weight": [hidden],
        "lm_head.weight": [32000, hidden],
        "d2t": [32000],
        "t2d": [vocabulary],
    }


def assert_table(head: torch.nn.Module, table: dict[str, list[int]]) -> None:
    assert {name: list(t.shape) for name, t in head.state_dict().items()} == table


def on_meta(make, config):
    with torch.device("meta"):
        return make(config)


def z_lab(hidden: int, intermediate: int) -> dict[str, object]:
    """`config.json` of z-lab/Qwen3-8B-DFlash-b16 and of its 4B sibling."""
    return {
        "architectures": ["DFlashDraftModel"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
        "block_size": 16,
        "bos_token_id": 151643,
        "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
        "dtype": "bfloat16",
        "eos_token_id": 151645,
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.02,
        "intermediate_size": intermediate,
        "layer_types": ["full_attention"] * 5,
        "max_position_embeddings": 40960,
        "max_window_layers": 5,
        "model_type": "qwen3",
        "num_attention_heads": 32,
        "num_hidden_layers": 5,
        "num_key_value_heads": 8,
        "num_target_layers": 36,
        "rms_norm_eps": 1e-6,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "transformers_version": "4.57.1",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": VOCABULARY,
    }


SPECFORGE = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "draft_vocab_size": 32000,
    "dtype": "bfloat16",
    "eos_token_id": 151645,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "image_token_id": 151655,
    "initializer_range": 0.02,
    "intermediate_size": 12288,
    "max_position_embeddings": 262144,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 1,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-6,
    "rope_scaling": {"rope_type": "mrope", "mrope_section": [24, 20, 20], "mrope_interleaved": True},
    "rope_theta": 5000000,
    "target_model_type": "qwen3_vl",
    "tie_word_embeddings": False,
    "transformers_version": "4.57.1",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": VOCABULARY,
}


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


def speculators_config(kind: str, **own: object) -> dict[str, object]:
    """The outer config that speculators writes."""
    return {
        "architectures": ["DFlashDraftModel" if kind == "dflash" else "Eagle3Speculator"],
        "draft_vocab_size": 32000,
        "dtype": "bfloat16",
        "has_no_defaults_at_init": False,
        "speculators_config": {"algorithm": kind, "default_proposal_method": "greedy", "proposal_methods": []},
        "speculators_model_type": kind,
        "speculators_version": "0.4.0",
        "target_hidden_size": None,
        "transformers_version": "4.57.1",
        **own,
    }


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
