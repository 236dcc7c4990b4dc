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
from ..engine import Draft, Step, Top, clock, likeliest
from ..target import EMBEDDINGS
from ..tree import CandidateTree
from .layers import Attention, MRope, RMSNorm, SwiGLU, rope, row_positions


@dataclass(frozen=True)
class Eagle3Config:
    """Geometry of an EAGLE-3 head; the names follow the SpecForge config.

    Args:
        target_layer_ids: the low, middle and high target layers whose outputs are fused (0-based, outputs).
        draft_vocab_size: tokens that the head can propose at all.
        mrope: the head rotates by the target's three axes; None for sequence indices, every visual token counted.
        qk_norm: queries and keys are normed a head, as in Qwen3.
        norm_before_residual: the residual stream starts from the normed feature (speculators).
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
    mrope: MRope | None = None
    qk_norm: bool = False
    norm_before_residual: bool = False


def default_layer_ids(target_layers: int) -> tuple[int, int, int]:
    """SpecForge's low, middle and high layers: outputs of 1, L // 2 - 1 and L - 4; 36 -> (1, 17, 32)."""
    return 1, target_layers // 2 - 1, target_layers - 4


class Eagle3Layer(nn.Module):
    """The one decoder layer: attention over `[embedding ; feature]`, residual stream of features."""

    def __init__(self, c: Eagle3Config) -> None:
        super().__init__()
        width = c.hidden_size
        self.self_attn = Attention(
            2 * width,
            width,
            c.num_attention_heads,
            c.num_key_value_heads,
            c.head_dim,
            c.rms_norm_eps if c.qk_norm else None,
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
            positions: int64 [rows] or [batch, rows], sequence indices; with M-RoPE, its three axes before all else.
            mask: additive float or bool, [.., rows, cached + rows].
            cache: keys and values of earlier rows; the new rows are appended.

        Returns:
            [batch, rows, H], before the final norm: the feature of the next pass.
        """
        c, layer = self.config, self.midlayer
        normed = layer.hidden_norm(features)
        x = torch.cat((layer.input_layernorm(embeddings), normed), -1)
        turn = rope(positions, c.head_dim, c.rope_theta, x.dtype, c.mrope)
        hidden = (normed if c.norm_before_residual else features) + layer.self_attn(x, x, turn, turn, mask, cache)
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


@dataclass(frozen=True)
class _Rows:
    """Committed rows, ready to be appended: embeddings [rows, H] of the tokens after them, true states
    [rows, layers * H], positions [.., rows]."""

    embeddings: torch.Tensor
    fused: torch.Tensor
    positions: torch.Tensor

    def cut(self, rows: slice) -> _Rows:
        """Some of the rows."""
        return _Rows(self.embeddings[rows], self.fused[rows], self.positions[..., rows])

    @staticmethod
    def join(parts: list[_Rows]) -> _Rows:
        """All rows of several parts."""
        return _Rows(
            torch.cat([part.embeddings for part in parts]),
            torch.cat([part.fused for part in parts]),
            torch.cat([part.positions for part in parts], -1),
        )


class Eagle3Drafter:
    """Drafts for one request with the dynamic tree of EAGLE-2 and EAGLE-3.

    Args:
        head: the weights.
        image_token_id: the id whose rows are visual tokens; they are embedded as the target embeds them.
        steps: sequential passes a round, and the depth of the tree.
        top_k: children of an expanded node, and nodes expanded a pass.
    """

    def __init__(self, head: Eagle3Head, image_token_id: int | None, steps: int = 8, top_k: int = 4) -> None:
        self.head, self.image_token_id, self.steps = head, image_token_id, steps
        self.horizon = steps
        self.top_k = min(top_k, head.config.draft_vocab_size)

    def begin(self, prefill: Step, capacity: int) -> None:
        """The head's own prefill: the prompt's rows, all but the last, which round 0 appends."""
        self.cache = TreeCache(1, capacity + self.steps * self.top_k)
        self.fresh: list[_Rows] = []
        self.commit(prefill)
        if not self._is_silent:
            rows = self.fresh.pop()
            self._extend(rows.cut(slice(None, -1)))
            self.fresh.append(rows.cut(slice(-1, None)))

    @property
    def _is_silent(self) -> bool:
        """Whether the next tree would reach beyond the positions that the head knows."""
        rows = self.cache.committed + sum(len(rows.fused) for rows in self.fresh)
        return rows - 1 + self.steps > self.head.config.max_position_embeddings

    def commit(self, accepted: Step) -> None:
        """Queue committed rows: each true feature with the embedding of the token after it."""
        fused = torch.cat([accepted.states[i] for i in self.head.config.target_layer_ids], -1)
        following = torch.tensor([*accepted.tokens[1:].tolist(), accepted.root])
        text = (following != (-1 if self.image_token_id is None else self.image_token_id)).nonzero()[:, 0]
        embeddings = torch.cat((accepted.states[EMBEDDINGS][1:], fused.new_empty(1, self.head.config.hidden_size)))
        embeddings[text.to(fused.device)] = self.head.embed_tokens(following[text].to(fused.device))
        positions = row_positions(accepted, self.head.config.mrope).to(fused.device)
        self.fresh.append(_Rows(embeddings, fused, positions))

    @torch.no_grad()
    def _extend(self, rows: _Rows) -> torch.Tensor:
        """One pass over committed rows: their outputs [rows, H]."""
        past, count = self.cache.committed, len(rows.fused)
        causal = torch.ones(count, past + count, dtype=torch.bool, device=rows.fused.device).tril(past)
        features = self.head.fc(rows.fused)
        hidden = self.head(rows.embeddings[None], features[None], rows.positions, causal[None, None], self.cache)
        self.cache.commit(range(count))
        return hidden[0]

    @torch.no_grad()
    def propose(self, budget: int) -> Draft:
        """Extend by the committed rows, then expand the best frontier pass by pass, then keep the best nodes."""
        if self._is_silent:
            return Draft(CandidateTree(), passes=0)
        rows = _Rows.join(self.fresh)
        self.fresh = []
        hidden = self._extend(rows)[-1:]
        logits = self.head.logits(hidden)
        tree, build_ms = self._grow(hidden, logits, rows.positions[..., -1:], budget)
        self.cache.rollback()
        return Draft(tree, self.steps, build_ms, top=lambda: self._top(logits[0]))

    def _top(self, logits: torch.Tensor) -> Top:
        """The likeliest tokens of draft logits, under the target's ids."""
        ids, log_q = likeliest(logits.float().log_softmax(-1))
        return tuple(i + int(self.head.d2t[i]) for i in ids), log_q

    def _grow(
        self, hidden: torch.Tensor, logits: torch.Tensor, last: torch.Tensor, budget: int
    ) -> tuple[CandidateTree, float]:
        """The passes over drafted tokens. `hidden` [frontier, H] and its `logits` predict the next children.

        `last` is the position of the last committed row; a node lies as far behind it as it is deep.
        """
        found = _Candidates([], [], [], [])
        frontier = [(-1, 0.0)]  # (node, score) of each row of `hidden`
        seen = {-1: np.zeros(self.steps * self.top_k, dtype=bool)}  # drafted rows of the cache that a node sees
        drafted = 0  # rows of the window
        device, build = hidden.device, 0.0
        for depth in range(1, self.steps + 1):
            log_q, draft_ids = logits.float().log_softmax(-1).topk(self.top_k)
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
            mask = np.ones((len(new), self.cache.committed + drafted), dtype=bool)
            mask[:, self.cache.committed :] = [seen[node][:drafted] for node in new]
            build += clock(device) - began
            hidden = self.head(
                self.head.embed_tokens(torch.tensor([[found.tokens[i] for i in new]], device=device)),
                hidden[torch.tensor(parent_rows, device=device)][None],
                (last + depth).expand(*last.shape[:-1], len(new)),
                torch.from_numpy(mask).to(device)[None, None],
                self.cache,
            )[0]
            logits = self.head.logits(hidden)
        tree = found.best(budget)
        return tree, build + clock(device) - began
