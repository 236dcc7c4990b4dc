"""GLANCE: a block-diffusion head that reads the target's fused states and drafts a whole block in one pass.

The head is a DFlash head (z-lab format): a few bidirectional layers whose keys and values come from the target's
captured states of all committed rows, and whose queries are the block `[root, MASK, MASK, ...]`. Slot j predicts the
token at its own position, so there is no shift. The 15 marginals become a best-first tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from ..cache import TreeCache
from ..engine import SHOWN, Draft, Step, clock, ranked
from ..padded import WholeBuffers, padded_head_pass
from ..tree import CandidateTree, best_prefixes, chain
from .layers import Attention, MRope, RMSNorm, Rope, SwiGLU, rope, row_positions


@dataclass(frozen=True)
class BlockConfig:
    """Geometry of a block head; the names follow the z-lab DFlash config.

    Args:
        target_layer_ids: decoder layers of the target whose outputs are fused, in this order.
        block_size: slots of a block, the root's included.
        mask_token_id: id whose embedding fills the slots to predict; never a token of real text.
        mrope: the head rotates by the target's three axes; None for sequence indices, every visual token counted.
        vocab_size: the target's, where the head has embeddings or an output head of its own.
        draft_vocab_size: tokens that its own output head can propose; None where it uses the target's.
        own_embeddings: it does not use the target's.
    """

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    max_position_embeddings: int
    block_size: int
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    mrope: MRope | None = None
    vocab_size: int | None = None
    draft_vocab_size: int | None = None
    own_embeddings: bool = False


def default_layer_ids(target_layers: int, count: int) -> tuple[int, ...]:
    """Which target layers `count` draft layers read, by DFlash's rule: evenly from 1 to the third last.

    (36, 5) -> (1, 9, 17, 25, 33).
    """
    if count == 1:
        return (target_layers // 2,)
    return tuple(round(1 + i * (target_layers - 4) / (count - 1)) for i in range(count))


class BlockLayer(nn.Module):
    """One layer: the block attends to context and block, then a feed-forward block."""

    def __init__(self, c: BlockConfig) -> None:
        super().__init__()
        self.self_attn = Attention(
            c.hidden_size,
            c.hidden_size,
            c.num_attention_heads,
            c.num_key_value_heads,
            c.head_dim,
            c.rms_norm_eps,
        )
        self.mlp = SwiGLU(c.hidden_size, c.intermediate_size)
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)

    def forward(
        self,
        block: torch.Tensor,
        context: torch.Tensor,
        q_rope: Rope,
        k_rope: Rope,
        mask: torch.Tensor | None,
        cache: TreeCache | None,
        layer: int,
    ) -> torch.Tensor:
        """[batch, slots, H] -> the same; `context` goes into keys and values as it is, without the input norm."""
        x = self.input_layernorm(block)
        source = torch.cat((context, x), 1)
        block = block + self.self_attn(x, source, q_rope, k_rope, mask, cache, layer)
        return block + self.mlp(self.post_attention_layernorm(block))


class BlockHead(nn.Module):
    """The head's weights. Embeddings and output head are the target's, live, unless the config says otherwise.

    With an output head of its own, `t2d[v]` says whether token v can be drafted; draft ids rise with token ids.
    """

    t2d: torch.Tensor

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.fc = nn.Linear(len(config.target_layer_ids) * width, width, bias=False)
        self.hidden_norm = RMSNorm(width, config.rms_norm_eps)
        self.layers = nn.ModuleList(BlockLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(width, config.rms_norm_eps)
        if config.own_embeddings:
            self.embed_tokens = nn.Embedding(config.vocab_size, width)
        if config.draft_vocab_size:
            self.lm_head = nn.Linear(width, config.draft_vocab_size, bias=False)
            self.register_buffer("t2d", torch.zeros(config.vocab_size, dtype=torch.bool))

    def rope(self, positions: torch.Tensor, dtype: torch.dtype) -> Rope:
        """Rotations of positions as in `forward`."""
        return rope(positions, self.config.head_dim, self.config.rope_theta, dtype, self.config.mrope)

    def embed(self, ids: torch.Tensor, embed_tokens: nn.Module) -> torch.Tensor:
        """int64 [...] -> [..., H]; `embed_tokens` is the target's."""
        return self.embed_tokens(ids) if self.config.own_embeddings else embed_tokens(ids)

    def logits(self, hidden: torch.Tensor, lm_head: nn.Module) -> torch.Tensor:
        """[..., H] -> [..., vocabulary], -inf where a token cannot be drafted; `lm_head` is the target's."""
        if not self.config.draft_vocab_size:
            return lm_head(hidden)
        draft_ids = (self.t2d.cumsum(0) - 1).clamp(min=0)  # of fixed shape, where a mask's true places are not
        return self.lm_head(hidden)[..., draft_ids].masked_fill(~self.t2d, -torch.inf)

    def top(self, hidden: torch.Tensor, lm_head: nn.Module, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The `width` likeliest tokens of each slot behind the root.

        Args:
            hidden: [slots, H], of one block.
            lm_head: the target's.

        Returns:
            Log-probabilities, float32, and ids, each [slots - 1, width], likeliest first.
        """
        logits = self.logits(hidden[1:], lm_head).float()
        logits[:, self.config.mask_token_id].fill_(-torch.inf)
        return logits.log_softmax(-1).topk(min(width, logits.shape[-1]))

    def forward(
        self,
        states: torch.Tensor,
        block: torch.Tensor,
        state_positions: torch.Tensor,
        block_positions: torch.Tensor,
        mask: torch.Tensor | None = None,
        cache: TreeCache | None = None,
    ) -> torch.Tensor:
        """Draft one block, or many at once in training.

        Args:
            states: [batch, context, layers * H], the new context rows, target layers concatenated.
            block: [batch, slots, H], target embeddings of `[root, MASK, ...]`.
            state_positions, block_positions: int64 [context], [slots], or with a batch dimension in front; with
                M-RoPE, its three axes before all else.
            mask: [.., slots, context + slots] for training, where blocks must not see what lies ahead of them;
                None lets every slot see all (one block, only committed rows).
            cache: keys and values of earlier context rows; the new rows are appended to it.

        Returns:
            [batch, slots, H], normed; the target's output head turns slot j into the token at its position.
        """
        context = self.hidden_norm(self.fc(states))
        q_rope = self.rope(block_positions, block.dtype)
        k_rope = self.rope(torch.cat((state_positions, block_positions), -1), block.dtype)
        for i, layer in enumerate(self.layers):
            block = layer(block, context, q_rope, k_rope, mask, cache, i)
        return self.norm(block)


def _top(
    head: BlockHead,
    embed_tokens: nn.Module,
    lm_head: nn.Module,
    width: int,
    cache: WholeBuffers,
    states: torch.Tensor,
    ids: torch.Tensor,
    state_positions: torch.Tensor,
    block_positions: torch.Tensor,
    mask: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    block = head.embed(ids, embed_tokens)
    return head.top(head(states, block, state_positions, block_positions, mask, cache)[0], lm_head, width)


class BlockDrafter:
    """Drafts for one request with a block head.

    Args:
        head: the weights.
        embed_tokens, lm_head: the target's own.
        as_chain: draft the greedy chain instead of the tree, to compare the two with one head.
        padded: draft in passes of fixed shapes, which a GPU replays as graphs.
    """

    def __init__(
        self,
        head: BlockHead,
        embed_tokens: nn.Module,
        lm_head: nn.Module,
        as_chain: bool = False,
        padded: bool = False,
    ) -> None:
        self.head, self.embed_tokens, self.lm_head = head, embed_tokens, lm_head
        self.as_chain, self.padded = as_chain, padded
        self.horizon = head.config.block_size - 1
        self.fresh: list[tuple[torch.Tensor, torch.Tensor]] = []  # states and positions of rows not yet appended

    def begin(self, prefill: Step, capacity: int) -> None:
        """The head's own prefill: the prompt's rows become context, all but the last, which round 0 appends."""
        config = self.head.config
        self.cache = TreeCache(config.num_hidden_layers, capacity + 2 * config.block_size)
        self.commit(prefill)
        if not self._is_silent:
            states, positions = self.fresh.pop()
            self._pass(states[:-1], positions[..., :-1], torch.empty(1, 0, dtype=torch.long, device=states.device))
            self.fresh.append((states[-1:], positions[..., -1:]))

    @property
    def _is_silent(self) -> bool:
        """Whether the next block would lie beyond the positions that the head knows."""
        start = self.cache.committed + sum(len(states) for states, _ in self.fresh)
        return start + self.head.config.block_size > self.head.config.max_position_embeddings

    def commit(self, accepted: Step) -> None:
        """Queue the states of the committed rows; the next pass appends them to the context."""
        fused = torch.cat([accepted.states[i] for i in self.head.config.target_layer_ids], -1)
        self.fresh.append((fused, row_positions(accepted, self.head.config.mrope, fused.device)))
        self.root = accepted.root

    @torch.no_grad()
    def _pass(self, states: torch.Tensor, positions: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Append context rows [rows, layers * H] and draft the block `ids` [1, slots] behind them: [slots, H]."""
        slots = torch.arange(1, ids.shape[1] + 1, device=ids.device)
        hidden = self.head(
            states[None],
            self.head.embed(ids, self.embed_tokens),
            positions,
            positions[..., -1:] + slots,
            cache=self.cache,
        )
        self.cache.commit(range(len(states)))  # the block's own keys and values are dropped
        return hidden[0]

    @torch.no_grad()
    def _padded_pass(
        self, states: torch.Tensor, positions: torch.Tensor, ids: torch.Tensor, width: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """`BlockHead.top` of `_pass`, its context rows filled up to as many as the block has."""
        past, rows, slots = self.cache.committed, len(states), ids.shape[1]
        places = torch.arange(self.cache.rows[0].capacity, device=ids.device)
        seen = (places < past + rows) | ((past + slots <= places) & (places < past + 2 * slots))
        top = padded_head_pass(
            self.cache,
            width,
            partial(_top, self.head, self.embed_tokens, self.lm_head, width),
            states=F.pad(states, (0, 0, 0, slots - rows))[None],
            ids=ids,
            state_positions=F.pad(positions, (0, slots - rows)),
            block_positions=positions[..., -1:] + 1 + places[:slots],
            mask=seen.repeat(1, 1, slots, 1),
            slots=past + places[: 2 * slots],
        )
        for layer in self.cache.rows:
            layer.length = past + rows
        self.cache.commit(range(rows))
        return top

    @torch.no_grad()
    def propose(self, budget: int) -> Draft:
        """One pass over the new context rows and the block, then the best-first tree."""
        if self._is_silent:
            return Draft(CandidateTree(), passes=0)
        c = self.head.config
        states = torch.cat([states for states, _ in self.fresh])
        positions = torch.cat([positions for _, positions in self.fresh], -1)
        self.fresh = []
        device, width = states.device, max(budget, SHOWN)
        ids = torch.full((1, c.block_size), c.mask_token_id, device=device)
        ids[0, 0] = self.root
        room = self.cache.rows[0].capacity - self.cache.committed
        if self.padded and len(states) <= c.block_size and 2 * c.block_size <= room:
            top = self._padded_pass(states, positions, ids, width)
        else:
            top = self.head.top(self._pass(states, positions, ids), self.lm_head, width)
        began = clock(device)
        log_q, tokens = (part.tolist() for part in top)  # all of the marginals that leaves the device
        tree = self._chain(log_q, tokens, budget) if self.as_chain else best_prefixes(log_q, tokens, budget)
        return Draft(tree, 1, clock(device) - began, top=lambda: ranked(log_q[0], tokens[0]))

    @staticmethod
    def _chain(log_q: list[list[float]], tokens: list[list[int]], budget: int) -> CandidateTree:
        return chain([row[0] for row in tokens[:budget]], [row[0] for row in log_q[:budget]])
