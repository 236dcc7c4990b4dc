"""Recipes of the draft heads. Both heads of a family share corpus, batch and epochs, so that they can be compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class HeadRecipe:
    """How a draft head is trained.

    Args:
        kind: `glance` (block head, DFlash format) or `eagle3` (SpecForge format).
        families: the generator's task families, or folders of pictures, and their shares.
        samples: samples drawn for the corpus; answers that do not end within `max_new_tokens` are left out.
        bfloat16: products in bfloat16 (weights and sums stay float32), worth it where the CPU has instructions for it.
        layers: decoder layers of a block head; an EAGLE-3 head has one.
        fused: target layers that a block head reads, chosen by DFlash's rule; EAGLE-3 reads three.
        decay: loss weight of offset j is decay^j (0.8 in the paper; EAGLE-3 weighs its passes alike).
        anchors: blocks trained in each answer at a time.
        begin: layers of the target whose weights the layers of a block head begin as; empty for random ones.
        pointing: layer of the target whose first head points at what is read (the last one that its training guided).
        guided: layers of a block head whose first head learns to look where the target looked.
        guide_weight: weight of that part of the loss.
        soft: share of a block head's loss that asks for the target's own distribution; the rest asks for its token.
        reveal: share of blocks whose first slots carry true tokens; inference never reveals any.
        passes: length of EAGLE-3's training-time test.
        draft_vocabulary: tokens that EAGLE-3 can draft, the most frequent ones of the corpus.
    """

    name: str
    kind: Literal["glance", "eagle3"]
    families: dict[str, float] = field(default_factory=dict)
    samples: int = 2400
    held_out: int = 200
    max_new_tokens: int = 160
    epochs: int = 8
    batch: int = 24
    seed: int = 0
    muon_rate: float = 0.01
    adam_rate: float = 0.002
    weight_decay: float = 0.0
    warmup: float = 0.04
    clip: float = 1.0
    bfloat16: bool = False
    layers: int = 2
    fused: int = 5
    block_size: int = 16
    decay: float = 0.8
    anchors: int = 8
    begin: tuple[int, ...] = ()
    pointing: int | None = None
    guided: tuple[int, ...] = ()
    guide_weight: float = 0.3
    soft: float = 0.5
    reveal: float = 0.5
    passes: int = 7
    draft_vocabulary: int = 320


def geometry(text_config: Any) -> dict[str, Any]:
    """The config fields that both kinds of head share: layers as wide as those of a target with this text config."""
    return {
        "hidden_size": text_config.hidden_size,
        "intermediate_size": text_config.intermediate_size,
        "num_attention_heads": text_config.num_attention_heads,
        "num_key_value_heads": text_config.num_key_value_heads,
        "head_dim": text_config.head_dim,
        "rms_norm_eps": text_config.rms_norm_eps,
        "rope_theta": text_config.rope_parameters["rope_theta"],
        "max_position_embeddings": text_config.max_position_embeddings,
    }
