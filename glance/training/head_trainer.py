"""Optimizing a draft head of either kind: batches, rates, steps shared by threads and processes, checkpoints."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from glance.training.head_recipe import HeadRecipe
from glance.training.muon import optimizer_pair
from glance.training.run_folder import STATE
from glance.training.states import Row

Loss = Callable[[list[Row], random.Random], tuple[Tensor, float]]


class HeadTrainer:
    """Optimizes a head over epochs of the corpus, cosine rate after a warm-up.

    Each batch is shared by the processes of an `accelerate launch`, and by `workers` threads in each of them.
    """

    def __init__(
        self,
        recipe: HeadRecipe,
        head: nn.Module,
        loss: Loss,
        rows: list[Row],
        workers: int = 1,
        processes: Accelerator | None = None,
    ) -> None:
        self.recipe, self.head, self.loss, self.rows, self.workers = recipe, head, loss, rows, workers
        self.processes = processes
        self.rank, self.count = (processes.process_index, processes.num_processes) if processes else (0, 1)
        self.threads, self.device = ThreadPoolExecutor(workers), next(head.parameters()).device
        self.steps = recipe.epochs * math.ceil(len(rows) / recipe.batch)
        self.done = 0
        learnt = [(name, p) for name, p in head.named_parameters() if p.requires_grad]
        self.optimizers = optimizer_pair(
            learnt, ("lm_head",), recipe, self.threads, recipe.bfloat16, recipe.weight_decay
        )

    def rate(self) -> float:
        """Factor on both learning rates."""
        warm = max(1, round(self.recipe.warmup * self.steps))
        if self.done < warm:
            return (self.done + 1) / warm
        return 0.5 * (1 + math.cos(math.pi * (self.done - warm) / max(1, self.steps - warm)))

    def batches(self) -> Iterator[list[Row]]:
        """What is left of the run. Rows of one batch are of like length."""
        per_epoch = math.ceil(len(self.rows) / self.recipe.batch)
        while self.done < self.steps:
            epoch, step = divmod(self.done, per_epoch)
            rng = random.Random(f"{self.recipe.seed}/{epoch}")
            order = sorted(range(len(self.rows)), key=lambda i: len(self.rows[i].ids) + 8 * rng.random())
            chunks = [order[i : i + self.recipe.batch] for i in range(0, len(order), self.recipe.batch)]
            rng.shuffle(chunks)
            for chunk in chunks[step:]:
                yield [self.rows[i] for i in chunk]

    def _backward(self, rows: list[Row], rng: random.Random, share: float) -> tuple[float, float]:
        """Add one worker's share of the gradient."""
        narrow = torch.autocast(self.device.type, torch.bfloat16, enabled=self.recipe.bfloat16)
        with self.device, narrow:  # the device is where tensors without a place are made
            loss, accuracy = self.loss(rows, rng)
        (share * loss).backward()
        return loss.item(), accuracy

    def step(self, rows: list[Row]) -> tuple[float, float]:
        """One optimizer step: (loss, top-1 accuracy at the first offset)."""
        factor = self.rate()
        for optimizer, rate in zip(self.optimizers, (self.recipe.muon_rate, self.recipe.adam_rate), strict=True):
            optimizer.param_groups[0]["lr"] = rate * factor
        everyone = range(self.rank * self.workers, (self.rank + 1) * self.workers)
        mine = {i: part for i in everyone if (part := rows[i :: self.workers * self.count])}
        rngs = [random.Random(f"{self.recipe.seed}/{self.done}/{i}") for i in mine]
        shares = [len(part) / len(rows) for part in mine.values()]
        found = torch.tensor(
            list(self.threads.map(self._backward, mine.values(), rngs, shares)) or [[math.nan, math.nan]]
        )
        if self.count > 1:
            self._add_up()
        nn.utils.clip_grad_norm_(self.head.parameters(), self.recipe.clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.done += 1
        return tuple(found.nanmean(0).tolist())

    def _add_up(self) -> None:
        """Give every process the sum of all gradients."""
        learnt = [p for p in self.head.parameters() if p.requires_grad]
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in learnt]
        total = self.processes.reduce(torch.cat([grad.flatten() for grad in grads]), "sum")
        for p, grad in zip(learnt, total.split([p.numel() for p in learnt]), strict=True):
            p.grad = grad.view_as(p)

    def save(self, folder: Path) -> None:
        state = {
            "head": self.head.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "done": self.done,
        }
        torch.save(state, folder / "state.tmp")
        (folder / "state.tmp").replace(folder / STATE)

    def load(self, folder: Path) -> None:
        state = torch.load(folder / STATE, map_location=self.device, weights_only=True)
        self.head.load_state_dict(state["head"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.done = state["done"]
