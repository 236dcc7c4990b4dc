"""A tiny random Qwen3-VL with its tokenizer, image processor and random draft heads: real classes, no training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from glance import exporters
from glance.checkpoints import TargetParts
from glance.drafters.block import BlockConfig, BlockHead
from glance.drafters.eagle3 import Eagle3Config, Eagle3Head
from glance.presets import Family

SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
    "<|video_pad|>", "<|mask|>",
)  # fmt: skip
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for c in m.content %}{% if c.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c.text }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer(
    special: tuple[str, ...] = SPECIAL, template: str = TEMPLATE, end: str = "<|im_end|>", pad: str = "<|endoftext|>"
) -> PreTrainedTokenizerFast:
    """A byte per token, and a family's special tokens behind them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(list(special))
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=end, pad_token=pad)
    made.chat_template = template
    return made


def parts(tied: bool = True, seed: int = 0, attention: str = "sdpa") -> TargetParts:
    """The target. Weights are scaled up so that the greedy text is varied and its margins are wide."""
    words = tokenizer()
    ids = {name: words.convert_tokens_to_ids(name) for name in SPECIAL}
    torch.manual_seed(seed)
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2], "mrope_interleaved": True}
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(words),
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 6,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "max_position_embeddings": 2048,
            "rope_parameters": rope,
            "tie_word_embeddings": tied,
        },
        vision_config={
            "depth": 3,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 32,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=tied,
        attn_implementation=attention,
    )
    model = Qwen3VLForConditionalGeneration(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.normal_(std=0.25)
        for name in ("<|image_pad|>", "<|video_pad|>"):
            model.lm_head.weight[ids[name]] = 0  # never generated, as in a trained model
    model.generation_config.eos_token_id = [ids["<|im_end|>"], ids["<|endoftext|>"]]
    processor = Qwen2VLImageProcessorPil(
        patch_size=16,
        merge_size=2,
        temporal_patch_size=2,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        size={"shortest_edge": 1024, "longest_edge": 128 * 128},
    )
    return TargetParts(model, words, processor)


def block_config(made: TargetParts) -> BlockConfig:
    """Two layers, blocks of eight, layer 1 (inside the DeepStack range) among the fused ones."""
    return BlockConfig(
        32, 48, 2, 4, 2, 16, 1e-6, 1e4, 2048, 8, made.tokenizer.convert_tokens_to_ids("<|mask|>"), (1, 3)
    )


def eagle3_config(made: TargetParts, draft_vocabulary: int = 128) -> Eagle3Config:
    """Half of the vocabulary can be drafted."""
    size = made.model.config.text_config.vocab_size
    return Eagle3Config(32, 48, 4, 2, 16, 1e-6, 1e4, 2048, size, draft_vocabulary, (1, 2, 4))


def family(tied: bool = True, seed: int = 0) -> Family:
    """The target with random heads: they are hardly ever right, and must never change an answer."""
    return with_heads(parts(tied, seed))


def with_heads(made: TargetParts) -> Family:
    """A target, and random heads of its width."""
    block, eagle3 = BlockHead(block_config(made)), Eagle3Head(eagle3_config(made))
    eagle3.embed_tokens.weight.data.copy_(made.model.get_input_embeddings().weight[: eagle3.config.vocab_size])
    kept = torch.arange(0, 2 * eagle3.config.draft_vocab_size, 2)
    eagle3.d2t.copy_(kept - torch.arange(len(kept)))
    eagle3.t2d[kept] = True
    for head in (block, eagle3):
        head.eval().requires_grad_(False)
    return Family("tiny", made, block, eagle3)


def picture(seed: int = 0, size: tuple[int, int] = (96, 64)) -> Image.Image:
    """Coloured noise."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def save_head(head: BlockHead | Eagle3Head, made: TargetParts, folder: Path, **changes: object) -> Path:
    """Write a head in the z-lab or SpecForge format, with some config keys changed; None takes a key away."""
    exporters.save_head(head, made, folder)
    return edit_config(folder, **changes)


def edit_config(folder: Path, **changes: object) -> Path:
    """Change some keys of a config; None takes a key away."""
    file = folder / "config.json"
    config = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return folder


def edit_tensors(folder: Path, **changes: Callable[[torch.Tensor], torch.Tensor | None]) -> Path:
    """Change some tensors of a head, named with "_" for "."; None takes one away."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    for name, change in changes.items():
        key = next(k for k in tensors if k.replace(".", "_") == name)
        tensors[key] = change(tensors[key])
    save_file({k: t.contiguous() for k, t in tensors.items() if t is not None}, file)
    return folder
