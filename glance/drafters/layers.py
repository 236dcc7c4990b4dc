"""The pieces that draft heads are made of: RMS norm, rotary positions, grouped-query attention, SwiGLU."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from ..cache import TreeCache
from ..engine import Step

Rope = tuple[torch.Tensor, torch.Tensor]  # cos and sin, each [..., rows, head_dim]


class RMSNorm(nn.Module):
    """Root-mean-square norm in fp32 (Zhang & Sennrich, 2019)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., size] -> the same shape."""
        return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)


@dataclass(frozen=True)
class MRope:
    """How the rotary frequencies are shared among the axes of M-RoPE: temporal, height, width.

    Args:
        sections: frequencies of each axis, half the head dimension in all.
        interleaved: the axes take turns, as in Qwen3-VL; else they follow one another, as in Qwen2.5-VL.
    """

    sections: tuple[int, int, int]
    interleaved: bool

    def axes(self) -> list[int]:
        """The axis that each frequency reads."""
        time, height, width = self.sections
        if not self.interleaved:
            return [0] * time + [1] * height + [2] * width
        of = {**dict.fromkeys(range(1, 3 * height, 3), 1), **dict.fromkeys(range(2, 3 * width, 3), 2)}
        return [of.get(i, 0) for i in range(time + height + width)]


def row_positions(step: Step, mrope: MRope | None, device: torch.device) -> torch.Tensor:
    """What a head rotates verified rows by: int64 [3, rows] on the target's axes, or their indices [rows]."""
    if mrope:
        return step.positions.to(device)
    return torch.arange(step.start, step.start + len(step.tokens), device=device)


def rope(positions: torch.Tensor, head_dim: int, theta: float, dtype: torch.dtype, mrope: MRope | None = None) -> Rope:
    """Cosine and sine of rotary positions, half-split (NeoX) layout.

    Args:
        positions: int64 [..., rows]; with `mrope`, [3, ..., rows].

    Returns:
        Two tensors [..., rows, head_dim].
    """
    index = torch.arange(0, head_dim, 2, dtype=torch.float32, device=positions.device)
    axes = positions.unbind()  # picked one by one: a list of indices would be copied to the device
    turns = torch.stack([axes[i] for i in mrope.axes()], -1) if mrope else positions[..., None]
    angles = turns.float() * theta ** (-index / head_dim)
    angles = torch.cat((angles, angles), -1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: torch.Tensor, by: Rope) -> torch.Tensor:
    """Rotate [batch, heads, rows, head_dim] by cos and sin of shape [rows, head_dim] or [batch, rows, head_dim]."""
    cos, sin = (part.unsqueeze(-3) for part in by)
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


class Attention(nn.Module):
    """Grouped-query attention whose keys may come from more rows than its queries.

    Args:
        inputs: width of the rows (twice the hidden size in EAGLE-3).
        hidden: width of the output.
        qk_norm: per-head RMS norm of queries and keys, as in Qwen3; None for none.
    """

    def __init__(
        self, inputs: int, hidden: int, heads: int, kv_heads: int, head_dim: int, qk_norm: float | None
    ) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.q_proj = nn.Linear(inputs, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(inputs, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(inputs, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, hidden, bias=False)
        self.q_norm = RMSNorm(head_dim, qk_norm) if qk_norm else nn.Identity()
        self.k_norm = RMSNorm(head_dim, qk_norm) if qk_norm else nn.Identity()
        self.grouped = heads != kv_heads

    def forward(
        self,
        x: torch.Tensor,
        source: torch.Tensor,
        q_rope: Rope,
        k_rope: Rope,
        mask: torch.Tensor | None,
        cache: TreeCache | None = None,
        layer: int = 0,
    ) -> torch.Tensor:
        """Queries from `x`, keys and values from `source` and the cache.

        Args:
            x: [batch, q, inputs].
            source: [batch, k, inputs], appended to the cache when there is one.
            q_rope, k_rope: rotations of the q and k new rows.
            mask: additive float or bool mask over all keys, or None for full attention.

        Returns:
            [batch, q, hidden].
        """
        split = lambda t: t.unflatten(-1, (-1, self.head_dim))  # noqa: E731
        q = rotate(self.q_norm(split(self.q_proj(x))).transpose(1, 2), q_rope)
        k = rotate(self.k_norm(split(self.k_proj(source))).transpose(1, 2), k_rope)
        v = split(self.v_proj(source)).transpose(1, 2)
        if cache is not None:
            k, v = cache.update(k, v, layer)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=self.grouped)
        return self.o_proj(out.transpose(1, 2).flatten(-2))


class SwiGLU(nn.Module):
    """The gated feed-forward block of Llama and Qwen (Shazeer, 2020)."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., hidden] -> the same shape."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
