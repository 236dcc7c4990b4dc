"""A folder that can be pushed as a Space: the live app for ZeroGPU or a CPU, or a free page of recorded runs.

ZeroGPU, as its documentation said in August 2026: Gradio alone, torch 2.8 to 2.11, Python 3.10 or 3.12 (not the 3.11
of our pins). So the live Space gets the project's own requirements, with that range of torch and without the exact
pins of what they bring along.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..checkpoints.files import HUB_ID
from ..errors import BadInput
from ..outputs import new_folder
from ..presets import named, resolve

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("app.py", "app", "glance", "assets", "LICENSE")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.py[ci]", "screenshots")
TORCH = "torch>=2.8,<2.12"
CARD = {
    "title": "GLANCE visual speculative decoding",
    "emoji": "👁️",
    "colorFrom": "blue",
    "colorTo": "green",
    "pinned": False,
    "license": "apache-2.0",
    "short_description": "Three decoders, one picture, the same bytes",
    "tags": ["speculative-decoding", "vision-language", "visualization"],
}
LIVE = """# GLANCE: see lossless speculative decoding

Upload a document or a chart, ask a question, and watch three decoders answer side by side with the same bytes. Every
round is drawn: the candidate tree, the path that the target accepted, and where the milliseconds went.

The model is chosen by the Space's variable `GLANCE_PRESET`; without it, {preset} is loaded.
"""
RECORDED = """# GLANCE: recorded runs of lossless speculative decoding

Three decoders answer the same question about the same picture with the same bytes. Nothing runs here but the player.
"""


def pins() -> list[str]:
    """The project's own requirements: the first paragraph of requirements.txt."""
    paragraph = (ROOT / "requirements.txt").read_text(encoding="utf-8").split("\n\n")[0]
    return [line for line in paragraph.splitlines() if not line.startswith("#")]


def requirements() -> list[str]:
    """What a ZeroGPU Space installs. It brings Gradio itself, in the version that the card names."""
    kept = [pin for pin in pins() if not pin.startswith(("gradio==", "torch=="))]
    return sorted([*kept, "spaces", TORCH])


def card(fields: Mapping[str, Any], text: str) -> str:
    """A README with its front matter. A JSON value is a YAML value, too."""
    head = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in fields.items())
    return f"---\n{head}---\n\n{text}"


def live(out: Path, preset: str = "mini", **given: str) -> None:
    """The app with everything it needs, ready to be pushed.

    Args:
        preset: the family that it loads unless the variable GLANCE_PRESET says otherwise.
        given: parts of it, replaced as in `presets.resolve` (also by this machine's environment), unless the Space's
            own variables say otherwise.

    Raises:
        BadInput: an unknown preset, a part that lies on this machine or is no hub id, or a folder that holds something
            already.
    """
    given = named(given)
    parts = resolve(preset, **given)
    for part in (parts.target, parts.block_head, parts.eagle3_head):
        if part in given.values() and (Path(part).exists() or not HUB_ID.fullmatch(part)):
            raise BadInput(f"A Space cannot read {part}; push it to the hub and name its id, like owner/name.")
    new_folder(out)
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, out / name, ignore=LEFT_OUT)
        else:
            shutil.copy(source, out / name)
    entry = (ROOT / "app.py").read_text(encoding="utf-8")
    variables = {"GLANCE_PRESET": preset} | {f"GLANCE_{part.upper()}": value for part, value in given.items()}
    chosen = "".join(f"os.environ.setdefault({json.dumps(k)}, {json.dumps(v)})\n" for k, v in variables.items())
    (out / "app.py").write_text(f"import os\n\n{chosen}\n{entry}", encoding="utf-8")
    gradio = next(pin.removeprefix("gradio==") for pin in pins() if pin.startswith("gradio=="))
    fields = {**CARD, "sdk": "gradio", "sdk_version": gradio, "python_version": "3.12", "app_file": "app.py"}
    hub = [i for i in (parts.target, parts.block_head, parts.eagle3_head) if i and not Path(i).exists()]
    if hub:
        fields |= {"models": hub, "preload_from_hub": hub, "startup_duration_timeout": "1h"}
    (out / "README.md").write_text(card(fields, LIVE.format(preset=preset)), encoding="utf-8")
    (out / "requirements.txt").write_text("\n".join(requirements()) + "\n", encoding="utf-8")
