"""The key/value cache of one request: preallocated, written in place, compacted after each round."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Sequence

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


class TreeLayer(CacheLayerMixin):
    """Keys and values of one layer in fixed buffers of shape [1, kv_heads, capacity, head_dim].

    `update` writes the new rows behind the stored ones and returns views of what is filled, so nothing is
    concatenated or moved while decoding.
    """

    is_sliding = False
    is_croppable = False

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.length = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate the buffers in the dtype and on the device of the first rows."""
        shape = (*key_states.shape[:2], self.capacity)
        self.keys = key_states.new_empty(*shape, key_states.shape[-1])
        self.values = value_states.new_empty(*shape, value_states.shape[-1])
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append [1, kv_heads, rows, head_dim] and return views of all filled rows.

        Raises:
            ValueError: the rows do not fit; the request was given too small a capacity.
        """
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[-2]
        if end > self.capacity:
            raise ValueError(f"The cache holds {self.capacity} rows and {end} were asked for.")
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_seq_length(self) -> int:
        """Rows filled, the uncommitted window included."""
        return self.length

    def get_max_length(self) -> int:
        """Rows that fit."""
        return self.capacity

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """(key length, key offset) that transformers' mask builder asks for."""
        return self.length + query_length, 0

    def keep(self, start: int, rows: torch.Tensor | None, count: int) -> None:
        """Move window rows (offsets from `start`) to the window's front; `rows` None means they lie there."""
        if rows is not None:
            source = start + rows.to(self.keys.device)
            self.keys[:, :, start : start + count] = self.keys[:, :, source]
            self.values[:, :, start : start + count] = self.values[:, :, source]
        self.length = start + count


class FixedLayer(CacheLayerMixin):
    """Keys and values that a cross-attention layer takes from the image: written at prefill, only read afterwards."""

    is_sliding = False
    is_croppable = False

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Keep the states as they are."""
        self.keys, self.values = key_states, value_states
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Take [1, kv_heads, image rows, head_dim], once.

        Raises:
            ValueError: the image is here already.
        """
        if self.is_initialized:
            raise ValueError("The keys and values of the image are written once, at prefill.")
        self.lazy_initialization(key_states, value_states)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """Rows of the image."""
        return self.keys.shape[-2] if self.is_initialized else 0

    def get_max_length(self) -> int:
        """As many as there are."""
        return self.get_seq_length()

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """(key length, key offset)."""
        return self.get_seq_length(), 0


class TreeCache(Cache):
    """The cache of one request. Rows behind `committed` form the window of the pass in flight.

    Keys are stored already rotated by their own positions, so a row that moves in the buffer stays right as long
    as its position does: a node's depth is its index on the accepted path (formats: DDTree's compaction).

    Args:
        layers: how many layers there are.
        capacity: rows that each holds.
        fixed: layers that keep the image's keys and values instead; no commit, rollback or fork changes those.
    """

    def __init__(self, layers: int, capacity: int, fixed: Collection[int] = ()) -> None:
        super().__init__(layers=[FixedLayer() if i in fixed else TreeLayer(capacity) for i in range(layers)])
        self.rows = [layer for layer in self.layers if isinstance(layer, TreeLayer)]
        self.committed = 0
        self.passes: dict[Hashable, object] = {}  # of fixed shapes over these buffers, by shape

    def commit(self, rows: Sequence[int]) -> None:
        """Keep these rows of the window, in this order, and forget the others.

        Args:
            rows: strictly increasing offsets into the window, 0 being its first row.

        Raises:
            ValueError: rows out of order or outside the window.
        """
        window = self.rows[0].length - self.committed
        rows = list(rows)
        if any(b <= a for a, b in itertools.pairwise(rows)) or (rows and not 0 <= rows[0] <= rows[-1] < window):
            raise ValueError(f"The rows {rows} are not increasing offsets into a window of {window} rows.")
        in_place = rows == list(range(len(rows)))
        index = None if in_place else torch.tensor(rows, device=self.rows[0].keys.device)
        for layer in self.rows:
            layer.keep(self.committed, index, len(rows))
        self.committed += len(rows)

    def rollback(self) -> None:
        """Drop the window: the pass in flight leaves no trace."""
        for layer in self.rows:
            layer.length = self.committed

    def rewind(self, rows: int) -> None:
        """Forget all rows behind the first `rows` committed ones, the window included."""
        self.committed = rows
        self.rollback()

    def fork(self, capacity: int) -> TreeCache:
        """A copy of the committed rows with room for `capacity` rows in all; the original is not touched."""
        fixed = {i: layer for i, layer in enumerate(self.layers) if isinstance(layer, FixedLayer)}
        copy = TreeCache(len(self.layers), capacity, fixed)
        for i, layer in fixed.items():
            copy.layers[i] = layer  # nothing writes to it any more, so both may hold it
        for mine, theirs in zip(self.rows, copy.rows, strict=True):
            if mine.is_initialized:
                theirs.update(mine.keys[:, :, : self.committed], mine.values[:, :, : self.committed])
        copy.committed = self.committed
        return copy
