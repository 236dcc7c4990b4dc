"""Writing draft heads in the formats that others read: z-lab DFlash, SpecForge EAGLE-3, and speculators.

Weights that a head shares with its target are left out; whoever loads the head takes the target's own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import save_torch_state_dict

from .checkpoints import TargetParts
from .checkpoints.checks import embeddings_of
from .drafters.block import BlockHead
from .drafters.eagle3 import STEPS, Eagle3Head
from .errors import BadInput

SHARD = 8_000_000  # bytes of a file that is shipped: a Space takes files below 10 MB without LFS
_GEOMETRY = (
    "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps",
    "rope_theta", "max_position_embeddings",
)  # fmt: skip


def save_head(
    head: BlockHead | Eagle3Head, target: TargetParts, folder: Path, dtype: torch.dtype | None = None
) -> Path:
    """Write a block head in the z-lab format, an EAGLE-3 head in SpecForge's.

    Args:
        target: what the head drafts for.
        dtype: of the weights; None keeps them as they are.

    Raises:
        BadInput: a block head with embeddings or an output head of its own, which the z-lab format cannot hold.
    """
    c, text = head.config, target.model.config.get_text_config()
    tensors = _own_tensors(head, target)
    config = _shared(head, target, tensors, dtype)
    if isinstance(head, BlockHead):
        if c.vocab_size:
            raise BadInput("The z-lab format cannot hold this head's own vocabulary; write the speculators format.")
        config |= {
            "architectures": ["DFlashDraftModel"],
            "model_type": "qwen3",
            "num_hidden_layers": c.num_hidden_layers,
            "layer_types": ["full_attention"] * c.num_hidden_layers,
            "block_size": c.block_size,
            "num_target_layers": text.num_hidden_layers,
            "dflash_config": {"mask_token_id": c.mask_token_id, "target_layer_ids": list(c.target_layer_ids)},
        }
    else:
        config |= {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            "num_hidden_layers": 1,
            "draft_vocab_size": c.draft_vocab_size,
            "eagle_config": {
                "eagle_aux_hidden_state_layer_ids": list(c.target_layer_ids),
                "use_aux_hidden_state": True,
            },
        }
        if c.norm_before_residual:
            config["norm_before_residual"] = True
    return _write(folder, config, tensors, dtype)


def save_speculators(
    head: BlockHead | Eagle3Head, target: TargetParts, folder: Path, dtype: torch.dtype | None = None
) -> Path:
    """Write a head of either kind in the speculators format; the arguments are those of `save_head`.

    Captured layers are named by index into `hidden_states`, one higher than by the layer that puts them out.
    """
    c, is_block = head.config, isinstance(head, BlockHead)
    tensors = _own_tensors(head, target)
    layer = _shared(head, target, tensors, dtype)
    qwen3 = is_block or c.qk_norm
    layer |= {"model_type": "qwen3" if qwen3 else "llama", "num_hidden_layers": c.num_hidden_layers if is_block else 1}
    ids = [i + 1 for i in c.target_layer_ids]
    kind = "dflash" if is_block else "eagle3"
    drafted = c.block_size - 1 if is_block else STEPS
    config: dict[str, Any] = {
        "architectures": ["DFlashDraftModel" if is_block else "Eagle3DraftModel"],
        "speculators_model_type": kind,
        "draft_vocab_size": c.draft_vocab_size or layer["vocab_size"],
        "transformer_layer_config": layer,
        "speculators_config": {
            "algorithm": kind,
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": drafted}],
            "verifier": {
                "architectures": target.model.config.architectures or [type(target.model).__name__],
                "name_or_path": target.model.name_or_path or None,
            },
        },
    }
    if is_block:
        config |= {"block_size": c.block_size, "mask_token_id": c.mask_token_id, "aux_hidden_state_layer_ids": ids}
    else:
        config |= {"eagle_aux_hidden_state_layer_ids": ids, "norm_before_residual": c.norm_before_residual}
    tensors = {name.replace("midlayer.", "layers.0.", 1): tensor for name, tensor in tensors.items()}
    return _write(folder, config, tensors, dtype)


def _own_tensors(head: BlockHead | Eagle3Head, target: TargetParts) -> dict[str, torch.Tensor]:
    """What the head does not share with the target; a reduced vocabulary comes with both of its maps."""
    tensors, live = {name: tensor.cpu() for name, tensor in head.state_dict().items()}, embeddings_of(target).cpu()
    if "embed_tokens.weight" in tensors and torch.equal(tensors["embed_tokens.weight"].to(live), live):
        del tensors["embed_tokens.weight"]
    if "t2d" in tensors and "d2t" not in tensors:
        kept = tensors["t2d"].nonzero()[:, 0]
        tensors["d2t"] = kept - torch.arange(len(kept))
    return tensors


def _shared(
    head: BlockHead | Eagle3Head, target: TargetParts, tensors: dict[str, torch.Tensor], dtype: torch.dtype | None
) -> dict[str, Any]:
    """The config keys that all formats have."""
    c, text = head.config, target.model.config.get_text_config()
    rope = None
    if c.mrope:
        sections, interleaved = list(c.mrope.sections), c.mrope.interleaved
        rope = {"rope_type": "default", "mrope_section": sections, "mrope_interleaved": interleaved}
    return {
        **{name: getattr(c, name) for name in _GEOMETRY},
        "hidden_act": "silu",
        "rope_scaling": rope,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": False,
        "vocab_size": text.vocab_size,
        "bos_token_id": target.tokenizer.bos_token_id,
        "eos_token_id": target.tokenizer.eos_token_id,
        "dtype": str(dtype or tensors["fc.weight"].dtype).removeprefix("torch."),
    }


def _write(folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor], dtype: torch.dtype | None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    stored = {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}
    small = sum(t.nbytes for t in stored.values()) < 8 * SHARD
    save_torch_state_dict(stored, folder, max_shard_size=SHARD if small else "5GB", metadata={"format": "pt"})
    for file in folder.glob("*.safetensors"):
        file.chmod(0o644)  # an engine may run as another user
    return folder
