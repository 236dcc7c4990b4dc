"""The speculators format, brought into the words of the z-lab and SpecForge formats.

It nests the layer's config under `transformer_layer_config`, leaving out what equals the defaults of that config's
class, and names captured states by index into `hidden_states`, whose first entry is the embedding: one higher than
the number of the layer that puts them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, Qwen3Config

from ..errors import BadCheckpoint

_LAYERS = {"llama": LlamaConfig, "qwen3": Qwen3Config}
# Bookkeeping, and settings of training.
_INERT = frozenset(
    """
    speculators_model_type speculators_config speculators_version transformer_layer_config has_no_defaults_at_init
    base_model_ep_plan embed_requires_grad enable_sp_ulysses lambda_base_start lambda_base_decay_ratio emb_dim
    gru_hidden_dim pure_draft_prefix_len auf max_anchors
    """.split()  # noqa: SIM905
)


def flatten(raw: Mapping[str, Any], kind: str, folder: Path) -> dict[str, Any]:
    """The config as z-lab (`kind` "dflash") or SpecForge ("eagle3") would write it; another format's as it is.

    Raises:
        BadCheckpoint: a head of another kind, or one whose layer is neither Llama's nor Qwen3's.
    """
    found = raw.get("speculators_model_type")
    if found is None:
        return dict(raw)
    if found != kind:
        raise BadCheckpoint(f"{folder} holds a head of the kind {found!r}; give it where such a head belongs.")
    layer = raw.get("transformer_layer_config")
    if not isinstance(layer, dict) or layer.get("model_type", "llama") not in _LAYERS:
        raise BadCheckpoint(
            f"The transformer_layer_config of {folder} is neither Llama's nor Qwen3's; use another head."
        )
    defaults = _LAYERS[layer.get("model_type", "llama")]().to_dict()
    rest = {key: value for key, value in raw.items() if key not in _INERT}
    ids = rest.pop("aux_hidden_state_layer_ids", None) or rest.pop("eagle_aux_hidden_state_layer_ids", None)
    if isinstance(ids, list) and all(type(i) is int for i in ids):
        ids = [i - 1 for i in ids]
    if kind == "dflash":
        inner = {"mask_token_id": rest.pop("mask_token_id", None), "target_layer_ids": ids}
        own = {"dflash_config": inner, "block_size": rest.get("block_size") or 8}
    else:
        own = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": ids}}
    return {**defaults, **layer, **rest, **own}


def own(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Without the copies of the target's weights that only training needs."""
    return {name: tensor for name, tensor in tensors.items() if not name.startswith("verifier_")}
