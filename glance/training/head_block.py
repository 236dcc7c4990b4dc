"""Loss of the GLANCE block head: many blocks of one answer at once, each seeing only what lies before it."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glance.drafters.block import BlockConfig, BlockHead, default_layer_ids
from glance.drafters.layers import Attention, rotate
from glance.training.head_recipe import HeadRecipe, geometry
from glance.training.states import Row


def build_block_head(recipe: HeadRecipe, text: nn.Module, mask_token_id: int) -> BlockHead:
    """A block head to train for a target's text stack.

    A head that begins with layers of the target knows how to read before its first step: the target's states take the
    place of those layers' inputs, averaged until `fc` has learnt better.
    """
    text_config = text.config
    head = BlockHead(
        BlockConfig(
            **geometry(text_config),
            num_hidden_layers=recipe.layers,
            block_size=recipe.block_size,
            mask_token_id=mask_token_id,
            target_layer_ids=default_layer_ids(text_config.num_hidden_layers, recipe.fused),
        )
    )
    if recipe.begin:
        for layer, source in zip(head.layers, recipe.begin, strict=True):
            layer.load_state_dict(text.layers[source].state_dict())
        head.norm.load_state_dict(text.norm.state_dict())
        head.hidden_norm.load_state_dict(text.layers[recipe.begin[0]].input_layernorm.state_dict())
        head.fc.weight.data.copy_(torch.eye(text_config.hidden_size).repeat(1, recipe.fused) / recipe.fused)
    return head


class BlockBatch:
    """Blocks of several answers, padded. A anchors an answer, B answers, S context rows, K slots a block.

    `before` [B, A, K, H] holds the target's last state in front of each slot, its own word on what stands there, and
    `looks` [B, A, K, S] how it spread its attention over the visual tokens to say so.
    """

    def __init__(self, rows: Sequence[Row], head: BlockHead, anchors: Sequence[Sequence[int]]) -> None:
        config, size = head.config, head.config.block_size
        longest, most = max(len(row.ids) for row in rows), max(len(chosen) for chosen in anchors)
        width = len(config.target_layer_ids) * config.hidden_size
        self.states = torch.zeros(len(rows), longest, width)
        self.slots = torch.full((len(rows), most, size), config.mask_token_id)
        self.labels = torch.full((len(rows), most, size), -100)
        self.starts = torch.zeros(len(rows), most, dtype=torch.long)
        self.before = torch.zeros(len(rows), most, size, width // len(config.target_layer_ids))
        self.looks = torch.zeros(*self.slots.shape, longest)
        for b, (row, chosen) in enumerate(zip(rows, anchors, strict=True)):
            fused = [row.states[i] for i in config.target_layer_ids]
            self.states[b, : len(row.ids)] = torch.cat(fused, -1)
            for a, start in enumerate(chosen):
                tokens = row.ids[start : start + size]
                self.slots[b, a, 0] = tokens[0]
                self.labels[b, a, 1 : len(tokens)] = tokens[1:]
                self.starts[b, a] = start
                self.before[b, a, 1 : len(tokens)] = row.last[start : start + len(tokens) - 1]
                look = row.looks[start + 1 : start + len(tokens)]
                self.looks[b, a, 1 : len(tokens), row.first : row.first + look.shape[1]] = look

    def reveal(self, rng: random.Random, share: float) -> Tensor:
        """Show the first true tokens of some blocks, drop their labels; returns how many were shown [B, A]."""
        shown = torch.zeros_like(self.starts)
        for b, a in ((b, a) for b in range(shown.shape[0]) for a in range(shown.shape[1])):
            known = int((self.labels[b, a] >= 0).sum())
            if known > 1 and rng.random() < share:
                count = rng.randint(1, known - 1)
                self.slots[b, a, 1 : count + 1] = self.labels[b, a, 1 : count + 1]
                self.labels[b, a, 1 : count + 1] = -100
                shown[b, a] = count
        return shown

    def mask(self) -> Tensor:
        """bool [B, 1, A·K, S + A·K]: context rows strictly before the block's root, and the block itself."""
        b, a, k = self.slots.shape
        context = torch.arange(self.states.shape[1]) < self.starts[..., None]  # [B, A, S]
        own = torch.eye(a, dtype=torch.bool).repeat_interleave(k, 0).repeat_interleave(k, 1)
        context = context.repeat_interleave(k, 1)
        return torch.cat([context, own.expand(b, -1, -1)], -1)[:, None]


def block_hidden(head: BlockHead, batch: BlockBatch, embed: nn.Embedding) -> Tensor:
    """[B, A, K, H], what the target's output head takes; slot 0, the root's, predicts nothing."""
    b, a, k = batch.slots.shape
    positions = batch.starts[..., None] + torch.arange(k)
    hidden = head(
        batch.states,
        embed(batch.slots).flatten(1, 2),
        torch.arange(batch.states.shape[1]).expand(b, -1),
        positions.flatten(1),
        mask=batch.mask(),
    )
    return hidden.unflatten(1, (a, k))


class Look:
    """Where the first head of a block head's layer looks: scores [B, slots, S] over the context, before the softmax.

    It listens to the layer's attention; each thread hears its own passes only.
    """

    def __init__(self, attention: Attention) -> None:
        self.attention, self.heard = attention, threading.local()
        attention.register_forward_pre_hook(self._hear)

    def _hear(self, module: nn.Module, args: tuple) -> None:
        self.heard.args = args[:4]

    def scores(self, context: int) -> Tensor:
        """Of the last pass, whose first `context` keys are the context's."""
        x, source, q_rope, k_rope = self.heard.args
        attention, width = self.attention, self.attention.head_dim
        q = attention.q_norm(F.linear(x, attention.q_proj.weight[:width]))
        k = attention.k_norm(F.linear(source[:, :context], attention.k_proj.weight[:width]))
        k_rope = tuple(part[..., :context, :] for part in k_rope)
        q, k = (rotate(t[:, None], by)[:, 0] for t, by in ((q, q_rope), (k, k_rope)))
        return q @ k.mT * width**-0.5


def block_loss(
    head: BlockHead,
    rows: Sequence[Row],
    embed: nn.Embedding,
    lm_head: nn.Module,
    recipe: HeadRecipe,
    rng: random.Random,
    looks: Sequence[Look] = (),
) -> tuple[Tensor, float]:
    """(loss, top-1 accuracy at the first offset) of one batch of answers.

    Cross-entropy, weight decay^(offset − 1), the offset counted from the last known token (the root or the last
    revealed one). What is asked for is a mixture of the target's token and its distribution before that token. The
    layers of `looks` are also pulled, by cross-entropy, to look where the target looked.
    """
    anchors = []
    for row in rows:
        possible = range(row.prompt, len(row.ids) - 1)
        anchors.append(sorted(rng.sample(possible, min(recipe.anchors, len(possible)))) or [row.prompt])
    batch = BlockBatch(rows, head, anchors)
    shown = batch.reveal(rng, recipe.reveal)
    hidden = block_hidden(head, batch, embed)
    used = batch.labels >= 0
    offset = torch.arange(head.config.block_size) - shown[..., None]
    weight = recipe.decay ** (offset[used] - 1).float()
    found, labels = lm_head(hidden[used]).log_softmax(-1), batch.labels[used]
    with torch.no_grad():
        wanted = lm_head(batch.before[used]).softmax(-1)
    hard = F.nll_loss(found, labels, reduction="none")
    loss = (1 - recipe.soft) * hard - recipe.soft * (wanted * found).sum(-1)
    for look in looks:
        spread = look.scores(batch.states.shape[1]).unflatten(1, batch.slots.shape[1:])
        seen = torch.arange(spread.shape[-1]) < batch.starts[..., None, None]
        spread = spread.masked_fill(~seen, torch.finfo(spread.dtype).min)[used].log_softmax(-1)
        loss = loss - recipe.guide_weight * (batch.looks[used] * spread).sum(-1)
    accuracy = (found.argmax(-1) == labels)[offset[used] == 1].float().mean().item()
    return (loss * weight).sum() / weight.sum(), accuracy


@torch.no_grad()
def block_top1(
    head: BlockHead, rows: Sequence[Row], embed: nn.Embedding, lm_head: nn.Module
) -> tuple[list[float], float]:
    """Top-1 accuracy at each offset, and the mean accepted length of the greedy chain from every anchor."""
    size = head.config.block_size
    right, total, accepted = torch.zeros(size), torch.zeros(size), []
    for row in rows:
        anchors = [list(range(row.prompt, len(row.ids) - 1)) or [row.prompt]]
        batch = BlockBatch([row], head, anchors)
        used = batch.labels >= 0
        hit = (lm_head(block_hidden(head, batch, embed)).argmax(-1) == batch.labels) & used
        right += hit.sum((0, 1))
        total += used.sum((0, 1))
        accepted.append(hit[..., 1:].float().cumprod(-1).sum(-1).flatten())
    return (right[1:] / total[1:].clamp_min(1)).tolist(), torch.cat(accepted).mean().item()
