"""Llama-3.2-Vision: the image is no token prefix. Some layers attend to its tiles by cross-attention instead.

Their keys and values are written once, at prefill. Every later row has to say which tiles it may see: the same as the
prompt's last row. A prompt without an image leaves these layers out.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL import Image
from transformers import BaseImageProcessor, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.models.mllama.image_processing_pil_mllama import (
    get_image_size_fit_to_canvas,
    get_optimal_tiled_canvas,
)
from transformers.models.mllama.processing_mllama import (
    convert_sparse_cross_attention_mask_to_dense,
    get_cross_attention_token_mask,
)

from ..prompt import Prompt, chat_ids, check_image, finish


def encode(
    images: Sequence[Image.Image],
    question: str,
    tokenizer: PreTrainedTokenizerBase,
    image_processor: BaseImageProcessor,
    config: PreTrainedConfig,
) -> Prompt:
    """An image is one token, and up to four tiles that the rows behind it attend to. Raises `BadInput`."""
    images = [check_image(image) for image in images]
    ids = chat_ids(tokenizer, question, len(images), config.image_token_id)
    vision: dict[str, torch.Tensor] = {}
    counts: list[int] = []
    if images:
        inputs = image_processor(images=[images], return_tensors="pt")
        tiles = inputs.pop("num_tiles")
        spans = [get_cross_attention_token_mask(ids, config.image_token_id)]
        mask = convert_sparse_cross_attention_mask_to_dense(spans, tiles, image_processor.max_image_tiles, len(ids))
        vision = {**inputs, "cross_attention_mask": torch.from_numpy(mask)}
        eye = config.vision_config
        counts = [n * ((eye.image_size // eye.patch_size) ** 2 + 1) for n in tiles[0]]
    positions = torch.arange(len(ids)).expand(3, 1, -1)
    return finish(question, ids, positions, 0, vision, images, counts, config.text_config.max_position_embeddings)


def seen(image: Image.Image, image_processor: BaseImageProcessor) -> Image.Image:
    """The image at the size that is padded to whole tiles."""
    tile = image_processor.size["height"]
    canvas = get_optimal_tiled_canvas(image.height, image.width, image_processor.max_image_tiles, tile)
    height, width = get_image_size_fit_to_canvas(image.height, image.width, *canvas, tile)
    return image.resize((int(width), int(height)), Image.Resampling(int(image_processor.resample)))


def first(prompt: Prompt) -> dict[str, torch.Tensor]:
    """One position a row, the tiles, and which rows see which of them."""
    return {"position_ids": prompt.positions[0], **prompt.vision}


def later(prompt: Prompt, positions: torch.Tensor) -> dict[str, torch.Tensor]:
    """One position a row, and the tiles that the prompt's last row saw."""
    inputs = {"position_ids": positions[0]}
    if prompt.vision:
        last = prompt.vision["cross_attention_mask"][:, -1:]
        inputs["cross_attention_mask"] = last.expand(-1, positions.shape[-1], -1, -1)
    return inputs


def fixed_layers(config: PreTrainedConfig) -> frozenset[int]:
    """The cross-attention layers."""
    return frozenset(config.text_config.cross_attention_layers)
