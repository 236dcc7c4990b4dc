"""A tiny random Qwen3-VL with its tokenizer, image processor and random draft heads: real classes, no training."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

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


def tokenizer() -> PreTrainedTokenizerFast:
    """A byte per token, and Qwen's special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(list(SPECIAL))
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    made.chat_template = TEMPLATE
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
    made = parts(tied, seed)
    block, eagle3 = BlockHead(block_config(made)), Eagle3Head(eagle3_config(made))
    eagle3.embed_tokens.weight.data.copy_(made.model.get_input_embeddings().weight)
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


def save_block_head(head: BlockHead, folder: Path, **changes: object) -> Path:
    """Write a head in the z-lab format, with some config keys changed."""
    c = head.config
    config = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "block_size": c.block_size,
        "dflash_config": {"mask_token_id": c.mask_token_id, "target_layer_ids": list(c.target_layer_ids)},
        "num_hidden_layers": c.num_hidden_layers,
        **_shared(c),
        **changes,
    }
    return _save(folder, config, head.state_dict())


def save_eagle3_head(head: Eagle3Head, folder: Path, **changes: object) -> Path:
    """Write a head in the SpecForge format, with some config keys changed."""
    c = head.config
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "vocab_size": c.vocab_size,
        "draft_vocab_size": c.draft_vocab_size,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(c.target_layer_ids)},
        **_shared(c),
        **changes,
    }
    return _save(folder, config, head.state_dict())


def _shared(c: BlockConfig | Eagle3Config) -> dict[str, object]:
    names = (
        "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps",
        "rope_theta", "max_position_embeddings",
    )  # fmt: skip
    return {name: getattr(c, name) for name in names}


def _save(folder: Path, config: dict[str, object], tensors: dict[str, torch.Tensor]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, folder / "model.safetensors")
    return folder
