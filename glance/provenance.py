"""What produced a number: versions, device, models, seed. Recorded in every trace and every measurement."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .engine import Settings
    from .presets import Family


@cache
def git_id() -> str:
    """The short git id of the code, with "+" where files differ from it; empty outside a checkout."""
    here = Path(__file__).resolve().parent
    try:
        out = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"], cwd=here, capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return out.stdout.strip()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def machine() -> dict[str, Any]:
    """Versions and device of this process."""
    cuda = torch.cuda.is_available()
    return {
        "glance": git_id(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": _version("transformers"),
        "device": torch.cuda.get_device_name() if cuda else platform.machine(),
        "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(),
    }


def of(family: Family, settings: Settings) -> dict[str, Any]:
    """The provenance of a run of this family."""
    device = family.target.device
    return {
        **machine(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "preset": family.name,
        "target": family.target_name,
        "dtype": str(family.target.dtype).removeprefix("torch."),
        "quantize": family.parts.quantize,
        "attention": family.target.model.config._attn_implementation,
        "seed": settings.seed,
    }
