"""Qwen3-VL and Qwen2.5-VL: visual tokens stand in the prompt, and positions have three axes (M-RoPE).

The two lay the axes out differently over the rotary frequencies (interleaved; contiguous sections) and differ in the
vision tower (DeepStack; window attention). All of that happens inside the model, from the same positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL import Image
from transformers import BaseImageProcessor, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from ..prompt import Prompt, chat_ids, check_image, finish


def rope_positions(is_image: Sequence[bool], grids: Sequence[Sequence[int]], merge: int) -> tuple[torch.Tensor, int]:
    """M-RoPE positions of a prompt, and the delta for what follows it.

    Text advances all three axes by one. An image keeps one temporal position, spans its merged rows and columns on
    the other two, and the text behind it resumes at its start plus its longer side (Qwen2-VL, §2.1).

    Args:
        is_image: for each prompt token, whether it is a visual token.
        grids: (t, h, w) of each image in patches.
        merge: patches merged into one visual token along each side.

    Returns:
        int64 [3, 1, S], and `max position + 1 - S`.
    """
    columns: list[torch.Tensor] = []
    start = index = 0
    grids = list(grids)
    while index < len(is_image):
        if is_image[index]:
            t, h, w = (int(n) for n in grids.pop(0))
            h, w = h // merge, w // merge
            block = torch.stack(torch.meshgrid(torch.arange(t), torch.arange(h), torch.arange(w), indexing="ij"))
            columns.append(block.reshape(3, -1) + start)
            index += t * h * w
            start += max(h, w)
        else:
            columns.append(torch.full((3, 1), start))
            index += 1
            start += 1
    positions = torch.cat(columns, dim=1).long()
    return positions[:, None], int(positions.max()) + 1 - len(is_image)


def encode(
    images: Sequence[Image.Image],
    question: str,
    tokenizer: PreTrainedTokenizerBase,
    image_processor: BaseImageProcessor,
    config: PreTrainedConfig,
) -> Prompt:
    """Each image placeholder is expanded to one a visual token. Raises `BadInput`."""
    images = [check_image(image) for image in images]
    token = config.image_token_id
    ids: list[int] = []
    vision: dict[str, torch.Tensor] = {}
    grids: list[list[int]] = []
    counts: list[int] = []
    merge = image_processor.merge_size
    if images:
        vision = dict(image_processor(images=images, return_tensors="pt"))
        grids = vision["image_grid_thw"].tolist()
        counts = [t * h * w // merge**2 for t, h, w in grids]
    remaining = iter(counts)
    for i in chat_ids(tokenizer, question, len(images), token):
        ids += [i] * next(remaining) if i == token else [i]
    positions, delta = rope_positions([i == token for i in ids], grids, merge)
    return finish(question, ids, positions, delta, vision, images, counts, config.text_config.max_position_embeddings)


def seen(image: Image.Image, image_processor: BaseImageProcessor) -> Image.Image:
    """The image at the size that is cut into patches."""
    cell, limits = image_processor.patch_size * image_processor.merge_size, image_processor.size
    height, width = smart_resize(image.height, image.width, cell, limits["shortest_edge"], limits["longest_edge"])
    return image.resize((width, height), Image.Resampling(int(image_processor.resample)))


def first(prompt: Prompt) -> dict[str, torch.Tensor]:
    """The three axes, and the patches of the images with their grids."""
    return {"position_ids": prompt.positions, **prompt.vision}


def later(prompt: Prompt, positions: torch.Tensor) -> dict[str, torch.Tensor]:
    """The three axes; there are no visual tokens behind the prompt."""
    return {"position_ids": positions}


def fixed_layers(config: PreTrainedConfig) -> frozenset[int]:
    """None: the image is part of the token sequence."""
    return frozenset()
