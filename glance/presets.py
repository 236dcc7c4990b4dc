"""The named model families: which target, which heads. Plain data, and the object that loading one gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image

from .checkpoints import TargetParts, load_block_head, load_eagle3_head, load_target
from .drafters.autoregressive import Autoregressive
from .drafters.block import BlockDrafter, BlockHead
from .drafters.eagle3 import Eagle3Drafter, Eagle3Head
from .engine import Drafter, Settings
from .errors import BadInput
from .prompt import Prompt, check_image
from .stop import StopRules
from .target import EMBEDDINGS, Target
from .text import Vocabulary

ASSETS = Path(__file__).resolve().parent.parent / "assets"


@dataclass(frozen=True)
class Preset:
    """Where a family's parts lie: folders or hub ids."""

    target: str
    block_head: str
    eagle3_head: str
    dtype: str = "float32"


PRESETS = {
    "mini": Preset(
        target=str(ASSETS / "mini/target"),
        block_head=str(ASSETS / "mini/glance"),
        eagle3_head=str(ASSETS / "mini/eagle3"),
    ),
}


class Family:
    """A loaded target with its heads: everything that decoding a prompt needs, shared by all requests."""

    def __init__(self, name: str, parts: TargetParts, block_head: BlockHead, eagle3_head: Eagle3Head) -> None:
        self.name = name
        self.parts = parts
        self.block_head = block_head
        self.eagle3_head = eagle3_head
        fused = {*block_head.config.target_layer_ids, *eagle3_head.config.target_layer_ids}
        self.target = Target(parts.model, {*fused, EMBEDDINGS})
        self.vocabulary = Vocabulary(parts.tokenizer)

    @property
    def target_name(self) -> str:
        """The target's folder name or hub id."""
        return Path(self.parts.model.name_or_path).name or type(self.parts.model).__name__

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

    def drafter(self, lane: str) -> Drafter:
        """A fresh drafter for one request."""
        make = {
            "autoregressive": Autoregressive,
            "eagle3": lambda: Eagle3Drafter(self.eagle3_head),
            "glance": lambda: BlockDrafter(self.block_head, self.target.embed_tokens, self.target.lm_head),
        }
        return make[lane]()

    def drafter_name(self, lane: str) -> str:
        """One line on what drafts in a lane."""
        names = {
            "autoregressive": "none",
            "eagle3": "EAGLE-3 head, 8 sequential passes a round",
            "glance": f"block head, one pass for {self.block_head.config.block_size - 1} tokens",
        }
        return names[lane]


def load(name: str = "mini", device: str | None = None) -> Family:
    """Load a family by its preset's name.

    Raises:
        BadInput: an unknown preset.
        BadCheckpoint: a part that is missing or does not fit.
    """
    if name not in PRESETS:
        raise BadInput(f"There is no preset {name!r}; choose among {', '.join(PRESETS)}.")
    preset = PRESETS[name]
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    parts = load_target(preset.target, getattr(torch, preset.dtype), device)
    return Family(name, parts, load_block_head(preset.block_head, parts), load_eagle3_head(preset.eagle3_head, parts))
