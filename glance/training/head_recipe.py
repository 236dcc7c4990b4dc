"""Recipes of the draft heads. Both heads of a family share corpus, batch and epochs, so that they can be compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class HeadRecipe:
    """How a draft head is trained.

    Args:
        kind: `glance` (block head, DFlash format) or `eagle3` (SpecForge format).
        samples: samples drawn for the corpus; answers that do not end are left out.
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
    epochs: int = 8
    batch: int = 24
    seed: int = 0
    muon_rate: float = 0.01
    adam_rate: float = 0.002
    weight_decay: float = 0.0
    warmup: float = 0.04
    clip: float = 1.0
    mlp: int = 704
    heads: int = 2
    kv_heads: int = 2
    head_dim: int = 128
    rope_theta: float = 10000.0
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

    def geometry(self, text_config: Any) -> dict[str, Any]:
        """The config fields that both kinds of head share, for a target's text config."""
        return {
            "hidden_size": text_config.hidden_size,
            "intermediate_size": self.mlp,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "rms_norm_eps": text_config.rms_norm_eps,
            "rope_theta": self.rope_theta,
            "max_position_embeddings": text_config.max_position_embeddings,
        }
