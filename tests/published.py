"""What is published, without its weights: configs of targets and heads, and tensor tables of the heads' own files."""

from __future__ import annotations

from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)

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
