"""Loading models and draft heads from folders or the hub, and refusing what does not fit, in one sentence."""

from .block import load_block_head
from .eagle3 import load_eagle3_head
from .target import TargetParts, load_target

__all__ = ["TargetParts", "load_block_head", "load_eagle3_head", "load_target"]
