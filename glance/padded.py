"""Passes of fixed shapes, which a GPU can record once and replay.

A round's passes are small, and launching their kernels one by one takes longer than running them. With the rows padded
to a few sizes, and keys and values read from whole preallocated buffers, a pass is always the same kernels over the
same addresses: a CUDA graph. Without a GPU the same code runs unrecorded, and the tests compare it with the ordinary
passes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

import torch
from transformers.cache_utils import Cache

from .cache import TreeCache
from .prompt import Prompt
from .tree import CandidateTree

if TYPE_CHECKING:
    from .target import Target

SIZES = (1, 16, 32, 64, 128)  # rows of a verify pass, the root's included
Result = TypeVar("Result")
log = logging.getLogger(__name__)


class Recorded(Generic[Result]):
    """A function that reads and writes fixed buffers: recorded and replayed on a GPU, else simply called.

    `note` says why it is not recorded, and is empty where it is.

    Args:
        buffers: what a call may fill by name before the function reads it.
    """

    def __init__(
        self,
        run: Callable[[], Result],
        device: torch.device,
        record: bool = True,
        buffers: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        self.run, self.buffers, self.graph, self.note = run, buffers or {}, None, "not asked for"
        if not record:
            return
        if device.type != "cuda":
            self.note = "there is no GPU"
            return
        try:
            aside = torch.cuda.Stream(device)
            aside.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(aside):
                for _ in range(2):  # what kernels allocate or choose at their first run must not be recorded
                    run()
            torch.cuda.current_stream(device).wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.result = run()
            self.graph, self.note = graph, ""
        except RuntimeError as error:
            torch.cuda.synchronize(device)
            self.note = f"recording failed: {str(error).splitlines()[0]}"
            log.warning("A pass runs without a CUDA graph; %s.", self.note)

    def __call__(self, **values: torch.Tensor) -> Result:
        """The result for these values of the buffers; a later call may overwrite it."""
        for name, value in values.items():
            self.buffers[name].copy_(value)
        if self.graph is None:
            return self.run()
        self.graph.replay()
        return self.result


class WholeBuffers(Cache):
    """A cache's buffers, whole: new rows go where `slots` says, and a mask must hide what is not filled."""

    def __init__(self, cache: TreeCache, slots: torch.Tensor) -> None:
        super().__init__(layers=cache.layers)
        self.slots = slots
        for layer in cache.rows:
            for buffer in (layer.keys, layer.values):
                buffer[:, :, layer.length :] = 0  # a masked key weighs nothing, but nothing times NaN is NaN

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write [1, kv_heads, rows, head_dim] at the slots; the whole buffers."""
        layer = self.layers[layer_idx]
        layer.keys.index_copy_(2, self.slots, key_states)
        layer.values.index_copy_(2, self.slots, value_states)
        return layer.keys, layer.values


def padded_head_pass(cache: TreeCache, shape: Hashable, run: Callable[..., Result], **tensors: torch.Tensor) -> Result:
    """A draft head's pass over the whole buffers of its cache; recorded at the first pass of this shape.

    Args:
        shape: tells passes of different shapes apart.
        run: called with the buffers as a cache, and with tensors at fixed addresses. The cache keeps it, so it must not
            keep the cache.
        tensors: of the same shapes each time; `slots` are the rows of the cache that the pass writes.

    Returns:
        What `run` gives; the next call may overwrite it.
    """
    if shape not in cache.passes:
        view, others = WholeBuffers(cache, tensors["slots"]), {k: t for k, t in tensors.items() if k != "slots"}
        cache.passes[shape] = Recorded(lambda: run(view, **others), tensors["slots"].device, buffers=tensors)
    return cache.passes[shape](**tensors)


class PaddedVerify:
    """`Target.verify` over one cache for trees of at most `size` rows. The last row of the cache takes the padding.

    Args:
        record: replay a CUDA graph where there is a GPU.
    """

    def __init__(self, target: Target, cache: TreeCache, size: int, prompt: Prompt, record: bool = True) -> None:
        device, dtype, capacity = target.device, target.dtype, cache.rows[0].capacity
        self.size, self.capacity = size, capacity
        self.dtype = dtype
        ids = torch.zeros(1, size, dtype=torch.long, device=device)
        positions = torch.zeros(size, dtype=torch.long, device=device)
        slots = torch.full((size,), capacity - 1, device=device)
        mask = torch.zeros(1, 1, size, capacity, dtype=dtype, device=device)
        view = WholeBuffers(cache, slots)

        def run() -> tuple[torch.Tensor, dict[int, torch.Tensor]]:  # not of self: a request must not outlive its use
            rows = target.adapter.later(prompt, positions.expand(3, 1, size))
            return target._forward(view, input_ids=ids, attention_mask=mask, **rows)

        self.run = Recorded(run, device, record, {"ids": ids, "positions": positions, "slots": slots, "mask": mask})

    def fits(self, cache: TreeCache, rows: int) -> bool:
        """Whether the rows leave the cache's last one to the padding."""
        return rows <= self.size and cache.committed + rows < self.capacity

    def __call__(
        self, cache: TreeCache, root: int, tree: CandidateTree, prompt: Prompt
    ) -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
        """Logits [N + 1, V] and states of root and tree; the next call overwrites them where a graph is replayed."""
        past, rows, spare = cache.committed, len(tree) + 1, self.size - len(tree) - 1
        hidden = torch.full((self.size, self.capacity), torch.finfo(self.dtype).min, dtype=self.dtype)
        hidden[:, :past] = 0
        hidden[:rows, past : past + rows].masked_fill_(torch.from_numpy(tree.visible()), 0)
        logits, states = self.run(
            mask=hidden,
            ids=torch.tensor([[root, *tree.tokens, *[0] * spare]]),
            positions=torch.tensor([0, *tree.depths, *[0] * spare]) + past + prompt.rope_delta,
            slots=torch.tensor([*range(past, past + rows), *[self.capacity - 1] * spare]),
        )
        for layer in cache.rows:
            layer.length = past + rows
        return logits[:rows], {i: s[:rows] for i, s in states.items()}


def padded_pass(target: Target, cache: TreeCache, rows: int, prompt: Prompt) -> PaddedVerify | None:
    """The pass of the next larger size over this cache, made at its first use; None where only an ordinary one fits."""
    size = next((size for size in SIZES if size >= rows), None)
    if size is None:
        return None
    if size not in cache.passes:
        cache.passes[size] = PaddedVerify(target, cache, size, prompt)
    made = cache.passes[size]
    return made if made.fits(cache, rows) else None
