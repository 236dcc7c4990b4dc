"""EAGLE-3: an autoregressive draft head of one layer, eight sequential passes a round, and its dynamic tree.

SpecForge format. The feature of position t is paired with the token at t + 1 and predicts the token at t + 2; in later
passes the head's own output (before its final norm) stands in for the feature. Features of committed rows are always
recomputed from the target's true states. The host picks the nodes of each pass, so it waits for every one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..cache import TreeCache
from ..engine import SHOWN, Draft, Step, clock, ranked
from ..padded import WholeBuffers, padded_head_pass
from ..target import EMBEDDINGS
from ..tree import CandidateTree
from .layers import Attention, MRope, RMSNorm, SwiGLU, rope, row_positions

STEPS = 8  # sequential passes a round
TOP_K = 4  # children of an expanded node


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


def _step(
    head: Eagle3Head,
    width: int,
    cache: TreeCache | WholeBuffers,
    embeddings: torch.Tensor,
    features: torch.Tensor,
    positions: torch.Tensor,
    mask: torch.Tensor,
    wanted: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of the wanted rows of one pass: outputs [wanted, H], and the likeliest tokens' log-probabilities and target
    ids, each [wanted, width]."""
    hidden = head(embeddings, features, positions, mask, cache)[0, wanted]
    log_q, draft_ids = head.logits(hidden).float().log_softmax(-1).topk(width)
    return hidden, log_q, draft_ids + head.d2t[draft_ids]


class Eagle3Drafter:
    """Drafts for one request with the dynamic tree of EAGLE-2 and EAGLE-3.

    Args:
        head: the weights.
        image_token_id: the id whose rows are visual tokens; they are embedded as the target embeds them.
        steps: sequential passes a round, and the depth of the tree.
        top_k: children of an expanded node, and nodes expanded a pass.
        padded: draft in passes of fixed shapes, which a GPU replays as graphs.
    """

    def __init__(
        self, head: Eagle3Head, image_token_id: int | None, steps: int = STEPS, top_k: int = TOP_K, padded: bool = False
    ) -> None:
        self.head, self.image_token_id, self.steps, self.padded = head, image_token_id, steps, padded
        self.horizon = steps
        self.top_k, self.width = (min(count, head.config.draft_vocab_size) for count in (top_k, max(top_k, SHOWN)))

    def begin(self, prefill: Step, capacity: int) -> None:
        """The head's own prefill: the prompt's rows, all but the last, which round 0 appends."""
        self.cache = TreeCache(1, capacity + self.steps * self.top_k + self.steps + 1)
        self.fresh: list[_Rows] = []
        self.commit(prefill)
        if not self._is_silent:
            rows = self.fresh.pop()
            self._extend(rows.cut(slice(None, -1)), size=0)
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
        embeddings = torch.cat((accepted.states[EMBEDDINGS][1:], fused.new_zeros(1, self.head.config.hidden_size)))
        embeddings[text.to(fused.device)] = self.head.embed_tokens(following[text].to(fused.device))
        positions = row_positions(accepted, self.head.config.mrope, fused.device)
        self.fresh.append(_Rows(embeddings, fused, positions))

    @torch.no_grad()
    def _pass(
        self,
        embeddings: torch.Tensor,
        features: torch.Tensor,
        positions: torch.Tensor,
        seen: torch.Tensor,
        wanted: torch.Tensor,
        size: int,
    ) -> tuple[torch.Tensor, list[list[float]], list[list[int]]]:
        """`_step` over [rows, H], which stay in the cache's window, filled up to `size` rows where it is padded."""
        rows, past, capacity = len(embeddings), self.cache.rows[0].length, self.cache.rows[0].capacity
        spare = size - rows
        if not (self.padded and 0 < rows <= size <= capacity - past):
            step = (embeddings[None], features[None], positions, seen[None, None], wanted)
            hidden, log_q, tokens = _step(self.head, self.width, self.cache, *step)
        else:
            hidden, log_q, tokens = padded_head_pass(
                self.cache,
                (size, len(wanted)),
                partial(_step, self.head, self.width),
                embeddings=F.pad(embeddings, (0, 0, 0, spare))[None],
                features=F.pad(features, (0, 0, 0, spare))[None],
                positions=F.pad(positions, (0, spare)),
                mask=F.pad(seen, (0, capacity - past - rows, 0, spare))[None, None],
                wanted=wanted,
                slots=torch.arange(past, past + size, device=embeddings.device),
            )
            self.cache.rows[0].length = past + rows
        return hidden, log_q.tolist(), tokens.tolist()

    @torch.no_grad()
    def _extend(self, rows: _Rows, size: int) -> tuple[torch.Tensor, list[list[float]], list[list[int]]]:
        """`_pass` over committed rows, of which the last is wanted."""
        past, count, device = self.cache.committed, len(rows.fused), rows.fused.device
        causal = torch.ones(count, past + count, dtype=torch.bool, device=device).tril(past)
        last = torch.arange(count, device=device)[-1:]
        found = self._pass(rows.embeddings, self.head.fc(rows.fused), rows.positions, causal, last, size)
        self.cache.commit(range(count))
        return found

    @torch.no_grad()
    def propose(self, budget: int) -> Draft:
        """Extend by the committed rows, then expand the best frontier pass by pass, then keep the best nodes."""
        if self._is_silent:
            return Draft(CandidateTree(), passes=0)
        rows = _Rows.join(self.fresh)
        self.fresh = []
        hidden, log_q, tokens = self._extend(rows, size=self.steps + 1)
        tree, build_ms = self._grow(hidden, log_q, tokens, rows.positions[..., -1:], budget)
        self.cache.rollback()
        return Draft(tree, self.steps, build_ms, top=lambda: ranked(log_q[0], tokens[0]))

    def _grow(
        self,
        hidden: torch.Tensor,
        log_q: list[list[float]],
        tokens: list[list[int]],
        last: torch.Tensor,
        budget: int,
    ) -> tuple[CandidateTree, float]:
        """The passes over drafted tokens. `hidden` [frontier, H] gave the likeliest children, `log_q` and `tokens`.

        `last` is the position of the last committed row; a node lies as far behind it as it is deep.
        """
        found = _Candidates([], [], [], [])
        frontier = [(-1, 0.0)]  # (node, score) of each row of `hidden`
        seen = {-1: np.zeros(self.steps * self.top_k, dtype=bool)}  # drafted rows of the cache that a node sees
        drafted = 0  # rows of the window
        device, build = hidden.device, 0.0
        for depth in range(1, self.steps + 1):
            began = clock(device)
            first = len(found.tokens)
            for (node, score), row_q, row_t in zip(frontier, log_q, tokens, strict=True):
                found.tokens += row_t[: self.top_k]
                found.log_q += row_q[: self.top_k]
                found.parents += [node] * self.top_k
                found.scores += [score + q for q in row_q[: self.top_k]]
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
            hidden, log_q, tokens = self._pass(
                self.head.embed_tokens(torch.tensor([found.tokens[i] for i in new], device=device)),
                hidden[torch.tensor(parent_rows, device=device)],
                (last + depth).expand(*last.shape[:-1], len(new)),
                torch.from_numpy(mask).to(device),
                torch.arange(len(new), device=device),
                size=self.top_k,
            )
        tree = found.best(budget)
        return tree, build + clock(device) - began
