"""The candidate tree: what a drafter proposes and the target verifies in one pass.

Nodes are numbered from 0 without the root, parents before children; parent -1 is the root. In a verify pass the
root is row 0 and node i is row i + 1. A budget counts nodes without the root (paper, Definition 1).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch


@dataclass(frozen=True)
class CandidateTree:
    """A prefix-closed set of continuations of the root, as flat arrays.

    Args:
        tokens: token id of each node.
        parents: index of each node's parent, smaller than its own; -1 for children of the root.
        log_q: natural-log probability that the drafter gave each node after its parent.

    Raises:
        ValueError: a child before its parent, or two siblings with one token (the walk would be ambiguous).
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    log_q: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.tokens) == len(self.parents) == len(self.log_q):
            raise ValueError("The arrays of a tree must be equally long.")
        if any(not -1 <= p < i for i, p in enumerate(self.parents)):
            raise ValueError("Each node of a tree must come after its parent.")
        if len(self.children) != len(self.tokens):
            raise ValueError("Siblings in a tree must have different tokens.")

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def children(self) -> dict[tuple[int, int], int]:
        """(parent, token) -> node."""
        return {key: i for i, key in enumerate(zip(self.parents, self.tokens, strict=True))}

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Depth of each node; children of the root have depth 1."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return tuple(depths)

    def visible(self) -> np.ndarray:
        """Which row may see which: bool [N + 1, N + 1], a row sees the root, its ancestors and itself."""
        mask = np.zeros((len(self) + 1, len(self) + 1), dtype=bool)
        mask[0, 0] = True
        for i, parent in enumerate(self.parents):
            mask[i + 1] = mask[parent + 1]
            mask[i + 1, i + 1] = True
        return mask

    def walk(self, choose: Callable[[int], int | None]) -> tuple[list[int], int | None]:
        """Follow the target's own choice from the root while the tree has it.

        Args:
            choose: row -> the target's token after that row (row 0 is the root), asked once for each visited
                row; None ends the walk without a token.

        Returns:
            The accepted nodes, and the choice at the last visited row, which the tree lacks (or None).
        """
        accepted: list[int] = []
        node = -1
        while True:
            token = choose(node + 1)
            child = None if token is None else self.children.get((node, token))
            if child is None:
                return accepted, token
            accepted.append(child)
            node = child


def chain(tokens: Sequence[int], log_q: Sequence[float]) -> CandidateTree:
    """A tree of width one: each token is the child of the one before."""
    return CandidateTree(tuple(tokens), tuple(range(-1, len(tokens) - 1)), tuple(log_q))


def best_first(logits: torch.Tensor, budget: int) -> CandidateTree:
    """The `budget` most probable prefixes under independent per-offset marginals.

    The drafter gives one distribution an offset; a prefix scores the sum of its log-probabilities. A heap pops
    prefixes in falling order and pushes each one's next sibling and first child (DDTree, Algorithm 1), so the
    result is prefix-closed and holds the best prefixes. Ties are broken by rank, then by token id. A token whose
    probability is zero or no number never enters.

    Args:
        logits: [offsets, vocabulary], any float dtype; log-probabilities are taken in fp32.
        budget: nodes without the root.
    """
    width = min(budget, logits.shape[-1])
    if width <= 0 or logits.shape[0] == 0:
        return CandidateTree()
    log_q, ids = logits.float().log_softmax(-1).topk(width)
    return best_prefixes(log_q.tolist(), ids.tolist(), budget)


def best_prefixes(top_log_q: Sequence[Sequence[float]], ids: Sequence[Sequence[int]], budget: int) -> CandidateTree:
    """`best_first` from what it needs of the marginals: each offset's `budget` likeliest tokens, or more."""
    ranked = [
        sorted(((q, i) for q, i in zip(p, t, strict=True) if q > -math.inf), key=lambda e: (-e[0], e[1]))
        for p, t in zip(top_log_q, ids, strict=True)
    ]
    tokens: list[int] = []
    parents: list[int] = []
    log_q: list[float] = []
    heap = [(-ranked[0][0][0], (0,), -1)] if ranked[0] else []
    while heap and len(tokens) < budget:
        negative, ranks, parent = heapq.heappop(heap)
        offset, rank = len(ranks) - 1, ranks[-1]
        log_p, token = ranked[offset][rank]
        node = len(tokens)
        tokens.append(token)
        parents.append(parent)
        log_q.append(log_p)
        if rank + 1 < len(ranked[offset]):
            sibling = ranked[offset][rank + 1][0]
            heapq.heappush(heap, (negative + log_p - sibling, (*ranks[:-1], rank + 1), parent))
        if offset + 1 < len(ranked) and ranked[offset + 1]:
            heapq.heappush(heap, (negative - ranked[offset + 1][0][0], (*ranks, 0), node))
    return CandidateTree(tuple(tokens), tuple(parents), tuple(log_q))
