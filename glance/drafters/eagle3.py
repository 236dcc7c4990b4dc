"""EAGLE-3: an autoregressive draft head of one layer, eight sequential passes a round, and its dynamic tree.

SpecForge format. The feature of position t is paired with the token at t + 1 and predicts the token at t + 2; in later
passes the head's own output (before its final norm) stands in for the feature. Features of committed rows are always
recomputed from the target's true states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ..cache import TreeCache
from ..engine import Draft, Step, clock
from ..target import EMBEDDINGS
from ..tree import CandidateTree
from .layers import Attention, RMSNorm, SwiGLU, rope


@dataclass(frozen=True)
class Eagle3Config:
    """Geometry of an EAGLE-3 head; the names follow the SpecForge config.

    Args:
        target_layer_ids: the low, middle and high target layers whose outputs are fused (0-based, outputs).
        draft_vocab_size: tokens that the head can propose at all.
    """

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    max_position_embeddings: int
    vocab_size: int
    draft_vocab_size: int
    target_layer_ids: tuple[int, ...]


def default_layer_ids(target_layers: int) -> tuple[int, int, int]:
    """SpecForge's low, middle and high layers: outputs of 1, L // 2 - 1 and L - 4; 36 -> (1, 17, 32)."""
    return 1, target_layers // 2 - 1, target_layers - 4


class Eagle3Layer(nn.Module):
    """The one decoder layer: attention over `[embedding ; feature]`, residual stream of features."""

    def __init__(self, c: Eagle3Config) -> None:
        super().__init__()
        width = c.hidden_size
        self.self_attn = Attention(
            2 * width, width, c.num_attention_heads, c.num_key_value_heads, c.head_dim, qk_norm=None
        )
        self.mlp = SwiGLU(width, c.intermediate_size)
        self.hidden_norm = RMSNorm(width, c.rms_norm_eps)
        self.input_layernorm = RMSNorm(width, c.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(width, c.rms_norm_eps)


class Eagle3Head(nn.Module):
    """The head's weights: own embeddings (a frozen copy of the target's), fusion, one layer, own output head.

    `d2t[i]` is the offset from draft id to target id: target id = i + d2t[i]. `t2d[v]` says whether v can be drafted.
    """

    d2t: torch.Tensor
    t2d: torch.Tensor

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_size, width)
        self.fc = nn.Linear(len(config.target_layer_ids) * width, width, bias=False)
        self.midlayer = Eagle3Layer(config)
        self.norm = RMSNorm(width, config.rms_norm_eps)
        self.lm_head = nn.Linear(width, config.draft_vocab_size, bias=False)
        self.register_buffer("d2t", torch.zeros(config.draft_vocab_size, dtype=torch.long))
        self.register_buffer("t2d", torch.zeros(config.vocab_size, dtype=torch.bool))

    def forward(
        self,
        embeddings: torch.Tensor,
        features: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor | None,
        cache: TreeCache | None = None,
    ) -> torch.Tensor:
        """One pass.

        Args:
            embeddings: [batch, rows, H], of the token after each row.
            features: [batch, rows, H], fused target states (`fc`), or this head's own earlier output.
            positions: int64 [rows] or [batch, rows], sequence indices.
            mask: additive float or bool, [.., rows, cached + rows].
            cache: keys and values of earlier rows; the new rows are appended.

        Returns:
            [batch, rows, H], before the final norm: the feature of the next pass.
        """
        layer = self.midlayer
        x = torch.cat((layer.input_layernorm(embeddings), layer.hidden_norm(features)), -1)
        turn = rope(positions, self.config.head_dim, self.config.rope_theta, x.dtype)
        hidden = features + layer.self_attn(x, x, turn, turn, mask, cache)
        return hidden + layer.mlp(layer.post_attention_layernorm(hidden))

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[..., H] -> [..., draft vocabulary]."""
        return self.lm_head(self.norm(hidden))


@dataclass
class _Candidates:
    """Everything the passes of one round proposed, in creation order. Parent -1 is the root."""

    tokens: list[int]
    parents: list[int]
    log_q: list[float]
    scores: list[float]

    def best(self, budget: int) -> CandidateTree:
        """The `budget` highest scores. A child never scores above its parent, so the result is prefix-closed."""
        order = sorted(range(len(self.tokens)), key=lambda i: (-self.scores[i], i))[:budget]
        kept = sorted(order)
        place = {-1: -1, **{old: new for new, old in enumerate(kept)}}
        return CandidateTree(
            tuple(self.tokens[i] for i in kept),
            tuple(place[self.parents[i]] for i in kept),
            tuple(self.log_q[i] for i in kept),
        )


class Eagle3Drafter:
    """Drafts for one request with the dynamic tree of EAGLE-2 and EAGLE-3.

    Args:
        head: the weights.
        steps: sequential passes a round, and the depth of the tree.
        top_k: children of an expanded node, and nodes expanded a pass.
    """

    def __init__(self, head: Eagle3Head, steps: int = 8, top_k: int = 4) -> None:
        self.head, self.steps, self.top_k = head, steps, min(top_k, head.config.draft_vocab_size)

    def begin(self, prefill: Step, capacity: int) -> None:
        """The head's own prefill: the prompt's rows, all but the last, which round 0 appends.

        Visual tokens are embedded as the target embeds them.
        """
        self.cache = TreeCache(1, capacity + self.steps * self.top_k)
        self.fresh: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.commit(prefill)
        if not self._is_silent:
            embeddings, fused = self.fresh.pop()
            self._extend(embeddings[:-1], fused[:-1])
            self.fresh.append((embeddings[-1:], fused[-1:]))

    @property
    def _is_silent(self) -> bool:
        """Whether the next tree would reach beyond the positions that the head knows."""
        rows = self.cache.committed + sum(len(fused) for _, fused in self.fresh)
        return rows - 1 + self.steps > self.head.config.max_position_embeddings

    def commit(self, accepted: Step) -> None:
        """Queue committed rows: each true feature with the embedding of the token after it."""
        fused = torch.cat([accepted.states[i] for i in self.head.config.target_layer_ids], -1)
        root = self.head.embed_tokens(torch.tensor([accepted.root], device=fused.device))
        self.fresh.append((torch.cat((accepted.states[EMBEDDINGS][1:], root)), fused))

    @torch.no_grad()
    def _extend(self, embeddings: torch.Tensor, fused: torch.Tensor) -> torch.Tensor:
        """One pass over committed rows: embeddings [rows, H], true states [rows, layers * H] -> [rows, H]."""
        past, rows, device = self.cache.committed, len(fused), fused.device
        causal = torch.ones(rows, past + rows, dtype=torch.bool, device=device).tril(past)
        hidden = self.head(
            embeddings[None],
            self.head.fc(fused)[None],
            torch.arange(past, past + rows, device=device),
            causal[None, None],
            self.cache,
        )
        self.cache.commit(range(rows))
        return hidden[0]

    @torch.no_grad()
    def propose(self, budget: int) -> Draft:
        """Extend by the committed rows, then expand the best frontier pass by pass, then keep the best nodes."""
        if self._is_silent:
            return Draft(CandidateTree(), passes=0)
        embeddings, fused = (torch.cat(parts) for parts in zip(*self.fresh, strict=True))
        self.fresh = []
        hidden = self._extend(embeddings, fused)
        tree, build_ms = self._grow(hidden[-1:], self.cache.committed - 1, budget)
        self.cache.rollback()
        return Draft(tree, passes=self.steps, build_ms=build_ms)

    def _grow(self, hidden: torch.Tensor, root_row: int, budget: int) -> tuple[CandidateTree, float]:
        """The passes over drafted tokens. `hidden` [frontier, H] are the outputs that predict the next children."""
        found = _Candidates([], [], [], [])
        frontier = [(-1, 0.0)]  # (node, score) of each row of `hidden`
        seen = {-1: np.zeros(self.steps * self.top_k, dtype=bool)}  # drafted rows of the cache that a node sees
        drafted = 0  # rows of the window
        device, build = hidden.device, 0.0
        for depth in range(1, self.steps + 1):
            log_q, draft_ids = self.head.logits(hidden).float().log_softmax(-1).topk(self.top_k)
            target_ids = draft_ids + self.head.d2t[draft_ids]
            began = clock(device)
            first = len(found.tokens)
            for (node, score), row_q, row_t in zip(frontier, log_q.tolist(), target_ids.tolist(), strict=True):
                found.tokens += row_t
                found.log_q += row_q
                found.parents += [node] * self.top_k
                found.scores += [score + q for q in row_q]
            if depth == self.steps:
                break
            new = sorted(range(first, len(found.tokens)), key=lambda i: (-found.scores[i], i))[: self.top_k]
            parent_rows = [(i - first) // self.top_k for i in new]
            frontier = [(i, found.scores[i]) for i in new]
            for row, node in enumerate(new, drafted):
                seen[node] = seen[found.parents[node]].copy()
                seen[node][row] = True
            drafted += len(new)
            mask = np.ones((len(new), root_row + 1 + drafted), dtype=bool)
            mask[:, root_row + 1 :] = [seen[node][:drafted] for node in new]
            build += clock(device) - began
            hidden = self.head(
                self.head.embed_tokens(torch.tensor([[found.tokens[i] for i in new]], device=device)),
                hidden[torch.tensor(parent_rows, device=device)][None],
                torch.full((len(new),), root_row + depth, device=device),
                torch.from_numpy(mask).to(device)[None, None],
                self.cache,
            )[0]
        tree = found.best(budget)
        return tree, build + clock(device) - began
