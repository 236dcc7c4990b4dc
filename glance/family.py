"""A loaded model family: the target, the heads that draft for it, and everything that decoding a prompt needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from .checkpoints import TargetParts
from .drafters.autoregressive import Autoregressive
from .drafters.block import BlockDrafter, BlockHead
from .drafters.eagle3 import STEPS, Eagle3Drafter, Eagle3Head
from .engine import Drafter, Settings
from .errors import BadInput
from .lanes import LANES
from .prompt import Prompt, check_image
from .stop import StopRules
from .target import EMBEDDINGS, Target
from .text import Vocabulary

FP32_ROUNDING = 1e-3  # logits: far above the 3e-7 by which passes of other shapes moved float32 ones of a tiny model


class Family:
    """A target with its heads, shared by all requests.

    Args:
        name: of the preset.
        block_head, eagle3_head: None where there is none; the family then lacks that lane.
        notes: lane -> why it is missing, in a sentence.
        reach: limit of `glance.reach.warning`, in nats; None where the family has none.
        tie_threshold: what the settings of a run should hold for this device, dtype and quantization.
    """

    def __init__(
        self,
        name: str,
        parts: TargetParts,
        block_head: BlockHead | None,
        eagle3_head: Eagle3Head | None,
        notes: Mapping[str, str] | None = None,
        reach: float | None = None,
        tie_threshold: float = 0.0,
    ) -> None:
        self.name = name
        self.parts = parts
        self.block_head = block_head
        self.eagle3_head = eagle3_head
        self.notes = dict(notes or {})
        self.tie_threshold = tie_threshold
        self.reach = reach
        fused = {i for head in (block_head, eagle3_head) if head for i in head.config.target_layer_ids}
        self.target = Target(parts.model, {*fused, EMBEDDINGS})
        self.vocabulary = Vocabulary(parts.tokenizer)

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes whose heads are there, in the order in which they are shown."""
        heads = {"eagle3": self.eagle3_head, "glance": self.block_head}
        return tuple(lane for lane in LANES if lane not in heads or heads[lane])

    @property
    def target_name(self) -> str:
        """The target's folder name or hub id."""
        return Path(self.parts.model.name_or_path).name or type(self.parts.model).__name__

    @property
    def rounding(self) -> float:
        """Logits no further apart than this can change places where passes of other shapes round differently."""
        return max(self.tie_threshold, FP32_ROUNDING)

    @property
    def eos_ids(self) -> frozenset[int]:
        """Every id that ends an answer."""
        return self.parts.eos_ids

    @property
    def max_positions(self) -> int:
        """Tokens that the target can hold, prompt and answer."""
        return self.parts.max_positions

    def prompt(self, image: Image.Image | list[Image.Image] | None, question: str) -> Prompt:
        """A prompt about one image, several, or none.

        Raises:
            BadInput: one sentence about what cannot be used.
        """
        images = [] if image is None else image if isinstance(image, list) else [image]
        return self.parts.prompt(images, question)

    def seen(self, image: Image.Image) -> Image.Image:
        """The image as the target sees it, after the processor's resize."""
        return self.target.adapter.seen(check_image(image), self.parts.image_processor)

    def check_length(self, prompt: Prompt, settings: Settings) -> None:
        """Refuse a request that does not fit into the target's positions.

        Raises:
            BadInput: one sentence.
        """
        room = self.max_positions - prompt.length - settings.budget - 1
        if settings.max_new_tokens > room:
            raise BadInput(f"This prompt leaves room for {max(room, 0)} new tokens; ask for fewer.")

    def stop_rules(self, settings: Settings) -> StopRules:
        """Where an answer of this family ends."""
        return StopRules(self.eos_ids, settings.max_new_tokens, settings.stop, self.vocabulary.text)

    def check_lane(self, lane: str) -> None:
        """Refuse a lane whose head is missing.

        Raises:
            BadInput: why there is none, in one sentence.
        """
        if lane not in self.lanes:
            raise BadInput(self.notes.get(lane) or f"{self.name} has no head for the lane {LANES.get(lane, lane)}.")

    def drafter(self, lane: str, **options: Any) -> Drafter:
        """A fresh drafter for one request, with `options` of its own class; a block drafter also takes another `head`.

        Raises:
            BadInput: as `check_lane` does.
        """
        self.check_lane(lane)
        padded = self.target.padded
        make = {
            "autoregressive": Autoregressive,
            "eagle3": lambda **options: Eagle3Drafter(
                self.eagle3_head, self.parts.model.config.image_token_id, padded=padded, **options
            ),
            "glance": lambda head=self.block_head, **options: BlockDrafter(
                head, self.target.embed_tokens, self.target.lm_head, padded=padded, **options
            ),
        }
        return make[lane](**options)

    def drafter_name(self, lane: str) -> str:
        """One line on what drafts in a lane. Raises `BadInput` as `check_lane` does."""
        self.check_lane(lane)
        if lane == "glance":
            return f"block head, one pass for {self.block_head.config.block_size - 1} tokens"
        return {"autoregressive": "none", "eagle3": f"EAGLE-3 head, {STEPS} sequential passes a round"}[lane]
