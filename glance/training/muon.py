"""Muon for many small matrices: momentum, then the nearest orthogonal matrix by Newton–Schulz (Jordan et al., 2024).

`torch.optim.Muon` orthogonalizes one matrix after another in bfloat16. Here the matrices of one shape go through
batched products, in float32 where asked: several times faster on a CPU without bfloat16 units.
"""

from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import Executor
from functools import partial
from typing import Any

import torch
from torch import Tensor

from glance.training.head_recipe import HeadRecipe
from glance.training.recipe import TargetRecipe

_A, _B, _C = 3.4445, -4.7750, 2.0315
_CHUNK = 8  # matrices in one batched product


def orthogonalize(batch: Tensor, steps: int = 5) -> Tensor:
    """Push the singular values of each [r, c] matrix of `batch` [n, r, c] towards one."""
    tall = batch.shape[1] > batch.shape[2]
    x = batch.mT if tall else batch
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=_B, alpha=_C), x, beta=_A)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalized. Parameters are matrices; a step has spectral norm lr · sqrt(max(1, rows / columns)).

    With `threads`, chunks of matrices are shared among them. `precision` is that of the orthogonalizing products.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.01,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
        threads: Executor | None = None,
        precision: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.threads, self.precision = threads, precision

    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    by_shape[p.shape].append(p)
            chunks = [same[i : i + _CHUNK] for same in by_shape.values() for i in range(0, len(same), _CHUNK)]
            run = self.threads.map if self.threads else map
            for _ in run(partial(self._update, group), chunks):
                pass

    @torch.no_grad()
    def _update(self, group: dict[str, Any], params: list[Tensor]) -> None:
        """Step for a few matrices of one shape."""
        updates = []
        for p in params:
            state = self.state[p]
            if not state:
                state["momentum"] = torch.zeros_like(p)
            average = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
            updates.append(p.grad.lerp(average, group["momentum"]))
        directions = orthogonalize(torch.stack(updates).to(self.precision)).float().unbind()
        rows, columns = params[0].shape
        torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(params, directions, alpha=-group["lr"] * max(1, rows / columns) ** 0.5)


def optimizer_pair(
    named: Iterable[tuple[str, Tensor]],
    apart: tuple[str, ...],
    recipe: TargetRecipe | HeadRecipe,
    threads: Executor,
    bfloat16: bool,
    decay: float,
) -> tuple[Muon, torch.optim.AdamW]:
    """Muon for the matrices, AdamW for what is none and for matrices with a part of `apart` in their names.

    The rates and Muon's weight decay are the recipe's, AdamW's is `decay`; `bfloat16` is Muon's precision.
    """
    matrices, others = [], []
    for name, p in named:
        is_ours = p.ndim == 2 and not any(part in name for part in apart)
        (matrices if is_ours else others).append(p)
    precision = torch.bfloat16 if bfloat16 else torch.float32
    return (
        Muon(matrices, recipe.muon_rate, weight_decay=recipe.weight_decay, threads=threads, precision=precision),
        torch.optim.AdamW(others, recipe.adam_rate, betas=(0.9, 0.95), weight_decay=decay),
    )
