"""The embedded target: `Qwen3VLForConditionalGeneration`, deep and narrow, and the files that go with it.

Deep and narrow, because on a laptop a pass over a whole block must cost little more than a pass over one token.
"""

from pathlib import Path

import torch
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerBase,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from glance.exporters import SHARD
from glance.training import tokenizer as names
from glance.training.recipe import Shape


def build_image_processor(shape: Shape) -> Qwen2VLImageProcessorPil:
    """Resizes any picture to about 256 × 256 pixels, the size at which this model has learnt to read."""
    return Qwen2VLImageProcessorPil(
        size={"shortest_edge": shape.min_pixels, "longest_edge": shape.max_pixels},
        patch_size=shape.patch,
        temporal_patch_size=shape.temporal_patch,
        merge_size=shape.merge,
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )


def build_target(shape: Shape, tokenizer: PreTrainedTokenizerBase, seed: int) -> Qwen3VLForConditionalGeneration:
    """An untrained target in float32."""
    torch.manual_seed(seed)
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in names.SPECIAL}
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": shape.hidden,
            "intermediate_size": shape.mlp,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "max_position_embeddings": 4096,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": shape.rope_theta,
                "mrope_section": list(shape.mrope_section),
                "mrope_interleaved": True,
            },
            "tie_word_embeddings": True,
            "bos_token_id": ids[names.END_OF_TEXT],
            "eos_token_id": ids[names.END],
            "pad_token_id": ids[names.END_OF_TEXT],
        },
        vision_config={
            "depth": shape.vision_depth,
            "hidden_size": shape.vision_hidden,
            "intermediate_size": shape.vision_mlp,
            "num_heads": shape.vision_heads,
            "patch_size": shape.patch,
            "spatial_merge_size": shape.merge,
            "temporal_patch_size": shape.temporal_patch,
            "out_hidden_size": shape.hidden,
            "num_position_embeddings": shape.vision_positions,
            "deepstack_visual_indexes": list(shape.deepstack),
        },
        image_token_id=ids[names.IMAGE],
        video_token_id=ids[names.VIDEO],
        vision_start_token_id=ids[names.VISION_START],
        vision_end_token_id=ids[names.VISION_END],
        tie_word_embeddings=True,
    )
    model = Qwen3VLForConditionalGeneration(config)
    model.generation_config = GenerationConfig(
        do_sample=False,
        bos_token_id=ids[names.END_OF_TEXT],
        eos_token_id=[ids[names.END], ids[names.END_OF_TEXT]],
        pad_token_id=ids[names.END_OF_TEXT],
    )
    model.set_attn_implementation("sdpa")
    return model


def save_target(
    model: Qwen3VLForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    processor: Qwen2VLImageProcessorPil,
    out: Path,
) -> None:
    """Write the target in bfloat16 shards below 10 MB, with tokenizer and image processor."""
    shipped = Qwen3VLForConditionalGeneration(model.config)
    shipped.load_state_dict(model.state_dict())
    shipped.generation_config = model.generation_config
    shipped.to(torch.bfloat16).save_pretrained(out, max_shard_size=SHARD)
    tokenizer.save_pretrained(out)
    processor.save_pretrained(out)
