"""What differs between the families of vision-language models. The engine and `glance.target.Target` are one for all.

A family says how a prompt is encoded, what a pass behind the prompt needs, and which layers keep the image's own keys
and values. That the decoder is `model.model.language_model` with `embed_tokens`, `layers` and `norm` holds for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import torch
from PIL import Image
from transformers import BaseImageProcessor, PreTrainedConfig
from transformers.models.mllama.image_processing_pil_mllama import MllamaImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from ..errors import BadCheckpoint
from ..prompt import Prompt
from . import mllama, qwen_vl


@dataclass(frozen=True)
class Adapter:
    """One family.

    Args:
        name: for people.
        image_processor: its image processor, the one on PIL.
        encode: (images, question, tokenizer, image processor, model config) -> prompt; raises `BadInput`.
        seen: (RGB image, image processor) -> the image as the model sees it, resized.
        first: prompt -> what prefill is called with beside ids and cache.
        later: (prompt, int64 positions [3, 1, rows]) -> what a pass behind the prompt is called with beside ids, mask
            and cache.
        fixed_layers: model config -> layers whose keys and values come from the image, are written at prefill and
            stay as they are.
    """

    name: str
    image_processor: type[BaseImageProcessor]
    encode: Callable[..., Prompt]
    seen: Callable[[Image.Image, BaseImageProcessor], Image.Image]
    first: Callable[[Prompt], dict[str, torch.Tensor]]
    later: Callable[[Prompt, torch.Tensor], dict[str, torch.Tensor]]
    fixed_layers: Callable[[PreTrainedConfig], frozenset[int]]


def _adapter(name: str, image_processor: type[BaseImageProcessor], family: ModuleType) -> Adapter:
    return Adapter(name, image_processor, family.encode, family.seen, family.first, family.later, family.fixed_layers)


ADAPTERS = {
    "qwen3_vl": _adapter("Qwen3-VL", Qwen2VLImageProcessorPil, qwen_vl),
    "qwen2_5_vl": _adapter("Qwen2.5-VL", Qwen2VLImageProcessorPil, qwen_vl),
    "mllama": _adapter("Llama-3.2-Vision", MllamaImageProcessorPil, mllama),
}


def adapter(model_type: str) -> Adapter:
    """The family of a config's `model_type`.

    Raises:
        BadCheckpoint: a family that has no adapter.
    """
    if model_type not in ADAPTERS:
        known = ", ".join(a.name for a in ADAPTERS.values())
        raise BadCheckpoint(f"A target of the type {model_type!r} is not supported; choose one of {known}.")
    return ADAPTERS[model_type]
