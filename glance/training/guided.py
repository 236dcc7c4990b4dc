"""Guided attention: while the text stack learns to read, one head is shown where to look."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.models.qwen3_vl.modeling_qwen3_vl import apply_rotary_pos_emb


def first_head_scores(layer: nn.Module, x: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
    """[B, T, T], what the first head of a decoder layer makes of its input x [B, T, hidden] before the softmax."""
    attention, length = layer.self_attn, x.shape[1]
    width = attention.head_dim
    x = layer.input_layernorm(x)
    q = attention.q_norm(F.linear(x, attention.q_proj.weight[:width]))[:, None]
    k = attention.k_norm(F.linear(x, attention.k_proj.weight[:width]))[:, None]
    q, k = apply_rotary_pos_emb(q, k, *rope)
    future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
    return (q[:, 0] @ k[:, 0].mT * attention.scaling).masked_fill(future, -torch.inf)


def guided_loss(
    layers: nn.ModuleList, tapped: dict[int, Tensor], rope: tuple[Tensor, Tensor], pointers: Tensor
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the first head's attention row against the visual token that holds the copied glyph.

    Args:
        tapped: input [B, T, hidden] of each guided layer.
        pointers: int64 [B, T], the column to look at, or -1.

    Returns:
        The mean loss over guided layers, and how often the last one's maximum is the right column.
    """
    chosen = pointers >= 0
    if not chosen.any():
        return pointers.new_zeros((), dtype=torch.float32), pointers.new_zeros((), dtype=torch.float32)
    target, losses = pointers[chosen], []
    hit = pointers.new_zeros((), dtype=torch.float32)
    for index, x in tapped.items():
        scores = first_head_scores(layers[index], x, rope)
        losses.append(F.cross_entropy(scores[chosen], target))
        hit = (scores[chosen].argmax(-1) == target).float().mean()
    return torch.stack(losses).mean(), hit.detach()
