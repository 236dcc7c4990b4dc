"""The target, as transformers saves it, with its tokenizer and its image processor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from PIL import Image
from safetensors import SafetensorError
from transformers import (
    AutoTokenizer,
    BaseImageProcessor,
    PreTrainedTokenizerBase,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from ..errors import BadCheckpoint
from ..prompt import Prompt
from ..targets import adapter


@dataclass(frozen=True)
class TargetParts:
    """A loaded target: model in eval mode, its tokenizer, and its PIL image processor."""

    model: Qwen3VLForConditionalGeneration
    tokenizer: PreTrainedTokenizerBase
    image_processor: BaseImageProcessor

    @cached_property
    def eos_ids(self) -> frozenset[int]:
        """Every end-of-text id of the generation config. Nothing else of it is used: greedy means greedy.

        Without such a config, the tokenizer's one, lest no answer ever end.
        """
        ids = self.model.generation_config.eos_token_id
        if ids is None:
            ids = self.tokenizer.eos_token_id
        return frozenset([ids] if isinstance(ids, int) else ids or ())

    @property
    def max_positions(self) -> int:
        """Tokens that the target can hold, prompt and answer."""
        return self.model.config.text_config.max_position_embeddings

    def prompt(self, images: Sequence[Image.Image], question: str) -> Prompt:
        """A prompt about these images, or none.

        Raises:
            BadInput: a question or an image that cannot be used, or a prompt that is too long.
        """
        config = self.model.config
        return adapter(config.model_type).encode(images, question, self.tokenizer, self.image_processor, config)


def load_target(folder: str | Path, dtype: torch.dtype = torch.float32, device: str = "cpu") -> TargetParts:
    """Load a Qwen3-VL target from a folder or a hub id.

    Raises:
        BadCheckpoint: no such folder, not a Qwen3-VL, or damaged or incomplete files.
    """
    try:
        if Path(folder).is_absolute() and not Path(folder).is_dir():
            raise FileNotFoundError("there is no such folder")
        kind = Qwen3VLConfig.get_config_dict(folder)[0]["model_type"]
        if kind != Qwen3VLConfig.model_type:
            raise BadCheckpoint(f"The target {folder} is of the type {kind!r}; only Qwen3-VL is supported.")
        model, report = Qwen3VLForConditionalGeneration.from_pretrained(
            folder, dtype=dtype, attn_implementation="sdpa", output_loading_info=True
        )
        tokenizer = AutoTokenizer.from_pretrained(folder)
        image_processor = Qwen2VLImageProcessorPil.from_pretrained(folder)
    except BadCheckpoint:
        raise
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise BadCheckpoint(f"The target {folder} cannot be loaded: {reason}.") from error
    if report["missing_keys"]:
        raise BadCheckpoint(f"The target {folder} lacks the tensor {min(report['missing_keys'])}; save it again whole.")
    return TargetParts(model.to(device).eval(), tokenizer, image_processor)
