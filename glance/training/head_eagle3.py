"""Loss of the EAGLE-3 head: training-time test, seven passes on its own outputs (EAGLE-3, SpecForge)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from glance.drafters.eagle3 import Eagle3Config, Eagle3Head, default_layer_ids
from glance.target import EMBEDDINGS
from glance.training.corpus import Answered
from glance.training.head_recipe import HeadRecipe, geometry
from glance.training.states import Row


def build_eagle3_head(recipe: HeadRecipe, text_config, embed: nn.Embedding, corpus: Sequence[Answered]) -> Eagle3Head:
    """An untrained head whose draft vocabulary holds the most frequent tokens of the corpus, in rising order."""
    counts = Counter(token for one in corpus for token in one.answer)
    size = min(recipe.draft_vocabulary, text_config.vocab_size)
    frequent = [token for token, _ in counts.most_common(size)]
    rest = (token for token in range(text_config.vocab_size) if token not in counts)
    kept = torch.tensor(sorted([*frequent, *(next(rest) for _ in range(size - len(frequent)))]))
    head = Eagle3Head(
        Eagle3Config(
            **geometry(text_config),
            vocab_size=text_config.vocab_size,
            draft_vocab_size=size,
            target_layer_ids=default_layer_ids(text_config.num_hidden_layers),
        )
    )
    head.d2t.copy_(kept - torch.arange(size))
    head.t2d[kept] = True
    head.embed_tokens.weight.data.copy_(embed.weight)
    head.embed_tokens.requires_grad_(False)
    head.lm_head.weight.data.copy_(embed.weight[kept])  # the target's own output head, cut to the draft vocabulary
    return head


class _Keys:
    """Keys and values of all passes so far, along the sequence axis."""

    def __init__(self) -> None:
        self.k: Tensor | None = None
        self.v: Tensor | None = None

    def update(self, k: Tensor, v: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
        return self.k, self.v


class Eagle3Batch:
    """B answers, padded to S rows, and the window of R rows of each from which drafting starts."""

    def __init__(self, rows: Sequence[Row], head: Eagle3Head) -> None:
        longest = max(len(row.ids) for row in rows)
        width, layers = head.config.hidden_size, head.config.target_layer_ids
        self.ids = torch.zeros(len(rows), longest, dtype=torch.long)
        self.inputs = torch.zeros(len(rows), longest, width)
        self.fused = torch.zeros(len(rows), longest, len(layers) * width)
        self.last = torch.zeros(len(rows), longest, width)
        for b, row in enumerate(rows):
            size = len(row.ids)
            self.ids[b, :size] = row.ids
            self.inputs[b, : size - 1] = row.states[EMBEDDINGS][1:]  # the input of the token after each row
            self.fused[b, :size] = torch.cat([row.states[i] for i in layers], -1)
            self.last[b, :size] = row.last
        self.ends = torch.tensor([len(row.ids) for row in rows])
        first = torch.tensor([row.prompt - 1 for row in rows])
        window = int((self.ends - first).max()) - 2
        self.rows = first[:, None] + torch.arange(max(1, window))  # [B, R], may run over the end; masked then

    def at(self, values: Tensor, shift: int) -> Tensor:
        """`values` [B, S, …] at the window's rows plus `shift`."""
        index = (self.rows + shift).clamp_max(values.shape[1] - 1)
        return values[torch.arange(len(index))[:, None], index]

    def valid(self, shift: int) -> Tensor:
        """bool [B, R]: the token `shift` behind a row exists."""
        return self.rows + shift < self.ends[:, None]


def eagle3_loss(
    head: Eagle3Head, rows: Sequence[Row], lm_head: nn.Module, recipe: HeadRecipe
) -> tuple[Tensor, list[float]]:
    """(loss, top-1 accuracy of each pass) of one batch of answers.

    Pass i starts at every row t of the window and predicts token t + 2 + i. It sees the true features of rows up to
    t and its own earlier passes. Soft cross-entropy against the target, restricted to the draft vocabulary; the
    weight of pass i is decay^i.
    """
    batch, keys = Eagle3Batch(rows, head), _Keys()
    size, (count, window) = batch.ids.shape[1], batch.rows.shape
    causal = torch.ones(size, size, dtype=torch.bool).tril()
    hidden = head(batch.inputs, head.fc(batch.fused), torch.arange(size), causal, keys)
    hidden = batch.at(hidden, 0)
    past = (torch.arange(size) <= batch.rows[..., None])[:, None]  # [B, 1, R, S]
    own = torch.eye(window, dtype=torch.bool).expand(count, 1, -1, -1)
    losses, weights, top1 = [], [], []
    for step in range(recipe.passes):
        if step:
            past = torch.cat([past, own], -1)
            embedded = head.embed_tokens(batch.at(batch.ids, 1 + step))
            hidden = head(embedded, hidden, batch.rows + step, past, keys)
        used = batch.valid(2 + step)
        with torch.no_grad():
            wanted = lm_head(batch.at(batch.last, 1 + step)[used])
            reachable = head.t2d[wanted.argmax(-1)].float()
            probabilities = wanted[:, head.t2d].softmax(-1)
        logits = head.logits(hidden[used])
        loss = -(probabilities * logits.log_softmax(-1)).sum(-1)
        losses.append(recipe.decay**step * (loss * reachable).sum() / reachable.sum().clamp_min(1))
        weights.append(recipe.decay**step)
        right = (logits.argmax(-1) == probabilities.argmax(-1)) & reachable.bool()
        top1.append(right.float().mean().item())
    return torch.stack(losses).sum() / sum(weights), top1
