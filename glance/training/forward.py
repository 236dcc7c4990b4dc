"""The target's forward pass for training: equal to `transformers`' own (a test says so), several times faster.

All images of a batch have one size, so vision attention is one batched product instead of a loop over images; the
patch embedding is a linear layer instead of a 3-D convolution; padding stands last, so causal attention needs no
mask for it.
"""

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import Qwen3VLForConditionalGeneration
from transformers.models.qwen3_vl.modeling_qwen3_vl import (
    apply_rotary_pos_emb,
    apply_rotary_pos_emb_vision,
    get_vision_interpolation_indices_and_weights,
    get_vision_position_ids,
)


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    """softmax(q kᵀ / √width) v for q [B, H, T, width], and k, v alike or with fewer heads that queries share.

    Fused, but for training on a CPU, where the fused kernel's backward pass makes a whole step a fifth longer than
    plain products do. Those hold all scores at once, which only rows as short as the embedded target's allow.
    """
    if q.is_cuda or not q.requires_grad:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])
    groups = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
    scores = (q * q.shape[-1] ** -0.5) @ k.mT
    if causal:
        length = q.shape[2]
        scores = scores + torch.full((length, length), -torch.inf, dtype=scores.dtype, device=q.device).triu(1)
    return scores.softmax(-1).to(v.dtype) @ v


def vision_block(block: nn.Module, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """One block on x [B, P, width]; cos and sin are [P, head width]."""
    b, p, _ = x.shape
    attention = block.attn
    q, k, v = attention.qkv(block.norm1(x)).view(b, p, 3, attention.num_heads, -1).unbind(2)
    q, k = apply_rotary_pos_emb_vision(q, k, cos, sin)
    mixed = attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
    x = x + attention.proj(mixed.transpose(1, 2).reshape(b, p, -1))
    return x + block.mlp(block.norm2(x))


def text_layer(layer: nn.Module, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """One decoder layer on x [B, T, hidden], causal; cos and sin are [1, T, head width]."""
    b, t, _ = x.shape
    attention, y = layer.self_attn, layer.input_layernorm(x)
    q = attention.q_norm(attention.q_proj(y).view(b, t, -1, attention.head_dim)).transpose(1, 2)
    k = attention.k_norm(attention.k_proj(y).view(b, t, -1, attention.head_dim)).transpose(1, 2)
    v = attention.v_proj(y).view(b, t, -1, attention.head_dim).transpose(1, 2)
    q, k = apply_rotary_pos_emb(q, k, cos, sin)
    mixed = attend(q, k, v, causal=True)
    x = x + attention.o_proj(mixed.transpose(1, 2).reshape(b, t, -1))
    return x + layer.mlp(layer.post_attention_layernorm(x))


class TargetForward:
    """Runs a target's layers."""

    def __init__(self, model: Qwen3VLForConditionalGeneration) -> None:
        self.model, self.visual, self.text = model, model.model.visual, model.model.language_model
        self._grid_tables = lru_cache(maxsize=8)(self._make_grid_tables)

    def _make_grid_tables(self, grid: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Interpolation indices and weights of the position table, and cos, sin of one image."""
        visual, thw = self.visual, torch.tensor([[1, *grid]], device=self.visual.pos_embed.weight.device)
        indices, weights = get_vision_interpolation_indices_and_weights(
            thw,
            num_grid_per_side=visual.num_grid_per_side,
            mode=visual.interpolation_mode,
            align_corners=visual.interpolation_align_corners,
            spatial_merge_size=visual.spatial_merge_size,
        )
        positions = get_vision_position_ids(thw, visual.spatial_merge_size)
        cos, sin = visual.rotary_pos_emb(visual.pos_embed.weight, positions)
        return indices, weights, cos, sin

    def see(self, pixels: Tensor, grid: tuple[int, int]) -> tuple[Tensor, list[Tensor]]:
        """Visual features [B, n, hidden] and the DeepStack features, of pixels [B, P, patch values]."""
        visual, b = self.visual, pixels.shape[0]
        indices, weights, cos, sin = self._grid_tables(grid)
        projection = visual.patch_embed.proj
        x = F.linear(pixels, projection.weight.flatten(1), projection.bias)
        x = x + (visual.pos_embed(indices) * weights[..., None]).sum(1).to(x.dtype)
        deep = []
        for i, block in enumerate(visual.blocks):
            x = vision_block(block, x, cos, sin)
            if i in visual.deepstack_visual_indexes:
                merger = visual.deepstack_merger_list[visual.deepstack_visual_indexes.index(i)]
                deep.append(merger(x).view(b, -1, merger.linear_fc2.out_features))
        return visual.merger(x).view(b, -1, visual.merger.linear_fc2.out_features), deep

    def read(
        self,
        ids: Tensor,
        positions: Tensor,
        first: int,
        seen: tuple[Tensor, list[Tensor]],
        tap: tuple[int, ...] = (),
    ) -> tuple[Tensor, dict[int, Tensor], tuple[Tensor, Tensor]]:
        """Normed last states [B, T, hidden], the inputs of the tapped layers (the final norm counts), and (cos, sin).

        `first` is the column of the first visual token; `positions` is [3, 1, T].
        """
        features, deep = seen
        visual, length = features.shape[1], ids.shape[1]
        words = self.text.embed_tokens(ids)
        x = torch.cat([words[:, :first], features, words[:, first + visual :]], dim=1)
        cos, sin = self.text.rotary_emb(x, positions)
        tapped: dict[int, Tensor] = {}
        for i, layer in enumerate(self.text.layers):
            if i in tap:
                tapped[i] = x
            x = text_layer(layer, x, cos, sin)
            if i < len(deep):
                x = x + F.pad(deep[i], (0, 0, first, length - first - visual))
        if len(self.text.layers) in tap:
            tapped[len(self.text.layers)] = x
        return self.text.norm(x), tapped, (cos, sin)
