"""Guided attention: while the text stack learns to read, one head is shown where to look."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.models.qwen3_vl.modeling_qwen3_vl import apply_rotary_pos_emb


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
    length = pointers.shape[1]
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    target, losses = pointers[chosen], []
    hit = torch.zeros(())
    for index, x in tapped.items():
        attention = layers[index].self_attn
        width = attention.head_dim
        x = layers[index].input_layernorm(x)
        q = attention.q_norm(F.linear(x, attention.q_proj.weight[:width]))[:, None]
        k = attention.k_norm(F.linear(x, attention.k_proj.weight[:width]))[:, None]
        q, k = apply_rotary_pos_emb(q, k, *rope)
        scores = (q[:, 0] @ k[:, 0].mT * attention.scaling).masked_fill(future, torch.finfo(x.dtype).min)
        losses.append(F.cross_entropy(scores[chosen], target))
        hit = (scores[chosen].argmax(-1) == target).float().mean()
    return torch.stack(losses).mean(), hit.detach()
