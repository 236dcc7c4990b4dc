"""Block heads: the z-lab DFlash format, and what speculators writes of the same head.

Captured layers are named by the decoder layer whose *output* is read, counted from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..drafters.block import BlockConfig, BlockHead
from ..errors import BadCheckpoint
from . import speculators
from .checks import (
    check_keys,
    check_layers,
    check_width,
    fill,
    geometry,
    need,
    shared,
    with_vocabulary_map,
)
from .files import local, read_config, read_tensors
from .target import TargetParts


def load_block_head(folder: str | Path, target: TargetParts) -> BlockHead:
    """Load a GLANCE block head for this target, from a folder or a hub id.

    Raises:
        BadCheckpoint: missing keys and tensors, variants and unknown tensors, wrong shapes, layer ids out of range,
            another hidden size than the target's, or a mask id that is a token of real text.
    """
    path = local(folder)
    raw = speculators.flatten(read_config(path), "dflash", path)
    tensors = speculators.own(read_tensors(path))
    for name in shared(tensors, target):
        del tensors[name]
    config = block_config(raw, target, tensors, path)
    if config.draft_vocab_size:
        tensors = with_vocabulary_map(tensors, config.draft_vocab_size, config.vocab_size, path)
        del tensors["d2t"]  # t2d says it all
    stored = {name.split(".")[1] for name in tensors if name.startswith("layers.")}
    if config.num_hidden_layers > len(stored):  # building what is not there could take for ever
        lacking = next(i for i in range(config.num_hidden_layers) if str(i) not in stored)
        raise BadCheckpoint(f"The head {path} lacks the tensor layers.{lacking}.*; copy it again whole.")
    with torch.device("meta"):
        head = BlockHead(config)
    return fill(head, tensors, path, target)


def block_config(
    raw: Mapping[str, Any], target: TargetParts, tensors: Mapping[str, torch.Tensor], folder: str | Path
) -> BlockConfig:
    """The head's geometry, checked against the target's; `tensors` tells what the head brings of its own."""
    check_keys(raw, f"config.json of {folder}")
    inner = raw.get("dflash_config") or {}
    check_keys(inner, f"dflash_config of {folder}", nested=True)
    inner = {**raw, **inner}  # older and newer files differ in what they nest
    text = target.model.config.get_text_config()
    drafted = raw.get("draft_vocab_size") or text.vocab_size
    own_head = "lm_head.weight" in tensors or drafted != text.vocab_size
    own_embeddings = "embed_tokens.weight" in tensors
    config = BlockConfig(
        **geometry(raw, folder),
        num_hidden_layers=need(raw, "num_hidden_layers", folder),
        block_size=need(inner, "block_size", folder),
        mask_token_id=need(inner, "mask_token_id", folder),
        target_layer_ids=tuple(need(inner, "target_layer_ids", folder)),
        vocab_size=text.vocab_size if own_head or own_embeddings else None,
        draft_vocab_size=drafted if own_head else None,
        own_embeddings=own_embeddings,
    )
    if config.block_size < 2:
        raise BadCheckpoint(f"The head {folder} has blocks of {config.block_size}; correct it to at least 2 slots.")
    check_layers(config.target_layer_ids, text.num_hidden_layers, folder)
    declared = raw.get("num_target_layers") or text.num_hidden_layers
    if declared != text.num_hidden_layers:
        raise BadCheckpoint(
            f"The head {folder} was made for a target of {declared} layers, this one has {text.num_hidden_layers}; "
            "use a fitting one."
        )
    check_width(raw, text, folder)
    _check_mask(config.mask_token_id, target, folder)
    return config


def _check_mask(mask_id: int, target: TargetParts, folder: str | Path) -> None:
    rows = target.model.config.get_text_config().vocab_size  # an embedding table may hold more rows, without logits
    if type(mask_id) is not int or not 0 <= mask_id < rows:
        raise BadCheckpoint(
            f"The mask id {mask_id} of the head {folder} is outside the vocabulary of {rows}; correct it."
        )
    token = target.tokenizer.convert_ids_to_tokens(mask_id) if mask_id < len(target.tokenizer) else None
    if token is not None and "mask" not in token.lower():
        raise BadCheckpoint(
            f"The mask id {mask_id} of the head {folder} is the real token {token!r} here; use a fitting one."
        )
