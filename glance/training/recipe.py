"""A recipe file: everything that a reproducible run depends on."""

import importlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glance.errors import BadInput

_FOLDER = Path(__file__).parent / "recipes"


@dataclass(frozen=True)
class Shape:
    """The target's architecture; names as in `transformers`, shortened. Sizes in pixels where not in features."""

    vocabulary: int = 512
    layers: int = 16
    hidden: int = 256
    heads: int = 2
    kv_heads: int = 2
    head_dim: int = 128
    mlp: int = 704
    rope_theta: float = 10000.0
    mrope_section: tuple[int, int, int] = (24, 20, 20)
    vision_hidden: int = 192
    vision_depth: int = 4
    vision_heads: int = 3
    vision_mlp: int = 768
    vision_positions: int = 256
    deepstack: tuple[int, ...] = (1, 2)
    patch: int = 16
    merge: int = 2
    temporal_patch: int = 2
    min_pixels: int = 192 * 256
    max_pixels: int = 256 * 256

    @property
    def cell(self) -> int:
        """Side of the square of pixels behind one visual token."""
        return self.patch * self.merge


@dataclass(frozen=True)
class Stage:
    """One part of a run. Exactly one of the two losses may be off.

    Args:
        steps: optimizer steps.
        vision: whether the vision tower learns.
        text: whether the text stack learns to answer.
        dense_weight: weight of the throw-away supervision of visual tokens.
        guide_weight: weight (first, last) of the guided attention.
        level: how much text the samples hold (first, last); the last level is reached at `grown` of the stage.
        rate: factor (first, last) on both learning rates, linear in between.
        families: their shares, where they are others than the recipe's.
    """

    name: str
    steps: int
    vision: bool
    text: bool
    dense_weight: float = 0.0
    guide_weight: tuple[float, float] = (0.0, 0.0)
    level: tuple[float, float] = (1.0, 1.0)
    grown: float = 1.0
    rate: tuple[float, float] = (1.0, 1.0)
    families: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TargetRecipe:
    """How the embedded target is trained.

    Args:
        bfloat16: products in bfloat16 on a CPU too (weights and sums stay float32), worth it where the CPU has
            instructions for it; on a GPU always so.
    """

    name: str
    stages: tuple[Stage, ...]
    seed: int = 0
    batch: int = 32
    muon_rate: float = 0.01
    adam_rate: float = 0.002
    weight_decay: float = 0.01
    warmup: int = 50
    clip: float = 1.0
    bfloat16: bool = False
    guided_layers: tuple[int, ...] = (7, 11)
    families: dict[str, float] = field(default_factory=dict)
    shape: Shape = Shape()

    def families_of(self, stage: int) -> dict[str, float]:
        """The families that stage `stage` draws, and their shares."""
        return self.stages[stage].families or self.families


def known_recipes() -> list[str]:
    """The names of all recipes: those of their files."""
    return sorted(path.stem.replace("_", "-") for path in _FOLDER.glob("*.py") if path.stem != "__init__")


def load_recipe(name: str) -> Any:
    """The recipe of a name such as `mini-target`. Raises `BadInput`."""
    known = known_recipes()
    if name not in known:
        raise BadInput(f"There is no recipe {name!r}; choose one of {', '.join(known)}.")
    return importlib.import_module(f"glance.training.recipes.{name.replace('-', '_')}").RECIPE
