"""The preallocated cache: append, commit, roll back, fork."""

from __future__ import annotations

import pytest
import torch

from glance.cache import TreeCache


def rows(*values: float) -> torch.Tensor:
    """[1, 2, n, 3], each row filled with its value."""
    return torch.tensor(values).view(1, 1, -1, 1).expand(1, 2, -1, 3).contiguous()


def filled(cache: TreeCache, layer: int = 0) -> list[float]:
    """The first number of each filled key row."""
    held = cache.layers[layer]
    return held.keys[0, 1, : held.length, 2].tolist()


@pytest.fixture
def cache() -> TreeCache:
    """Two layers with rows 1, 2 committed and a window of 10, 11, 12, 13."""
    cache = TreeCache(2, capacity=9)
    for layer in range(2):
        cache.update(rows(1, 2), -rows(1, 2), layer)
    cache.commit([0, 1])
    for layer in range(2):
        cache.update(rows(10, 11, 12, 13), -rows(10, 11, 12, 13), layer)
    return cache


@pytest.mark.parametrize(
    ("kept", "expected"),
    [([0, 2, 3], [10, 12, 13]), ([0], [10]), ([0, 1], [10, 11]), ([], []), ([3], [13])],
)
def test_commit_compacts_the_window_in_place(cache, kept, expected):
    storage = cache.layers[0].keys.data_ptr()
    cache.commit(kept)
    for layer in range(2):
        assert filled(cache, layer) == [1, 2, *expected]
        assert torch.equal(
            cache.layers[layer].values[:, :, : cache.committed],
            -cache.layers[layer].keys[:, :, : cache.committed],
        )
    assert cache.layers[0].keys.data_ptr() == storage
    assert cache.committed == cache.get_seq_length() == 2 + len(kept)


def test_rollback_drops_the_window(cache):
    cache.rollback()
    assert filled(cache) == [1, 2]


def test_update_returns_everything_filled_without_copying(cache):
    keys, _ = cache.update(rows(14), -rows(14), 0)
    assert keys[0, 0, :, 0].tolist() == [1, 2, 10, 11, 12, 13, 14]
    assert keys.data_ptr() == cache.layers[0].keys.data_ptr()


def test_a_fork_shares_nothing(cache):
    fork = cache.fork(5)
    assert filled(fork) == [1, 2] and fork.committed == 2
    fork.update(rows(7), rows(7), 0)
    cache.layers[0].keys[:] = 0
    assert filled(fork) == [1, 2, 7]


@pytest.mark.parametrize("wrong", [[1, 0], [0, 0], [4], [-1]])
def test_rows_out_of_order_or_outside_are_refused(cache, wrong):
    with pytest.raises(ValueError, match="increasing offsets"):
        cache.commit(wrong)


def test_too_many_rows_are_refused(cache):
    with pytest.raises(ValueError, match="holds 9 rows"):
        cache.update(rows(*range(4)), rows(*range(4)), 0)
