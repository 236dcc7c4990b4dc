"""Loading models and draft heads from folders, and refusing what does not fit, in one sentence.

Formats: the target as transformers saves it; the block head in the z-lab DFlash format; EAGLE-3 in SpecForge's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from ..drafters.block import BlockConfig, BlockHead
from ..drafters.eagle3 import Eagle3Config, Eagle3Head
from ..drafters.eagle3 import default_layer_ids as eagle3_layer_ids
from ..errors import BadCheckpoint
from .target import TargetParts

# Config keys that say nothing about how the head computes, or that the checks below read.
_COMMON_KEYS = frozenset(
    """
    architectures auto_map model_type dtype torch_dtype transformers_version vocab_size bos_token_id eos_token_id
    pad_token_id tie_word_embeddings use_cache initializer_range max_window_layers sliding_window
    use_sliding_window layer_types attention_bias attention_dropout hidden_act hidden_size intermediate_size
    num_hidden_layers num_attention_heads num_key_value_heads head_dim rms_norm_eps rope_theta rope_scaling
    rope_parameters max_position_embeddings
    """.split()  # noqa: SIM905
)
_BLOCK_KEYS = _COMMON_KEYS | {"block_size", "num_target_layers", "dflash_config"}
_DFLASH_KEYS = {"mask_token_id", "target_layer_ids", "block_size"}
_EAGLE3_KEYS = _COMMON_KEYS | {
    "draft_vocab_size", "target_hidden_size", "target_model_type", "pretraining_tp", "mlp_bias", "eagle_config"
}  # fmt: skip
_EAGLE_KEYS = {"eagle_aux_hidden_state_layer_ids", "use_aux_hidden_state"}

# What the values that are read must be; null stands for "not given" everywhere.
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(
        """
        hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim
        max_position_embeddings vocab_size draft_vocab_size block_size num_target_layers
        """.split(),  # noqa: SIM905
        (int,),
    ),
    **dict.fromkeys(("rms_norm_eps", "rope_theta"), (int, float)),
    **dict.fromkeys(("dflash_config", "eagle_config", "rope_scaling", "rope_parameters"), (dict,)),
    **dict.fromkeys(("layer_types", "target_layer_ids", "eagle_aux_hidden_state_layer_ids"), (list,)),
}

Head = TypeVar("Head", bound=nn.Module)


def load_block_head(folder: str | Path, target: TargetParts) -> BlockHead:
    """Load a GLANCE block head (z-lab DFlash format) for this target.

    Raises:
        BadCheckpoint: missing or unknown keys and tensors, wrong shapes, layer ids out of range, another hidden size
            than the target's, or a mask id that is a token of real text.
    """
    raw = _config(folder, _BLOCK_KEYS)
    inner = raw.get("dflash_config") or {}
    _check_keys(inner, _DFLASH_KEYS, f"dflash_config of {folder}")
    block_size = raw.get("block_size", inner.get("block_size"))
    config = BlockConfig(
        **_geometry(raw, folder),
        num_hidden_layers=_need(raw, "num_hidden_layers", folder),
        block_size=block_size if block_size else _need(raw, "block_size", folder),
        mask_token_id=_need(inner, "mask_token_id", folder),
        target_layer_ids=tuple(_need(inner, "target_layer_ids", folder)),
    )
    if any(kind != "full_attention" for kind in raw.get("layer_types") or ()) or raw.get("use_sliding_window"):
        raise BadCheckpoint(f"The head {folder} mixes attention types; only full attention is supported.")
    if config.block_size < 2:
        raise BadCheckpoint(f"The head {folder} has blocks of {config.block_size}; at least 2 slots are needed.")
    text = target.model.config.text_config
    _check_layers(config.target_layer_ids, text.num_hidden_layers, folder)
    declared = raw.get("num_target_layers") or text.num_hidden_layers
    if declared != text.num_hidden_layers:
        raise BadCheckpoint(
            f"The head {folder} was made for a target of {declared} layers, and this one has {text.num_hidden_layers}."
        )
    _check_width(config.hidden_size, text.hidden_size, folder)
    _check_mask(config.mask_token_id, target, folder)
    with torch.device("meta"):
        head = BlockHead(config)
    return _fill(head, _tensors(folder), folder, target)


def load_eagle3_head(folder: str | Path, target: TargetParts) -> Eagle3Head:
    """Load an EAGLE-3 head (SpecForge format) for this target.

    Raises:
        BadCheckpoint: as `load_block_head`; also a draft vocabulary without its map, or a map that is no set of
            offsets.
    """
    raw = _config(folder, _EAGLE3_KEYS)
    inner = raw.get("eagle_config") or {}
    _check_keys(inner, _EAGLE_KEYS, f"eagle_config of {folder}")
    if raw.get("num_hidden_layers", 1) != 1:
        raise BadCheckpoint(f"The head {folder} has {raw['num_hidden_layers']} layers; an EAGLE-3 head has one.")
    text = target.model.config.text_config
    layers = inner.get("eagle_aux_hidden_state_layer_ids") or eagle3_layer_ids(text.num_hidden_layers)
    config = Eagle3Config(
        **_geometry(raw, folder),
        vocab_size=_need(raw, "vocab_size", folder),
        draft_vocab_size=_need(raw, "draft_vocab_size", folder),
        target_layer_ids=tuple(layers),
    )
    if config.vocab_size != text.vocab_size:
        raise BadCheckpoint(
            f"The head {folder} has a vocabulary of {config.vocab_size}, and the target one of {text.vocab_size}."
        )
    _check_layers(config.target_layer_ids, text.num_hidden_layers, folder)
    _check_width(config.hidden_size, text.hidden_size, folder)
    tensors = _tensors(folder)
    tensors = {name.replace("layers.0.", "midlayer.", 1): t for name, t in tensors.items()}
    tensors.setdefault("embed_tokens.weight", target.model.get_input_embeddings().weight.detach())
    with torch.device("meta"):
        head = Eagle3Head(config)
    head = _fill(head, tensors, folder, target)
    reached = torch.arange(config.draft_vocab_size, device=head.d2t.device) + head.d2t
    if not torch.equal(reached, head.t2d.nonzero()[:, 0]):
        raise BadCheckpoint(
            f"In the head {folder}, d2t and t2d disagree; d2t must hold offsets (target id - draft id)."
        )
    return head


# --- checks --------------------------------------------------------------------------------------------------


def _config(folder: str | Path, known: frozenset[str]) -> dict[str, Any]:
    try:
        raw = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    except OSError:
        raise BadCheckpoint(f"There is no config.json in {folder}; give the folder of a draft head.") from None
    except ValueError:
        raise BadCheckpoint(f"The config.json in {folder} is not JSON.") from None
    if not isinstance(raw, dict):
        raise BadCheckpoint(f"The config.json in {folder} is not a JSON object.")
    _check_keys(raw, known, f"config.json of {folder}")
    return raw


def _check_keys(raw: Mapping[str, Any], known: frozenset[str] | set[str], where: str) -> None:
    unknown = sorted(set(raw) - known)
    if unknown:
        raise BadCheckpoint(f"The {where} has the unknown key {unknown[0]!r}; such a head may compute otherwise.")
    for key, value in raw.items():
        kinds = _KINDS.get(key)
        if kinds and value is not None and (type(value) not in kinds or (int in kinds and not value > 0)):
            raise BadCheckpoint(f"The {where} has the value {value!r} for {key!r}, which cannot be.")


def _need(raw: Mapping[str, Any], key: str, folder: str | Path) -> Any:
    if raw.get(key) is None:
        raise BadCheckpoint(f"The config of the head {folder} lacks {key!r}.")
    return raw[key]


def _geometry(raw: Mapping[str, Any], folder: str | Path) -> dict[str, Any]:
    """The fields that both head formats share."""
    rope = raw.get("rope_parameters") or {}
    scaling = raw.get("rope_scaling") or {key: v for key, v in rope.items() if key != "rope_theta"}
    if scaling.get("rope_type", "default") != "default" or "mrope_section" in scaling:
        raise BadCheckpoint(f"The head {folder} scales its rotary positions; only plain RoPE is supported.")
    if raw.get("attention_bias") or raw.get("hidden_act", "silu") != "silu":
        raise BadCheckpoint(f"The head {folder} uses attention biases or another activation than SiLU.")
    heads = _need(raw, "num_attention_heads", folder)
    kv_heads = raw.get("num_key_value_heads") or heads
    hidden = _need(raw, "hidden_size", folder)
    head_dim = raw.get("head_dim") or hidden // heads
    if heads % kv_heads or head_dim % 2:
        raise BadCheckpoint(f"The head {folder} has {heads} heads of {head_dim}, {kv_heads} for keys; that cannot be.")
    return {
        "hidden_size": hidden,
        "intermediate_size": _need(raw, "intermediate_size", folder),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "rms_norm_eps": raw.get("rms_norm_eps") or 1e-6,
        "rope_theta": float(raw.get("rope_theta") or _need(rope, "rope_theta", folder)),
        "max_position_embeddings": _need(raw, "max_position_embeddings", folder),
    }


def _check_layers(ids: tuple[int, ...], depth: int, folder: str | Path) -> None:
    if not ids or any(type(i) is not int or not 0 <= i < depth for i in ids):
        raise BadCheckpoint(f"The head {folder} reads the layers {list(ids)} of a target with {depth} layers.")


def _check_width(hidden: int, target_hidden: int, folder: str | Path) -> None:
    if hidden != target_hidden:
        raise BadCheckpoint(f"The head {folder} is {hidden} wide and the target {target_hidden}; they do not fit.")


def _check_mask(mask_id: int, target: TargetParts, folder: str | Path) -> None:
    rows = target.model.get_input_embeddings().num_embeddings
    if type(mask_id) is not int or not 0 <= mask_id < rows:
        raise BadCheckpoint(f"The mask id {mask_id} of the head {folder} is outside the vocabulary of {rows}.")
    token = target.tokenizer.convert_ids_to_tokens(mask_id) if mask_id < len(target.tokenizer) else None
    if token is not None and "mask" not in token.lower():
        raise BadCheckpoint(f"The mask id {mask_id} of the head {folder} is the real token {token!r} of the target.")


def _tensors(folder: str | Path) -> dict[str, torch.Tensor]:
    files = sorted(Path(folder).glob("*.safetensors"))
    if not files:
        raise BadCheckpoint(f"There is no .safetensors file in {folder}.")
    tensors: dict[str, torch.Tensor] = {}
    for file in files:
        try:
            tensors.update(load_file(file))
        except (OSError, SafetensorError):
            raise BadCheckpoint(f"The file {file} is damaged; copy it again.") from None
    return {name.removeprefix("model."): t for name, t in tensors.items()}


def _fill(head: Head, tensors: Mapping[str, torch.Tensor], folder: str | Path, target: TargetParts) -> Head:
    """Put the tensors in place, in the target's dtype and on its device. `head` comes without storage, on "meta"."""
    wanted = head.state_dict()
    for name, empty in wanted.items():
        if name not in tensors:
            raise BadCheckpoint(f"The head {folder} lacks the tensor {name}.")
        tensor = tensors[name]
        if tensor.shape != empty.shape:
            have, want = list(tensor.shape), list(empty.shape)
            raise BadCheckpoint(f"The tensor {name} of the head {folder} has the shape {have}; its config says {want}.")
        if tensor.is_floating_point() != empty.is_floating_point():
            raise BadCheckpoint(
                f"The tensor {name} of the head {folder} is {tensor.dtype}; quantized heads do not fit."
            )
        if not tensor.isfinite().all():
            raise BadCheckpoint(f"The tensor {name} of the head {folder} holds numbers that are not finite.")
    unknown = sorted(set(tensors) - set(wanted))
    if unknown:
        raise BadCheckpoint(f"The head {folder} has the unknown tensor {unknown[0]}.")
    weight = target.model.get_input_embeddings().weight
    head = head.to(weight.dtype).to_empty(device=weight.device)
    head.load_state_dict(dict(tensors))
    return head.eval().requires_grad_(False)
