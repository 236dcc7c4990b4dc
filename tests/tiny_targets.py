"""Tiny random Qwen2.5-VL and Llama-3.2-Vision: real classes and configs, no training."""

from __future__ import annotations

import torch
from transformers import (
    MllamaConfig,
    MllamaForConditionalGeneration,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)
from transformers.models.mllama.image_processing_pil_mllama import MllamaImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from glance.checkpoints import TargetParts
from tests import tiny

LLAMA_SPECIAL = (
    "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|finetune_right_pad_id|>",
    "<|mask|>", "<|image|>",
)  # fmt: skip
LLAMA_TEMPLATE = (
    "<|begin_of_text|>{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{% for c in m.content %}{% if c.type == 'image' %}<|image|>{% else %}{{ c.text }}{% endif %}{% endfor %}"
    "<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 6,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 2048,
}


def qwen2_5_vl(seed: int = 0) -> TargetParts:
    """Contiguous M-RoPE sections, windows of two by two visual tokens in two of three vision layers, no DeepStack."""
    words = tiny.tokenizer()
    ids = {name: words.convert_tokens_to_ids(name) for name in tiny.SPECIAL}
    torch.manual_seed(seed)
    config = Qwen2_5_VLConfig(
        text_config={
            **TEXT,
            "vocab_size": len(words),
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]},
        },
        vision_config={
            "depth": 3,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "patch_size": 14,
            "window_size": 56,
            "fullatt_block_indexes": [1],
            "out_hidden_size": 32,
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        attn_implementation="sdpa",
    )
    model = Qwen2_5_VLForConditionalGeneration(config).eval()
    _widen(model)
    with torch.no_grad():
        for name in ("<|image_pad|>", "<|video_pad|>"):
            model.lm_head.weight[ids[name]] = 0  # never generated, as in a trained model
    model.generation_config.eos_token_id = [ids["<|im_end|>"], ids["<|endoftext|>"]]
    processor = Qwen2VLImageProcessorPil(
        patch_size=14, merge_size=2, size={"shortest_edge": 28 * 28, "longest_edge": 112 * 112}
    )
    return TargetParts(model, words, processor)


def llama_vision(seed: int = 0) -> TargetParts:
    """Two cross-attention layers among six, tiles of 28 by 28 pixels, all gates open."""
    words = tiny.tokenizer(LLAMA_SPECIAL, LLAMA_TEMPLATE, "<|eot_id|>", "<|finetune_right_pad_id|>")
    words.bos_token = "<|begin_of_text|>"
    image = words.convert_tokens_to_ids("<|image|>")
    torch.manual_seed(seed)
    config = MllamaConfig(
        text_config={
            **TEXT,
            "vocab_size": image,  # the image token lies behind the vocabulary, among eight extra embeddings
            "cross_attention_layers": [1, 4],
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 5e5,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 512,
            },
            "bos_token_id": words.bos_token_id,
            "eos_token_id": words.eos_token_id,
            "pad_token_id": words.pad_token_id,
        },
        vision_config={
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_global_layers": 1,
            "attention_heads": 2,
            "intermediate_size": 24,
            "vision_output_dim": 48,
            "image_size": 28,
            "patch_size": 14,
            "intermediate_layers_indices": [0, 1],
        },
        image_token_index=image,
        attn_implementation="sdpa",
    )
    model = MllamaForConditionalGeneration(config).eval()
    _widen(model)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "gate" in name and weight.ndim == 1:
                weight.fill_(0.7)  # closed at first, and the image would change nothing
    model.generation_config.eos_token_id = [words.eos_token_id]
    processor = MllamaImageProcessorPil(size={"height": 28, "width": 28}, max_image_tiles=4)
    return TargetParts(model, words, processor)


def _widen(model: torch.nn.Module) -> None:
    """Weights so large that the greedy text is varied and its margins are wide."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.normal_(std=0.25)
