"""EAGLE-3 heads: the formats of SpecForge (and AQ-MedAI), of SafeAILab, and of speculators.

They differ in names only: the one layer is `midlayer.` or `layers.0.`, embeddings are stored or left to the target,
and speculators nests the config and counts captured layers from one higher.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..drafters.eagle3 import Eagle3Config, Eagle3Head, default_layer_ids
from ..errors import BadCheckpoint
from . import speculators
from .checks import (
    check_keys,
    check_layers,
    check_width,
    embeddings_of,
    fill,
    geometry,
    need,
    shared,
    with_vocabulary_map,
)
from .files import local, read_config, read_tensors
from .target import TargetParts

_ROPE_THETA = 10000.0  # what the class behind the format takes where the config names none, as SafeAILab's do


def load_eagle3_head(folder: str | Path, target: TargetParts) -> Eagle3Head:
    """Load an EAGLE-3 head for this target, from a folder or a hub id.

    Raises:
        BadCheckpoint: as `load_block_head`; also a draft vocabulary without its map, or a map that is no set of
            offsets.
    """
    path = local(folder)
    raw = speculators.flatten(read_config(path), "eagle3", path)
    tensors = speculators.own(read_tensors(path))
    tensors = {name.replace("layers.0.", "midlayer.", 1): tensor for name, tensor in tensors.items()}
    config = eagle3_config(raw, target, tensors, path)
    tensors = with_vocabulary_map(tensors, config.draft_vocab_size, config.vocab_size, path)
    tensors = {"embed_tokens.weight": embeddings_of(target), **tensors, **shared(tensors, target)}
    with torch.device("meta"):
        head = Eagle3Head(config)
    return fill(head, tensors, path, target)


def eagle3_config(
    raw: Mapping[str, Any], target: TargetParts, tensors: Mapping[str, torch.Tensor], folder: str | Path
) -> Eagle3Config:
    """The head's geometry, checked against the target's; `tensors` tells whether queries and keys are normed."""
    check_keys(raw, f"config.json of {folder}")
    inner = raw.get("eagle_config") or {}
    check_keys(inner, f"eagle_config of {folder}", nested=True)
    if (raw.get("num_hidden_layers") or 1) != 1:
        raise BadCheckpoint(
            f"The head {folder} has {raw['num_hidden_layers']} layers; use an EAGLE-3 head, which has one."
        )
    text = target.model.config.get_text_config()
    layers = inner.get("eagle_aux_hidden_state_layer_ids") or default_layer_ids(text.num_hidden_layers)
    config = Eagle3Config(
        **geometry(raw, folder, _ROPE_THETA),
        vocab_size=need(raw, "vocab_size", folder),
        draft_vocab_size=need(raw, "draft_vocab_size", folder),
        target_layer_ids=tuple(layers),
        qk_norm="midlayer.self_attn.q_norm.weight" in tensors,
        norm_before_residual=bool(raw.get("norm_before_residual")),
    )
    check_layers(config.target_layer_ids, text.num_hidden_layers, folder)
    check_width(raw, text, folder)
    return config
