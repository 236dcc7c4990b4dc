"""The target, as transformers saves it, with its tokenizer and its image processor."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from PIL import Image
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    AutoTokenizer,
    BaseImageProcessor,
    BitsAndBytesConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from ..errors import BadCheckpoint
from ..prompt import Prompt
from ..targets import adapter
from .files import local

QUANTIZE = ("none", "8bit", "4bit")
# What the image processor and the vision config both say, under their own names.
_BOTH_SAY = {
    "patch_size": "patch_size",
    "merge_size": "spatial_merge_size",
    "temporal_patch_size": "temporal_patch_size",
    "max_image_tiles": "max_num_tiles",
}


@dataclass(frozen=True)
class TargetParts:
    """A loaded target: model in eval mode, its tokenizer, and its PIL image processor."""

    model: PreTrainedModel
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
    def quantize(self) -> str:
        """How the linear layers are stored: one of `QUANTIZE`, or the method of a checkpoint that comes quantized."""
        config = getattr(self.model.config, "quantization_config", None)
        if config is None:
            return "none"
        if hasattr(config, "load_in_8bit"):  # bitsandbytes
            return "8bit" if config.load_in_8bit else "4bit"
        return str(getattr(config, "quant_method", "other"))

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


def load_target(
    folder: str | Path, dtype: torch.dtype = torch.float32, device: str = "cpu", quantize: str = "none"
) -> TargetParts:
    """Load a target of any family in `glance.targets` from a folder or a hub id.

    Args:
        dtype: of the weights; where they are quantized, of everything that is not, and of the arithmetic.
        device: where it goes; "auto" spreads it over all GPUs, layer by layer.
        quantize: one of `QUANTIZE`, by bitsandbytes: "8bit" (LLM.int8), or "4bit" (nf4, double quantization).

    Raises:
        BadCheckpoint: no such folder, an unknown family or quantization, files that are damaged or incomplete, or
            some that do not fit the others.
    """
    if quantize not in QUANTIZE:
        raise BadCheckpoint(f"There is no quantization {quantize!r}; choose among {', '.join(QUANTIZE)}.")
    path = local(folder)
    try:
        family = adapter(PreTrainedConfig.get_config_dict(path)[0]["model_type"])
        spread = device if device == "auto" else {"": device}
        how = {} if quantize == "none" else {"quantization_config": _bits(quantize, dtype, path, device)}
        how |= {"device_map": spread} if how or device == "auto" else {}
        model, report = AutoModelForImageTextToText.from_pretrained(
            path, dtype=dtype, attn_implementation="sdpa", output_loading_info=True, **how
        )
        tokenizer = AutoTokenizer.from_pretrained(path)
        parts = TargetParts(model.eval(), tokenizer, family.image_processor.from_pretrained(path))
        _check_side_files(parts)
    except BadCheckpoint:
        raise
    except Exception as error:  # a chat template or a damaged config raises anything
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".: ")
        raise BadCheckpoint(f"The target {folder} cannot be loaded: {reason}; copy it again whole.") from error
    if report["missing_keys"]:
        raise BadCheckpoint(f"The target {folder} lacks the tensor {min(report['missing_keys'])}; save it again whole.")
    if unused := sorted(filter(_computes, report["unexpected_keys"])):
        raise BadCheckpoint(
            f"The target {folder} has the tensor {unused[0]}, which its config does not use; copy its own config."
        )
    model.name_or_path = str(folder)  # a fetched copy has no telling name
    if not how:
        model.to(device)
    return parts


def _computes(name: str) -> bool:
    """Whether a tensor belongs to what the model computes with: a layer of the decoder or of the vision tower."""
    found = re.search(r"\b(layers|blocks|deepstack_merger_list)\.\d+\.", name)
    return bool(found) and not name.endswith("inv_freq") and not re.search(r"\bmtp\.", name)


def _check_side_files(parts: TargetParts) -> None:
    """Compare what two files both say, and make two tiny prompts: files that do not fit fail here, not at the first
    question.

    Raises:
        Exception: of any kind.
    """
    for name, theirs in _BOTH_SAY.items():
        said = [getattr(parts.image_processor, name, None), getattr(parts.model.config.vision_config, theirs, None)]
        if None not in said and said[0] != said[1]:
            raise ValueError(f"its image processor has the {name} {said[0]!r} and its vision config {said[1]!r}")
    if not all(type(i) is int for i in parts.eos_ids):
        raise ValueError("its generation config has an eos_token_id that is no number")
    for images in ([], [Image.new("RGB", (64, 64))]):
        parts.prompt(images, "?")


def _odd(path: Path, device: str) -> list[str]:
    """The linear layers that bitsandbytes 0.50 cannot hold in 4 bits on a CPU: none on a GPU.

    With AVX-512 it reads blocks of 64 values wrongly where they run on from row to row (Qwen3-VL's vision MLP has such
    rows), and with bfloat16 instructions it fails on those, and on a number of rows that 32 does not divide.
    """
    if device != "cpu":
        return []
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(path))
    linear = ((name, m) for name, m in model.named_modules() if isinstance(m, nn.Linear))
    return [name for name, m in linear if m.in_features % 64 or m.out_features % 32]


def _bits(quantize: str, dtype: torch.dtype, path: Path, device: str) -> BitsAndBytesConfig:
    """How bitsandbytes stores the linear layers; the output head stays as it is, and in 4 bits the odd ones.

    So does Llama's projector: its input has five axes, and the 8-bit product takes three.
    """
    if quantize == "8bit":
        logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)  # else a line for each product
        return BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=["lm_head", "multi_modal_projector"])
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
        llm_int8_skip_modules=["lm_head", *_odd(path, device)],
    )
