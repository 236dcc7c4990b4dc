"""The frozen vision-language model: prefill once, then verify trees. The only pass that may decide a token."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from .cache import TreeCache
from .prompt import Prompt
from .tree import CandidateTree

EMBEDDINGS = -1  # the id under which the input embeddings (vision features in place) are captured


@dataclass(frozen=True)
class Prefill:
    """What one pass over a prompt leaves behind; shared by every lane, changed by none.

    Args:
        prompt: the prompt.
        cache: its keys and values; lanes `fork` it.
        logits: float32 [V], the row that predicts the first answer token.
        states: layer id -> [S, H], captured states of all prompt rows.
    """

    prompt: Prompt
    cache: TreeCache
    logits: torch.Tensor
    states: Mapping[int, torch.Tensor]


@dataclass(frozen=True)
class Verified:
    """One pass over root and tree: `logits` float32 [N + 1, V], `states` layer id -> [N + 1, H]; row 0 is the root."""

    logits: torch.Tensor
    states: Mapping[int, torch.Tensor]


@contextmanager
def capture(language_model: nn.Module, layers: Iterable[int]) -> Iterator[dict[int, torch.Tensor]]:
    """Collect the outputs of decoder layers during one forward pass; training and serving both use this.

    Layer i's output is read where layer i + 1 (or the final norm) takes it in, that is **after** the DeepStack
    features were added to it, in every version of transformers. `EMBEDDINGS` (-1) is what layer 0 takes in.

    Yields:
        A dict that the forward pass fills: layer id -> [batch, rows, H].
    """
    states: dict[int, torch.Tensor] = {}
    readers = [*language_model.layers, language_model.norm]

    def keep(layer: int):
        return lambda module, args, kwargs: states.__setitem__(layer, args[0] if args else kwargs["hidden_states"])

    handles = [readers[i + 1].register_forward_pre_hook(keep(i), with_kwargs=True) for i in set(layers)]
    try:
        yield states
    finally:
        for handle in handles:
            handle.remove()


class Target:
    """A frozen Qwen3-VL.

    Args:
        model: `Qwen3VLForConditionalGeneration` in eval mode, with sdpa or eager attention.
        layers: ids of the decoder layers whose outputs the drafters read; `EMBEDDINGS` for the input embeddings.

    Raises:
        ValueError: an attention kernel that cannot take a tree mask, or a layer id out of range.
    """

    def __init__(self, model: nn.Module, layers: Iterable[int] = ()) -> None:
        self.text = model.model.language_model
        kernel = self.text.config._attn_implementation
        if kernel not in ("sdpa", "eager"):
            raise ValueError(f"The attention kernel {kernel!r} cannot take a tree mask; load the model with 'sdpa'.")
        self.model = model.eval().requires_grad_(False)
        self.layers = frozenset(layers)
        if any(not -1 <= i < len(self.text.layers) for i in self.layers):
            raise ValueError(f"Layers {sorted(self.layers)} do not exist in a stack of {len(self.text.layers)}.")
        self._one_pass = threading.Lock()  # hooks belong to the model, so passes of two requests must not overlap

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.text.embed_tokens.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The model's dtype."""
        return self.text.embed_tokens.weight.dtype

    @property
    def embed_tokens(self) -> nn.Embedding:
        """The live input embeddings, which drafters share."""
        return self.text.embed_tokens

    @property
    def lm_head(self) -> nn.Module:
        """The live output head, which drafters share."""
        return self.model.get_output_embeddings()

    def _forward(self, **inputs: object) -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
        with self._one_pass, torch.no_grad(), capture(self.text, self.layers) as states:
            out = self.model(use_cache=True, **inputs)
        return out.logits[0].float(), {i: s[0] for i, s in states.items()}

    def prefill(self, prompt: Prompt) -> Prefill:
        """One causal pass over the prompt, image included."""
        cache = TreeCache(len(self.text.layers), prompt.length)
        vision = {}
        if prompt.pixels is not None:
            vision = {
                "pixel_values": prompt.pixels.to(self.device, self.dtype),
                "image_grid_thw": prompt.grid.to(self.device),
            }
        logits, states = self._forward(
            input_ids=prompt.ids.to(self.device),
            position_ids=prompt.positions.to(self.device),
            cache=cache,
            logits_to_keep=1,
            **vision,
        )
        cache.commit(range(prompt.length))
        return Prefill(prompt, cache, logits[-1], states)

    def verify(self, cache: TreeCache, root: int, tree: CandidateTree, rope_delta: int) -> Verified:
        """One pass over `[root] + tree`, each row seeing the cache, its ancestors and itself.

        The rows stay in the cache as an uncommitted window: `commit` the accepted ones, or `rollback`.

        Args:
            cache: the lane's own cache; its committed length is the root's sequence index.
            rope_delta: of the request's prompt; a row's position is `length + rope_delta + depth` on all axes.
        """
        past, rows = cache.committed, len(tree) + 1
        depths = torch.tensor((0, *tree.depths), device=self.device)
        mask = None
        if rows > 1:  # a single row sees everything: no mask, and the same kernel as ordinary decoding
            mask = torch.zeros(rows, past + rows, dtype=self.dtype)
            mask[:, past:].masked_fill_(~torch.from_numpy(tree.visible()), torch.finfo(self.dtype).min)
            mask = mask.to(self.device)[None, None]
        logits, states = self._forward(
            input_ids=torch.tensor([(root, *tree.tokens)], device=self.device),
            position_ids=(past + rope_delta + depths).expand(3, 1, rows),
            attention_mask=mask,
            cache=cache,
        )
        return Verified(logits, states)
