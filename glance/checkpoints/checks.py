"""What every format of a draft head is checked for: its keys, its geometry, its fit to the target, its weights."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from transformers import LlamaConfig, Qwen3Config

from ..drafters.layers import MRope
from ..errors import BadCheckpoint
from .target import TargetParts

Head = TypeVar("Head", bound=nn.Module)

# Keys that the loaders read, or that say nothing about how a head computes: at the top, and in the nested config.
_TOP = frozenset(
    {*LlamaConfig().to_dict(), *Qwen3Config().to_dict()}
    | set(
        """
        auto_map torch_dtype rope_theta rope_scaling block_size num_target_layers dflash_config eagle_config
        mask_token_id target_layer_ids draft_vocab_size target_hidden_size target_model_type norm_before_residual
        sliding_window_non_causal image_token_id video_token_id vision_start_token_id vision_end_token_id
        """.split()  # noqa: SIM905
    )
)
_NESTED = {"mask_token_id", "mask_token", "target_layer_ids", "block_size", "eagle_aux_hidden_state_layer_ids"}
# Keys of variants, with the one value under which a head computes as it does here. Null is as good.
_PLAIN: dict[str, Any] = {
    "attention_bias": False,
    "mlp_bias": False,
    "hidden_act": "silu",
    "use_sliding_window": False,
    "causal": False,
    "is_causal": False,
    "use_swa": False,
    "shift_label": False,
    "sample_from_anchor": False,
    "projector_type": "dflash",
    "input_embedding_scale": 1,
    "output_multiplier": 1,
    "final_logit_softcapping": 0,
    "use_aux_hidden_state": True,
    "fc_norm": False,
    "norm_before_fc": False,
    "norm_output": False,
}
# What the values that are read must be; null stands for "not given" everywhere.
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(
        """
        hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim
        max_position_embeddings vocab_size draft_vocab_size block_size num_target_layers target_hidden_size
        """.split(),  # noqa: SIM905
        (int,),
    ),
    **dict.fromkeys(("rms_norm_eps", "rope_theta"), (int, float)),
    **dict.fromkeys(("dflash_config", "eagle_config", "rope_scaling", "rope_parameters"), (dict,)),
    **dict.fromkeys(("layer_types", "target_layer_ids", "eagle_aux_hidden_state_layer_ids"), (list,)),
    "norm_before_residual": (bool,),
}


def check_keys(raw: Mapping[str, Any], where: str, nested: bool = False) -> None:
    """Refuse variants and values of a wrong kind; warn of keys that nobody here knows.

    Args:
        nested: the keys stand in `dflash_config` or `eagle_config`, not at the top.

    Raises:
        BadCheckpoint: one sentence about the first such key.
    """
    for key, value in raw.items():
        kinds = _KINDS.get(key)
        if value is None:
            continue
        if key in _PLAIN and value != _PLAIN[key]:
            raise BadCheckpoint(f"The {where} sets {key!r} to {value!r}, a variant not supported; use another head.")
        if kinds and (type(value) not in kinds or (int in kinds and not 0 < value < 2**63)):
            raise BadCheckpoint(f"The {where} has the value {value!r} for {key!r}, which cannot be; correct it.")
        if key not in (_NESTED if nested else _TOP) and key not in _PLAIN:
            warnings.warn(f"The {where} has the unknown key {key!r}: the head may compute otherwise.", stacklevel=4)


def need(raw: Mapping[str, Any], key: str, folder: str | Path) -> Any:
    """The value of a key.

    Raises:
        BadCheckpoint: missing or null.
    """
    if raw.get(key) is None:
        raise BadCheckpoint(f"The config of the head {folder} lacks {key!r}; add it.")
    return raw[key]


def geometry(raw: Mapping[str, Any], folder: str | Path, rope_theta: float | None = None) -> dict[str, Any]:
    """The fields that both kinds of head share; `rope_theta` stands in where the config names none."""
    rope = raw.get("rope_parameters") or {}
    check_keys({"rope_theta": rope.get("rope_theta")}, f"rope_parameters of {folder}")
    theta = raw.get("rope_theta") or rope.get("rope_theta") or rope_theta
    heads = need(raw, "num_attention_heads", folder)
    if any(kind != "full_attention" for kind in raw.get("layer_types") or ()):
        raise BadCheckpoint(f"The head {folder} has another kind of attention; use one with full attention.")
    kv_heads = raw.get("num_key_value_heads") or heads
    hidden = need(raw, "hidden_size", folder)
    head_dim = raw.get("head_dim") or hidden // heads
    if heads % kv_heads or head_dim % 2:
        raise BadCheckpoint(
            f"The head {folder} has {heads} heads of {head_dim}, {kv_heads} for keys; correct its config."
        )
    return {
        "hidden_size": hidden,
        "intermediate_size": need(raw, "intermediate_size", folder),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "rms_norm_eps": raw.get("rms_norm_eps") or 1e-6,
        "rope_theta": float(theta or need(raw, "rope_theta", folder)),
        "max_position_embeddings": need(raw, "max_position_embeddings", folder),
        "mrope": _mrope(raw.get("rope_scaling") or rope, head_dim, folder),
    }


def _mrope(scaling: Mapping[str, Any], head_dim: int, folder: str | Path) -> MRope | None:
    """The three axes' sections, or None for plain positions. Older files say `type` for `rope_type`."""
    kind, sections = scaling.get("rope_type") or scaling.get("type") or "default", scaling.get("mrope_section")
    if kind not in ("default", "mrope") or (kind == "mrope" and not sections):
        raise BadCheckpoint(
            f"The head {folder} scales its rotary positions ({kind}); use one with plain or M-RoPE ones."
        )
    if sections is None:
        return None
    try:
        mrope = MRope(tuple(sections), bool(scaling.get("mrope_interleaved")))
        fits = len(mrope.axes()) == head_dim // 2
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise BadCheckpoint(
            f"The head {folder} has M-RoPE sections {sections}, not {head_dim // 2} in all; correct its config."
        )
    return mrope


def check_layers(ids: tuple[int, ...], depth: int, folder: str | Path) -> None:
    """Refuse target layers that are none."""
    if not ids or any(type(i) is not int or not 0 <= i < depth for i in ids):
        raise BadCheckpoint(
            f"The head {folder} reads the layers {list(ids)} of {depth}; use a head made for this target."
        )


def check_width(raw: Mapping[str, Any], text: Any, folder: str | Path) -> None:
    """Refuse a head of another width or another vocabulary than the target's."""
    for size in (raw["hidden_size"], raw.get("target_hidden_size") or raw["hidden_size"]):
        if size != text.hidden_size:
            raise BadCheckpoint(
                f"The head {folder} is {size} wide and the target {text.hidden_size}; use a fitting one."
            )
    if (raw.get("vocab_size") or text.vocab_size) != text.vocab_size:
        raise BadCheckpoint(
            f"The head {folder} has a vocabulary of {raw['vocab_size']}, the target one of {text.vocab_size}; "
            "use a fitting one."
        )


def embeddings_of(target: TargetParts) -> torch.Tensor:
    """The target's live embeddings [vocabulary, H]; Llama-3.2-Vision's table has rows behind it, which no text has."""
    return target.model.get_input_embeddings().weight.detach()[: target.model.config.get_text_config().vocab_size]


def shared(tensors: Mapping[str, torch.Tensor], target: TargetParts) -> dict[str, torch.Tensor]:
    """The target's live embeddings and output head, for those that a head stores as a mere copy."""
    live = {
        "embed_tokens.weight": embeddings_of(target),
        "lm_head.weight": target.model.get_output_embeddings().weight.detach(),
    }
    stored = {name: (tensors[name], weight) for name, weight in live.items() if name in tensors}
    return {n: w for n, (t, w) in stored.items() if t.shape == w.shape and torch.equal(t.to(w), w)}


def with_vocabulary_map(
    tensors: dict[str, torch.Tensor], drafted: int, full: int, folder: str | Path
) -> dict[str, torch.Tensor]:
    """The tensors with `d2t` as offsets (int64 [drafted]: target id - draft id) that agree with `t2d` (bool [full]).

    Raises:
        BadCheckpoint: one of the two is missing or no map, or they contradict each other.
    """
    if drafted == full and not {"d2t", "t2d"} & set(tensors):
        return {**tensors, "d2t": torch.zeros(full, dtype=torch.long), "t2d": torch.ones(full, dtype=torch.bool)}
    for name, size in (("d2t", drafted), ("t2d", full)):
        tensor = tensors.get(name)
        if tensor is None:
            raise BadCheckpoint(f"The head {folder} lacks the tensor {name}; copy it again whole.")
        if tensor.shape != (size,) or tensor.is_floating_point():
            have = f"{tensor.dtype} with the shape {list(tensor.shape)}"
            raise BadCheckpoint(
                f"The tensor {name} of the head {folder} is {have}; its config says [{size}]; use its own config."
            )
    index, d2t, t2d = torch.arange(drafted), tensors["d2t"].long(), tensors["t2d"].bool()
    kept = t2d.nonzero()[:, 0]
    if torch.equal(d2t, kept) and not torch.equal(index + d2t, kept):
        warnings.warn(f"In the head {folder}, d2t lists target ids instead of offsets; read as such.", stacklevel=3)
        d2t = d2t - index
    if not torch.equal(index + d2t, kept):
        raise BadCheckpoint(
            f"In the head {folder}, d2t and t2d disagree; d2t must hold offsets (target id - draft id)."
        )
    return {**tensors, "d2t": d2t, "t2d": t2d}


def fill(head: Head, tensors: Mapping[str, torch.Tensor], folder: str | Path, target: TargetParts) -> Head:
    """Put the tensors in place, in the target's dtype and on its device. `head` comes without storage, on "meta"."""
    wanted = head.state_dict()
    for name, empty in wanted.items():
        if name not in tensors:
            raise BadCheckpoint(f"The head {folder} lacks the tensor {name}; copy it again whole.")
        tensor = tensors[name]
        if tensor.shape != empty.shape:
            have, want = list(tensor.shape), list(empty.shape)
            raise BadCheckpoint(
                f"The tensor {name} of the head {folder} has the shape {have}, not {want}; use its own config."
            )
        bits8 = tensor.is_floating_point() and tensor.itemsize == 1
        if bits8 or tensor.is_floating_point() != empty.is_floating_point():
            raise BadCheckpoint(
                f"The tensor {name} of the head {folder} is {tensor.dtype}; use a head that is not quantized."
            )
        if not tensor.isfinite().all():
            raise BadCheckpoint(
                f"The tensor {name} of the head {folder} holds numbers that are not finite; copy it again."
            )
    unknown = sorted(set(tensors) - set(wanted))
    if unknown:
        raise BadCheckpoint(f"The head {folder} has the unknown tensor {unknown[0]}; use one of a known kind.")
    live = target.model.get_input_embeddings().weight
    placed = {n: t.to(live.device, live.dtype if t.is_floating_point() else None) for n, t in tensors.items()}
    head.load_state_dict(placed, assign=True)
    return head.eval().requires_grad_(False)
