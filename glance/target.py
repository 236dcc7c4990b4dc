"""The frozen vision-language model: prefill once, then verify trees. The only pass that may decide a token."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from .cache import TreeCache
from .errors import BadCheckpoint
from .padded import padded_pass
from .prompt import Prompt
from .targets import adapter
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
    A cross-attention layer is left out where there is no image (Llama-3.2-Vision); then the one behind it is read.

    Yields:
        A dict that the forward pass fills: layer id -> [batch, rows, H].
    """
    states: dict[int, torch.Tensor] = {}
    readers = [*language_model.layers, language_model.norm]
    optional = getattr(language_model, "cross_attention_layers", ())

    def keep(layer: int):
        def hook(module: nn.Module, args: tuple, kwargs: dict) -> None:  # a value returned would replace the input
            states.setdefault(layer, args[0] if args else kwargs["hidden_states"])

        return hook

    with ExitStack() as hooks:
        for layer in set(layers):
            for reader in range(layer + 1, len(readers)):
                hook = readers[reader].register_forward_pre_hook(keep(layer), with_kwargs=True)
                hooks.callback(hook.remove)
                if reader not in optional:
                    break
        yield states


class Target:
    """A frozen vision-language model of one of the families in `glance.targets`.

    Args:
        model: its `...ForConditionalGeneration`, with sdpa or eager attention.
        layers: ids of the decoder layers whose outputs the drafters read; `EMBEDDINGS` for the input embeddings.
        padded: verify in passes of fixed shapes, which a GPU replays as graphs; the family's heads draft so, too.

    Raises:
        BadCheckpoint: a family without an adapter.
        ValueError: attention that cannot take a tree mask, or a layer id out of range.
    """

    def __init__(self, model: nn.Module, layers: Iterable[int] = (), padded: bool = False) -> None:
        self.padded = padded
        self.text = model.model.language_model
        kernel = self.text.config._attn_implementation
        if kernel not in ("sdpa", "eager"):
            raise ValueError(f"The attention kernel {kernel!r} cannot take a tree mask; load the model with 'sdpa'.")
        if "sliding_attention" in (getattr(self.text.config, "layer_types", None) or ()):
            raise ValueError("Layers with sliding-window attention cannot take a tree mask; choose another target.")
        self.adapter = adapter(model.config.model_type)
        self.fixed = self.adapter.fixed_layers(model.config)
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

    def _forward(self, cache: TreeCache, **inputs: object) -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
        for name, value in inputs.items():
            if isinstance(value, torch.Tensor):
                inputs[name] = value.to(self.device, self.dtype if value.is_floating_point() else None)
        with self._one_pass, torch.no_grad(), capture(self.text, self.layers) as states:
            out = self.model(cache=cache, use_cache=True, **inputs)
        # Spread over several GPUs, the layers leave their states where they are; the heads are with the embeddings.
        return out.logits[0].to(self.device).float(), {i: s[0].to(self.device) for i, s in states.items()}

    def prefill(self, prompt: Prompt) -> Prefill:
        """One causal pass over the prompt, image included.

        Raises:
            BadCheckpoint: logits that are not finite.
        """
        cache = TreeCache(len(self.text.layers), prompt.length, self.fixed)
        logits, states = self._forward(
            input_ids=prompt.ids,
            cache=cache,
            logits_to_keep=1,
            **self.adapter.first(prompt),
        )
        cache.commit(range(prompt.length))
        if not logits[-1].isfinite().all():
            raise BadCheckpoint(
                "The target's logits are not finite: its weights are damaged or float16 overflows; "
                "copy it again, or choose bfloat16."
            )
        return Prefill(prompt, cache, logits[-1], states)

    def verify(self, cache: TreeCache, root: int, tree: CandidateTree, prompt: Prompt, padded: bool = True) -> Verified:
        """One pass over `[root] + tree`, each row seeing the cache, its ancestors and itself.

        The rows stay in the cache as an uncommitted window: `commit` the accepted ones, or `rollback`.

        Args:
            cache: the lane's own cache; its committed length is the root's sequence index.
            prompt: the request's; a row's position is `committed length + prompt.rope_delta + depth`.
            padded: False for a pass of just these rows also where the target's passes are padded.
        """
        past, rows = cache.committed, len(tree) + 1
        if self.padded and padded and (run := padded_pass(self, cache, rows, prompt)):
            return Verified(*run(cache, root, tree, prompt))
        mask = None
        if rows > 1:  # a single row sees everything: no mask, and the same kernel as ordinary decoding
            mask = torch.zeros(1, 1, rows, past + rows, dtype=self.dtype)
            mask[..., past:].masked_fill_(~torch.from_numpy(tree.visible()), torch.finfo(self.dtype).min)
        positions = torch.tensor((0, *tree.depths)) + past + prompt.rope_delta
        logits, states = self._forward(
            input_ids=torch.tensor([(root, *tree.tokens)]),
            attention_mask=mask,
            cache=cache,
            **self.adapter.later(prompt, positions.expand(3, 1, rows)),
        )
        return Verified(logits, states)
