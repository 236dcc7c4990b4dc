"""The named model families, as plain data, and loading one of them.

Every part of a preset can be replaced by a folder or a hub id: from the command line, or by the environment variables
GLANCE_TARGET, GLANCE_BLOCK_HEAD, GLANCE_EAGLE3_HEAD ("none" for none), GLANCE_DTYPE and GLANCE_QUANTIZE. The command
line goes first.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from .checkpoints import load_block_head, load_eagle3_head, load_target
from .checkpoints.target import QUANTIZE
from .errors import BadInput
from .family import Family

__all__ = ["PRESETS", "Family", "Preset", "load", "parse", "resolve"]

log = logging.getLogger(__name__)

ASSETS = Path(__file__).resolve().parent.parent / "assets"
DTYPES = ("float32", "bfloat16", "float16")
PARTS = ("target", "block_head", "eagle3_head", "dtype", "quantize")
_LANE_OF = {"block_head": "glance", "eagle3_head": "eagle3"}


@dataclass(frozen=True)
class Preset:
    """Where a family's parts lie (folders or hub ids), and what it takes to run it.

    Args:
        block_head, eagle3_head: None where none is published.
        quantize: of the target's linear layers: "none", "8bit" or "4bit" (bitsandbytes); heads are never quantized.
        memory: GiB of device memory: weights of target and heads, and 2 for caches and activations of one request.
        licence: of the target.
        notes: lane -> why it is missing, or what to know of its head, in a sentence.
        reach: nats above which a picture is probably outside what the target was trained for (`glance.reach`).
        ties: (device type, dtype, quantize) -> threshold of the tie gate that `python -m glance calibrate` found there.
    """

    target: str
    block_head: str | None
    eagle3_head: str | None
    dtype: str
    memory: float
    licence: str
    quantize: str = "none"
    notes: Mapping[str, str] = field(default_factory=dict)
    reach: float | None = None
    ties: Mapping[tuple[str, str, str], float] = field(default_factory=dict)

    def tie_threshold(self, device: str) -> float:
        """What was measured on such a device, 0 for plain fp32, else a guess: twice the step of bf16 above 32."""
        exact = self.dtype == "float32" and self.quantize == "none"
        return self.ties.get((device, self.dtype, self.quantize), 0.0 if exact else 0.5)


_NO_BLOCK_HEAD = "No block head is published for {0}: train one, or name one with block_head=."
_NO_EAGLE3_HEAD = "No EAGLE-3 head is published for {0}: train one, or name one with eagle3_head=."
_TEXT_ONLY = "This block head was trained on text alone, for the language model in this target: a start for training."

PRESETS = {
    "mini": Preset(
        target=str(ASSETS / "mini/target"),
        block_head=str(ASSETS / "mini/glance"),
        eagle3_head=str(ASSETS / "mini/eagle3"),
        dtype="float32",
        memory=2.2,
        licence="Apache-2.0",
        ties={("cpu", "bfloat16", "none"): 0.125},  # assets/bench/ties-bf16.json
        reach=0.72,  # assets/bench/reach.json
    ),
    "qwen3-vl-2b": Preset(
        target="Qwen/Qwen3-VL-2B-Instruct",
        block_head=None,
        eagle3_head="taobao-mnn/Qwen3-VL-2B-Instruct-Eagle3",
        dtype="bfloat16",
        memory=6.5,
        licence="Apache-2.0",
        notes={"glance": _NO_BLOCK_HEAD.format("Qwen3-VL-2B")},
    ),
    "qwen3-vl-4b": Preset(
        target="Qwen/Qwen3-VL-4B-Instruct",
        block_head="z-lab/Qwen3-4B-DFlash-b16",
        eagle3_head=None,
        dtype="bfloat16",
        memory=11.5,
        licence="Apache-2.0",
        notes={"glance": _TEXT_ONLY, "eagle3": _NO_EAGLE3_HEAD.format("Qwen3-VL-4B")},
    ),
    "qwen3-vl-8b": Preset(
        target="Qwen/Qwen3-VL-8B-Instruct",
        block_head="z-lab/Qwen3-8B-DFlash-b16",
        eagle3_head="AQ-MedAI/Qwen3-VL-8B-Instruct-eagle3",
        dtype="bfloat16",
        memory=21.5,
        licence="Apache-2.0",
        notes={"glance": _TEXT_ONLY},
    ),
    "qwen3-vl-32b": Preset(
        target="Qwen/Qwen3-VL-32B-Instruct",
        block_head=None,
        eagle3_head=None,
        dtype="bfloat16",
        quantize="4bit",
        memory=22.0,
        licence="Apache-2.0",
        notes={
            "glance": _NO_BLOCK_HEAD.format("Qwen3-VL-32B"),
            "eagle3": _NO_EAGLE3_HEAD.format("Qwen3-VL-32B"),
        },
    ),
    "qwen2.5-vl-7b": Preset(
        target="Qwen/Qwen2.5-VL-7B-Instruct",
        block_head=None,
        eagle3_head="Rayzl/qwen2.5-vl-7b-eagle3-sgl",
        dtype="bfloat16",
        memory=18.5,
        licence="Apache-2.0",
        notes={"glance": _NO_BLOCK_HEAD.format("Qwen2.5-VL-7B")},
    ),
    "llama-3.2-11b-vision": Preset(
        target="meta-llama/Llama-3.2-11B-Vision-Instruct",
        block_head=None,
        eagle3_head=None,
        dtype="bfloat16",
        memory=22.5,
        licence="Llama 3.2 Community Licence (accept it on the hub first)",
        notes={
            "glance": _NO_BLOCK_HEAD.format("Llama-3.2-11B-Vision"),
            "eagle3": _NO_EAGLE3_HEAD.format("Llama-3.2-11B-Vision"),
        },
    ),
}


def parse(changes: Iterable[str]) -> dict[str, str]:
    """`["target=FOLDER", "dtype=bfloat16"]` as a mapping.

    Raises:
        BadInput: no such part, or no value.
    """
    found = {}
    for change in changes:
        part, _, value = change.partition("=")
        if part not in PARTS or not value:
            raise BadInput(f"{change!r} replaces nothing; write PART=VALUE, the part being one of {', '.join(PARTS)}.")
        found[part] = value
    return found


def named(given: Mapping[str, str]) -> dict[str, str]:
    """The parts that are replaced: those `given`, and those that the environment names besides."""
    environment = {part: os.environ.get(f"GLANCE_{part.upper()}") for part in PARTS}
    return {part: value for part, value in {**environment, **given}.items() if value}


def resolve(name: str = "mini", **given: str) -> Preset:
    """The preset with its parts replaced, by `given` first, then by the environment.

    Raises:
        BadInput: an unknown preset, dtype or quantization.
    """
    if name not in PRESETS:
        raise BadInput(f"There is no preset {name!r}; choose among {', '.join(PRESETS)}.")
    parts: dict[str, str | None] = {**named(given)}
    for part, choices in (("dtype", DTYPES), ("quantize", QUANTIZE)):
        if parts.get(part, choices[0]) not in choices:
            raise BadInput(f"{parts[part]!r} is no {part} known here; choose among {', '.join(choices)}.")
    replaced = {_LANE_OF.get(part) for part in parts}
    notes = {lane: note for lane, note in PRESETS[name].notes.items() if lane not in replaced}
    for part in _LANE_OF:
        if parts.get(part) == "none":
            parts[part] = None
            notes[_LANE_OF[part]] = f"{part} was set to none."
    return replace(PRESETS[name], notes=notes, **parts)


def load(name: str = "mini", device: str | None = None, **given: str) -> Family:
    """Load a family by its preset's name, with some parts replaced as in `resolve`.

    With GLANCE_GRAPHS=1 in the environment, verify and draft passes have fixed shapes and are replayed as CUDA graphs.

    Raises:
        BadInput: as `resolve`.
        BadCheckpoint: a part that is missing or does not fit.
    """
    preset = resolve(name, **given)
    if device is None:
        device = "auto" if torch.cuda.device_count() > 1 else "cuda" if torch.cuda.is_available() else "cpu"
    parts = load_target(preset.target, getattr(torch, preset.dtype), device, preset.quantize)
    block_head = load_block_head(preset.block_head, parts) if preset.block_head else None
    eagle3_head = load_eagle3_head(preset.eagle3_head, parts) if preset.eagle3_head else None
    if preset.target != PRESETS[name].target:  # what was measured holds for the preset's own target
        preset = replace(preset, reach=None, ties={})
    ties = preset.tie_threshold(parts.model.device.type)
    family = Family(name, parts, block_head, eagle3_head, preset.notes, preset.reach, ties)
    family.target.padded = os.environ.get("GLANCE_GRAPHS") == "1"
    if family.target.padded and device == "auto":
        log.warning("The target is spread over several GPUs, which no graph can record; passes are ordinary ones.")
        family.target.padded = False
    return family
