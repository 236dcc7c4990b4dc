"""Where on the picture the target looked while it wrote some tokens. A hint, not a proof: attention is not a cause.

The tokens are forced through the target again, behind prompt and answer so far, by the same two passes that decoding
makes. The attention weights that the fused kernel does not give come from the layers' own modules, run once more on
what they took in, with eager attention and on a few rows only. So the model and its kernel stay as they are.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .errors import BadInput
from .tree import CandidateTree, chain

if TYPE_CHECKING:
    from .presets import Family
    from .prompt import Prompt


@dataclass(frozen=True)
class Attention:
    """The mean attention of some rows over heads, layers and rows.

    Args:
        rows, columns: the grid of visual tokens.
        values: row-major, the share of all attention that each visual token got; they add up to `share`.
        share: the share that went to the picture; the rest went to the question and the answer.
        layers: ids of the decoder layers that were looked at.
        tokens: how many rows, one for each token that they produced.
        agreeing: in how many of them the target's likeliest token is the one that stands in the answer. In a greedy
            run of this model that is all of them.
    """

    rows: int
    columns: int
    values: tuple[float, ...]
    share: float
    layers: tuple[int, ...]
    tokens: int
    agreeing: int


class _Filled:
    """Stands for a cache that holds the rows already: hands out what is there, and keeps nothing."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple:
        """Keys and values of all rows so far, those of this pass among them."""
        held = self._cache.layers[layer]
        return held.keys[:, :, : held.length], held.values[:, :, : held.length]


@contextmanager
def weights(text_model: torch.nn.Module, layers: Sequence[int]) -> Iterator[dict[int, torch.Tensor]]:
    """Collect the attention weights of decoder layers during one forward pass of this thread.

    Yields:
        A dict that the pass fills: layer id -> [heads, rows, keys].
    """
    mine, found = threading.get_ident(), {}

    def look(layer: int):
        def hook(module: torch.nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
            if threading.get_ident() != mine:  # hooks belong to the model, and another request may be passing
                return
            eager = copy.copy(module)
            eager.config = copy.copy(module.config)
            eager.config._attn_implementation = "eager"
            inputs = {**kwargs, "cache": _Filled(kwargs["cache"])}
            found[layer] = type(module).forward(eager, *args, **inputs)[1][0]

        return hook

    with ExitStack() as hooks:
        for layer in layers:
            module = text_model.layers[layer].self_attn
            hooks.callback(module.register_forward_hook(look(layer), with_kwargs=True).remove)
        yield found


def attend(family: Family, prompt: Prompt, answer: Sequence[int], emitted: int) -> Attention:
    """Look at the rows that produced the last tokens of an answer.

    Args:
        prompt: about one image whose visual tokens stand in the prompt (the Qwen-VL families).
        answer: token ids up to and including the last one looked at.
        emitted: how many of them, from the end; the first answer token, which the prefill gives, cannot be among them.

    Raises:
        BadInput: a prompt without exactly one such image, or an answer that does not fit.
    """
    if prompt.grid is None or len(prompt.grid) != 1:
        raise BadInput("Where the target looks can be shown for one picture whose tokens stand in the prompt.")
    if not 0 < emitted < len(answer) or prompt.length + len(answer) > family.max_positions:
        raise BadInput("This answer does not fit behind its prompt; choose another run.")
    if not all(0 <= i < family.target.embed_tokens.num_embeddings for i in answer):
        raise BadInput("This answer has tokens that the model does not know; it was made with another one.")
    target = family.target
    head = family.block_head or family.eagle3_head
    if head is None:
        raise BadInput("This shows the layers that a draft head reads, and this family has none; name a head.")
    layers = head.config.target_layer_ids
    cache = target.prefill(prompt).cache.fork(prompt.length + len(answer))
    before, forced, produced = answer[: -emitted - 1], answer[-emitted - 1 : -1], answer[-emitted:]
    if before:
        target.verify(cache, before[0], _path(before[1:]), prompt, padded=False)
        cache.commit(range(len(before)))
    with weights(target.text, layers) as found, torch.no_grad():
        seen = target.verify(cache, forced[0], _path(forced[1:]), prompt, padded=False)
    agreeing = sum(a == b for a, b in zip(seen.logits.argmax(-1).tolist(), produced, strict=True))
    mean = torch.stack([found[i].float().mean((0, 1)).cpu() for i in layers]).mean(0)
    is_image = prompt.ids[0] == family.parts.model.config.image_token_id
    values = mean[: prompt.length][is_image].tolist()
    merge = family.parts.image_processor.merge_size
    rows, columns = (n // merge for n in prompt.grid[0, 1:].tolist())
    return Attention(rows, columns, tuple(values), sum(values), layers, emitted, agreeing)


def _path(tokens: Sequence[int]) -> CandidateTree:
    return chain(tokens, (0.0,) * len(tokens))
