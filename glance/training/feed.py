"""Batches drawn and encoded ahead of the trainer, by processes: a GPU takes them faster than one process draws."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

import torch
from transformers import PreTrainedTokenizerBase

from glance.training.architecture import build_image_processor
from glance.training.batch import Batch, Encoder, draw_pool
from glance.training.dense import DenseLabels, dense_labels
from glance.training.recipe import TargetRecipe
from glance.training.workers import worker_pool

Fed = tuple[Batch, DenseLabels]


class Feed:
    """Pools of batches, the very ones that a trainer without a feed draws, but for their images: 8-bit patches.

    Args:
        processes: how many draw; so many pools are in the making at a time.
        count: batches of a pool.
    """

    def __init__(self, recipe: TargetRecipe, tokenizer: PreTrainedTokenizerBase, processes: int, count: int) -> None:
        self.recipe, self.tokenizer, self.processes, self.count = recipe, tokenizer, processes, count
        self.workers = worker_pool(processes)
        self.pending: dict[tuple[int, int], Future[bytes]] = {}

    def pool(self, stage: int, index: int, level_at: Callable[[int], float]) -> list[Fed]:
        """Pool `index` of a stage. The next ones are ordered as well; those of a stage that ended are dropped."""
        for key in [key for key in self.pending if key[0] != stage]:
            self.pending.pop(key).cancel()
        for ahead in range(index, index + self.processes + 1):
            if (stage, ahead) not in self.pending:
                seed = f"{self.recipe.seed}/{stage}/{ahead}"
                job = (self.recipe, stage, self.tokenizer, self.count, seed, level_at(ahead * self.count))
                self.pending[stage, ahead] = self.workers.submit(_pool, *job)
        return torch.load(io.BytesIO(self.pending.pop((stage, index)).result()), weights_only=False)

    def close(self) -> None:
        """End the processes."""
        self.workers.shutdown(cancel_futures=True)


def _pool(
    recipe: TargetRecipe, stage: int, tokenizer: PreTrainedTokenizerBase, count: int, seed: str, level: float
) -> bytes:
    """One pool of a stage, saved. Its images travel as 8-bit patches; the drawn samples stay in the process."""
    encode = Encoder(tokenizer, build_image_processor(recipe.shape), recipe.shape)
    pool = []
    for samples in draw_pool(recipe.families_of(stage), recipe.batch, count, seed, "train", level):
        batch = encode(samples)
        labels = dense_labels(samples, batch.pixels, recipe.shape)
        pool.append((replace(batch, samples=(), pixels=encode.patches([one.image for one in samples])), labels))
    packed = io.BytesIO()
    torch.save(pool, packed)  # bytes through a pipe: shared memory is scarce in containers
    return packed.getvalue()
