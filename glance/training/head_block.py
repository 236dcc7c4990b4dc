"""Loss of the GLANCE block head: many blocks of one answer at once, each seeing only what lies before it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glance.drafters.block import BlockConfig, BlockHead, default_layer_ids
from glance.training.corpus import Row
from glance.training.head_recipe import HeadRecipe


def build_block_head(recipe: HeadRecipe, text_config, mask_token_id: int) -> BlockHead:
    """An untrained block head for a target's text config."""
    return BlockHead(
        BlockConfig(
            **recipe.geometry(text_config),
            num_hidden_layers=recipe.layers,
            block_size=recipe.block_size,
            mask_token_id=mask_token_id,
            target_layer_ids=default_layer_ids(text_config.num_hidden_layers, recipe.fused),
        )
    )


class BlockBatch:
    """Blocks of several answers, padded. A anchors an answer, B answers, S context rows, K slots a block."""

    def __init__(self, rows: Sequence[Row], head: BlockHead, anchors: Sequence[Sequence[int]]) -> None:
        config, size = head.config, head.config.block_size
        longest, most = max(len(row.ids) for row in rows), max(len(chosen) for chosen in anchors)
        width = len(config.target_layer_ids) * config.hidden_size
        self.states = torch.zeros(len(rows), longest, width)
        self.slots = torch.full((len(rows), most, size), config.mask_token_id)
        self.labels = torch.full((len(rows), most, size), -100)
        self.starts = torch.zeros(len(rows), most, dtype=torch.long)
        for b, (row, chosen) in enumerate(zip(rows, anchors, strict=True)):
            fused = [row.states[i] for i in config.target_layer_ids]
            self.states[b, : len(row.ids)] = torch.cat(fused, -1)
            for a, start in enumerate(chosen):
                tokens = row.ids[start : start + size]
                self.slots[b, a, 0] = tokens[0]
                self.labels[b, a, 1 : len(tokens)] = tokens[1:]
                self.starts[b, a] = start

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


def block_logits(head: BlockHead, batch: BlockBatch, embed: nn.Embedding, lm_head: nn.Module) -> Tensor:
    """[B, A, K, vocabulary]; slot 0, the root's, predicts nothing."""
    b, a, k = batch.slots.shape
    positions = batch.starts[..., None] + torch.arange(k)
    hidden = head(
        batch.states,
        embed(batch.slots).flatten(1, 2),
        torch.arange(batch.states.shape[1]).expand(b, -1),
        positions.flatten(1),
        mask=batch.mask(),
    )
    return lm_head(hidden).unflatten(1, (a, k))


def block_loss(
    head: BlockHead,
    rows: Sequence[Row],
    embed: nn.Embedding,
    lm_head: nn.Module,
    recipe: HeadRecipe,
    rng: random.Random,
) -> tuple[Tensor, float]:
    """(loss, top-1 accuracy at the first offset) of one batch of answers.

    Cross-entropy with hard labels, weight decay^(offset − 1), the offset counted from the last known token (the root
    or the last revealed one).
    """
    anchors = []
    for row in rows:
        possible = range(row.prompt, len(row.ids) - 1)
        anchors.append(sorted(rng.sample(possible, min(recipe.anchors, len(possible)))) or [row.prompt])
    batch = BlockBatch(rows, head, anchors)
    shown = batch.reveal(rng, recipe.reveal)
    logits = block_logits(head, batch, embed, lm_head)
    used = batch.labels >= 0
    offset = torch.arange(recipe.block_size) - shown[..., None]
    weight = recipe.decay ** (offset[used] - 1).float()
    loss = F.cross_entropy(logits[used], batch.labels[used], reduction="none")
    first = (offset == 1) & used
    accuracy = (logits[first].argmax(-1) == batch.labels[first]).float().mean().item()
    return (loss * weight).sum() / weight.sum(), accuracy


@torch.no_grad()
def block_top1(
    head: BlockHead, rows: Sequence[Row], embed: nn.Embedding, lm_head: nn.Module
) -> tuple[list[float], float]:
    """Held-out top-1 accuracy at each offset, and the mean accepted length of the greedy chain from every anchor."""
    size = head.config.block_size
    right, total, accepted = torch.zeros(size), torch.zeros(size), []
    for row in rows:
        anchors = [list(range(row.prompt, len(row.ids) - 1)) or [row.prompt]]
        batch = BlockBatch([row], head, anchors)
        used = batch.labels >= 0
        hit = (block_logits(head, batch, embed, lm_head).argmax(-1) == batch.labels) & used
        right += hit.sum((0, 1))
        total += used.sum((0, 1))
        accepted.append(hit[..., 1:].float().cumprod(-1).sum(-1).flatten())
    return (right[1:] / total[1:].clamp_min(1)).tolist(), torch.cat(accepted).mean().item()
