"""The candidate tree: builders, mask, walk."""

from __future__ import annotations

import itertools

import pytest
import torch

from glance.tree import CandidateTree, best_first, chain

FORK = CandidateTree((5, 6, 7, 8), (-1, -1, 0, 2), (-0.1,) * 4)


def test_best_first_keeps_the_most_probable_prefixes():
    logits = torch.randn(4, 5, generator=torch.Generator().manual_seed(3))
    log_q = logits.log_softmax(-1)
    every = [
        (sum(float(log_q[i, t]) for i, t in enumerate(prefix)), prefix)
        for depth in range(1, 5)
        for prefix in itertools.product(range(5), repeat=depth)
    ]
    best = {prefix for _, prefix in sorted(every, reverse=True)[:12]}
    tree = best_first(logits, 12)
    paths = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    assert set(paths) == best


def test_best_first_is_deterministic_on_ties():
    tree = best_first(torch.zeros(2, 6), 42)
    for parent in (-1, tree.children[-1, 3]):
        assert [t for t, p in zip(tree.tokens, tree.parents, strict=True) if p == parent] == list(range(6))


@pytest.mark.parametrize("budget", [0, 1, 2, 7, 63, 500])
def test_the_budget_counts_nodes_without_the_root(budget):
    assert len(best_first(torch.randn(3, 4), budget)) == min(budget, 4 + 16 + 64)


def test_a_token_without_a_probability_never_enters():
    logits = torch.tensor([[0.0, -torch.inf, 1.0], [2.0, 0.0, -torch.inf]])
    tree = best_first(logits, 50)
    assert len(tree) == 2 + 4
    assert 1 not in (t for t, d in zip(tree.tokens, tree.depths, strict=True) if d == 1)
    assert len(best_first(logits * torch.nan, 50)) == 0


def test_probabilities_are_taken_in_fp32_from_low_precision_logits():
    logits = torch.tensor([[2.0, 1.0, 0.5]], dtype=torch.bfloat16)
    expected = logits.float().log_softmax(-1)[0].tolist()
    assert list(best_first(logits, 3).log_q) == pytest.approx(expected, abs=1e-6)


def test_rows_see_the_root_their_ancestors_and_themselves():
    assert FORK.visible().astype(int).tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 0, 1, 0, 0],
        [1, 1, 0, 1, 0],
        [1, 1, 0, 1, 1],
    ]
    assert FORK.depths == (1, 1, 2, 3)


@pytest.mark.parametrize(
    ("choices", "accepted", "bonus"),
    [
        ([9, 0, 0, 0, 0], [], 9),
        ([6, 0, 4, 0, 0], [1], 4),
        ([5, 7, 0, 8, 3], [0, 2, 3], 3),
    ],
)
def test_the_walk_follows_the_targets_choice(choices, accepted, bonus):
    assert FORK.walk(choices.__getitem__) == (accepted, bonus)


def test_the_walk_asks_each_visited_row_once():
    asked = []
    FORK.walk(lambda row: asked.append(row) or {0: 5, 1: 7}.get(row, 1))
    assert asked == [0, 1, 3]


def test_a_chain_is_a_tree_of_width_one():
    tree = chain([3, 4], [-0.5, -0.6])
    assert (tree.tokens, tree.parents, tree.depths) == ((3, 4), (-1, 0), (1, 2))


@pytest.mark.parametrize("parents", [(0,), (-1, 1), (-2,)])
def test_a_child_before_its_parent_is_refused(parents):
    with pytest.raises(ValueError, match="after its parent"):
        CandidateTree(tuple(range(len(parents))), parents, (0.0,) * len(parents))


def test_equal_siblings_are_refused():
    with pytest.raises(ValueError, match="different tokens"):
        CandidateTree((4, 4), (-1, -1), (0.0, 0.0))
