"""What the heads read: the frozen target's states over prompts and answers, computed once and kept on disk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from glance.checkpoints import TargetParts
from glance.training.corpus import Answered, make_prompt
from glance.training.forward import TargetForward
from glance.training.guided import first_head_scores


@dataclass(frozen=True)
class Row:
    """One teacher-forced answer: what the target computed over prompt and answer, S tokens in all.

    Args:
        ids: int64 [S].
        prompt: number of prompt tokens; `ids[prompt]` is the first answer token, which the target gives at prefill.
        states: layer id → float [S, H], as `glance.target.capture` reads them.
        last: float [S, H], the normed last states; the target's output head turns row t into token t + 1.
        looks: float [S, n], how the target's pointing head spread its attention over the n visual tokens when it gave
            each token; n = 0 where no head is known to point.
        first: column of the first visual token.
    """

    ids: Tensor
    prompt: int
    states: dict[int, Tensor]
    last: Tensor
    looks: Tensor
    first: int


@dataclass(frozen=True)
class Reads:
    """What to keep of the target: the outputs of `layers`, and the attention of the first head of layer `pointing`."""

    layers: tuple[int, ...]
    pointing: int | None = None


def teacher_forced(
    parts: TargetParts, corpus: Sequence[Answered], reads: Reads, batch: int = 16, quiet: bool = True
) -> list[Row]:
    """Run the target once over each prompt and its answer; rows come in the order of the corpus.

    Images of one size share a pass. Padding stands behind the answers, where causal rows do not see it.
    """
    forward = TargetForward(parts.model)
    by_size: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, one in enumerate(corpus):
        by_size[one.size].append(i)
    rows: list[Row | None] = [None] * len(corpus)
    with tqdm(total=len(corpus), disable=quiet, desc="states", mininterval=5) as bar:
        for members in by_size.values():
            members.sort(key=lambda i: len(corpus[i].answer))
            for start in range(0, len(members), batch):
                chosen = members[start : start + batch]
                for i, row in zip(chosen, _forced(parts, forward, [corpus[i] for i in chosen], reads), strict=True):
                    rows[i] = row
                bar.update(len(chosen))
    return rows  # type: ignore[return-value]


@torch.no_grad()
def _forced(parts: TargetParts, forward: TargetForward, answered: Sequence[Answered], reads: Reads) -> list[Row]:
    """Rows of answers to images of one size."""
    prompts = [make_prompt(parts, one.draw()) for one in answered]
    sizes = [prompt.length + len(one.answer) for prompt, one in zip(prompts, answered, strict=True)]
    ids = torch.full((len(prompts), max(sizes)), parts.tokenizer.pad_token_id)
    for i, (prompt, one) in enumerate(zip(prompts, answered, strict=True)):
        ids[i, : sizes[i]] = torch.cat([prompt.ids[0], torch.tensor(one.answer)])
    # the images stand at one place and are equally large: all rows share their positions, as far as they go
    longest = max(prompts, key=lambda prompt: prompt.length)
    after = (torch.arange(longest.length, ids.shape[1]) + longest.rope_delta).expand(3, 1, -1)
    positions = torch.cat([longest.positions, after], dim=-1)
    first = int((prompts[0].ids[0] == parts.model.config.image_token_id).nonzero()[0])
    device = parts.model.device
    pixels = torch.stack([prompt.pixels for prompt in prompts]).to(device, parts.model.dtype)
    seen = forward.see(pixels, tuple(prompts[0].grid[0, 1:].tolist()))
    # what a layer gives is read where the next takes it in, after the DeepStack features
    pointing = () if reads.pointing is None else (reads.pointing,)
    tap = (*pointing, *(layer + 1 for layer in reads.layers))
    last, tapped, rope = forward.read(ids.to(device), positions.to(device), first, seen, tap)
    looks = last.new_zeros(*ids.shape, seen[0].shape[1] if pointing else 0)
    for layer in pointing:
        scores = first_head_scores(forward.text.layers[layer], tapped[layer], rope).softmax(-1)
        looks[:, 1:] = scores[:, :-1, first : first + looks.shape[2]]
    return [
        Row(
            ids[i, :size].clone(),
            prompts[i].length,
            {layer: tapped[layer + 1][i, :size].to("cpu", copy=True) for layer in reads.layers},
            last[i, :size].to("cpu", copy=True),
            looks[i, :size].to("cpu", copy=True),
            first,
        )
        for i, size in enumerate(sizes)
    ]


def save_rows(rows: Sequence[Row], file: Path) -> None:
    """Write rows end to end, states and attention in bfloat16."""
    tensors = {
        "prompts": torch.tensor([row.prompt for row in rows]),
        "sizes": torch.tensor([len(row.ids) for row in rows]),
        "firsts": torch.tensor([row.first for row in rows]),
        "cells": torch.tensor([row.looks.shape[1] for row in rows]),
        "ids": _joined([row.ids for row in rows]),
        "last": _joined([row.last.bfloat16() for row in rows]),
        "looks": _joined([row.looks.bfloat16().flatten() for row in rows]),
        "states": {
            layer: _joined([row.states[layer].bfloat16() for row in rows]) for layer in (rows[0].states if rows else ())
        },
    }
    unfinished = file.with_suffix(".tmp")
    torch.save(tensors, unfinished)
    unfinished.replace(file)


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(tensors)) if tensors else torch.empty(0)


def load_rows(file: Path) -> list[Row]:
    """Rows whose states stay on disk (memory-mapped) until they are read."""
    saved = torch.load(file, mmap=True, weights_only=True)
    ids, states = saved["ids"], saved["states"]
    rows, start, looked = [], 0, 0
    columns = (saved[name].tolist() for name in ("prompts", "sizes", "firsts", "cells"))
    for prompt, size, first, cells in zip(*columns, strict=True):
        span = slice(start, start + size)
        looks = saved["looks"][looked : looked + size * cells].view(size, cells)
        kept = {layer: t[span] for layer, t in states.items()}
        rows.append(Row(ids[span], prompt, kept, saved["last"][span], looks, first))
        start, looked = start + size, looked + size * cells
    return rows
