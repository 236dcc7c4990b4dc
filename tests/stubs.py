"""A target without weights, and drafters that know the answer, or do not.

The stub's next token is a hash of the whole prefix, which it reads back from the real cache: a row that was compacted
to the wrong place, or kept by mistake, changes every later token.
"""

from __future__ import annotations

import functools
import hashlib

import torch

from glance.cache import TreeCache
from glance.engine import Draft, Step
from glance.prompt import Prompt
from glance.target import Prefill, Verified
from glance.tree import CandidateTree, chain

VOCABULARY = 23


@functools.lru_cache(100_000)
def next_logits(prefix: tuple[int, ...]) -> torch.Tensor:
    """Logits after a prefix: random numbers that only the prefix decides, float32 [V]."""
    seed = int.from_bytes(hashlib.sha256(repr(prefix).encode()).digest()[:6], "big")
    return 3 * torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed))


def next_token(prefix: tuple[int, ...]) -> int:
    """The greedy choice after a prefix."""
    return int(next_logits(prefix).argmax())


def greedy(prefix: tuple[int, ...], count: int) -> list[int]:
    """The greedy continuation of a prefix."""
    out: list[int] = []
    for _ in range(count):
        out.append(next_token((*prefix, *out)))
    return out


class StubTarget:
    """Stands in for `glance.target.Target`; the keys in its cache are the token ids themselves."""

    device = torch.device("cpu")

    def __init__(self, logits=next_logits) -> None:
        self.logits = logits
        self.passes: list[int] = []

    def prefill(self, ids: tuple[int, ...]) -> Prefill:
        """Fill a cache with the prompt's ids."""
        cache = TreeCache(1, len(ids))
        self._write(cache, ids)
        cache.commit(range(len(ids)))
        row = torch.tensor([ids])
        prompt = Prompt("?", row, row.expand(3, 1, -1), 0, {}, (), "")
        return Prefill(prompt, cache, self.logits(tuple(ids)), {0: row[0, :, None].float()})

    def verify(self, cache: TreeCache, root: int, tree: CandidateTree, prompt: Prompt) -> Verified:
        """One row for the root and one for each node; the past comes from the cache."""
        self.passes.append(len(tree) + 1)
        past = tuple(int(k) for k in cache.layers[0].keys[0, 0, : cache.committed, 0])
        self._write(cache, (root, *tree.tokens))
        paths = [(*past, root)]
        for token, parent in zip(tree.tokens, tree.parents, strict=True):
            paths.append((*paths[parent + 1], token))
        states = torch.tensor([[float(p[-1])] for p in paths])
        return Verified(torch.stack([self.logits(p) for p in paths]), {0: states})

    @staticmethod
    def _write(cache: TreeCache, ids: tuple[int, ...]) -> None:
        rows = torch.tensor(ids, dtype=torch.float32).view(1, 1, -1, 1)
        cache.update(rows, rows, 0)


class Oracle:
    """Knows the answer. Drafts the greedy continuation, hidden among wrong siblings that come first.

    Args:
        length: how many right tokens it drafts.
        decoys: wrong siblings before each right node, so accepted rows are not contiguous.
    """

    def __init__(self, length: int = 3, decoys: int = 2) -> None:
        self.length, self.decoys = length, decoys
        self.prefix: list[int] = []
        self.steps: list[Step] = []

    def begin(self, prefill: Step, capacity: int) -> None:
        """Read the prompt."""
        self.commit(prefill)

    def propose(self, budget: int) -> Draft:
        """Decoys first, then the right child; its children follow under it."""
        right = greedy((*self.prefix, self.root), self.length)
        tokens: list[int] = []
        parents: list[int] = []
        parent = -1
        for token in right:
            wrong = [t for t in range(VOCABULARY) if t != token][: self.decoys]
            for candidate in (*wrong, token):
                if len(tokens) < budget:
                    tokens.append(candidate)
                    parents.append(parent)
            parent = len(tokens) - 1
        return Draft(CandidateTree(tuple(tokens), tuple(parents), (-1.0,) * len(tokens)), passes=1)

    def commit(self, accepted: Step) -> None:
        """Extend the prefix by what was verified."""
        assert accepted.start == len(self.prefix)
        assert accepted.states[0][:, 0].tolist() == accepted.tokens.tolist()
        self.prefix += accepted.tokens.tolist()
        self.root = accepted.root
        self.steps.append(accepted)


class Wrong:
    """Never right: drafts a chain that the target does not choose."""

    def begin(self, prefill: Step, capacity: int) -> None:
        """Read the prompt."""
        self.prefix: list[int] = []
        self.commit(prefill)

    def propose(self, budget: int) -> Draft:
        """A chain that starts with a wrong token."""
        wrong = (next_token((*self.prefix, self.root)) + 1) % VOCABULARY
        return Draft(chain([wrong] * min(3, budget), [-1.0] * min(3, budget)), passes=1)

    def commit(self, accepted: Step) -> None:
        """Extend the prefix by what was verified."""
        self.prefix += accepted.tokens.tolist()
        self.root = accepted.root


class Known:
    """Drafts from a known answer, decoys first: any accepted path leaves the first branch and skips rows."""

    def __init__(self, answer: list[int], length: int = 4, decoys: int = 2, vocabulary: int = VOCABULARY) -> None:
        self.answer, self.length, self.decoys, self.vocabulary = answer, length, decoys, vocabulary
        self.horizon = length
        self.done = 0

    def begin(self, prefill: Step, capacity: int) -> None:
        """The first token is pending."""

    def propose(self, budget: int) -> Draft:
        """The next right tokens, each behind its decoys."""
        tokens: list[int] = []
        parents: list[int] = []
        parent = -1
        for token in self.answer[self.done + 1 : self.done + 1 + self.length]:
            wrong = [(token + k) % self.vocabulary for k in range(1, self.decoys + 1)]
            for candidate in (*wrong, token):
                tokens.append(candidate)
                parents.append(parent)
            parent = len(tokens) - 1
        return Draft(CandidateTree(tuple(tokens), tuple(parents), (-1.0,) * len(tokens)), passes=1)

    def commit(self, accepted: Step) -> None:
        """Move on."""
        self.done += len(accepted.tokens)
