"""The command that starts a production engine with the same target and head.

Flags: SGLang's as its documentation had them in September 2026, and vLLM 0.32's. Both engines verify a block head's
draft as a chain, not as a tree; SGLang has a tree for EAGLE-3, and its width counts the root, which our budget does
not. vLLM reports acceptance with an answer only if it is told to.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

from ..checkpoints.files import read_config
from ..drafters.eagle3 import STEPS, TOP_K
from ..errors import BadCheckpoint, BadInput
from ..presets import resolve

HEADS = {"glance": "block_head", "eagle3": "eagle3_head", "none": None}


def block_size(head: str, default: int = 16) -> int:
    """Slots of a block: from the config of a head that lies in a folder, else the published heads' 16.

    Raises:
        BadCheckpoint: a folder whose config is missing or damaged, or whose block is no whole number of at least 2.
    """
    if not Path(head).is_dir():
        return default
    config = read_config(Path(head))
    inner = config.get("dflash_config") or {}
    if not isinstance(inner, dict):
        raise BadCheckpoint(f"The dflash_config of {head} is not a JSON object; copy it again.")
    size = next((c["block_size"] for c in (config, inner) if c.get("block_size") is not None), default)
    if type(size) is not int or size < 2:
        raise BadCheckpoint(f"The head {head} has blocks of {size!r}; correct it to at least 2 slots.")
    return size


def sglang(target: str, dtype: str, kind: str, head: str | None, budget: int) -> list[str]:
    """`python -m sglang.launch_server …`."""
    words = ["python", "-m", "sglang.launch_server", "--model-path", target, "--dtype", dtype]
    if kind == "glance":
        words += ["--speculative-algorithm", "DFLASH", "--speculative-draft-model-path", head]
        words += ["--speculative-num-draft-tokens", str(block_size(head))]
    elif kind == "eagle3":
        words += ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", head]
        words += ["--speculative-num-steps", str(STEPS), "--speculative-eagle-topk", str(TOP_K)]
        words += ["--speculative-num-draft-tokens", str(budget + 1)]
    return [*words, "--host", "127.0.0.1", "--port", "30000"]


def vllm(target: str, dtype: str, kind: str, head: str | None, budget: int) -> list[str]:
    """`vllm serve …`."""
    words = ["vllm", "serve", target, "--dtype", dtype]
    if kind != "none":
        method, tokens = ("dflash", block_size(head) - 1) if kind == "glance" else ("eagle3", STEPS)
        config = {"method": method, "model": head, "num_speculative_tokens": tokens}
        words += ["--speculative-config", json.dumps(config), "--per-request-spec-decode-metrics", "summary"]
    return [*words, "--host", "127.0.0.1", "--port", "8000"]


ENGINES: dict[str, Callable[..., list[str]]] = {"sglang": sglang, "vllm": vllm}


def command(engine: str, preset: str, kind: str = "glance", budget: int = 31, **parts: str) -> str:
    """One line for a shell. A preset's quantisation is not passed on: the engines take quantised checkpoints instead.

    Args:
        kind: whose head drafts: "glance", "eagle3", or "none" for plain decoding.
        budget: nodes of EAGLE-3's tree in SGLang, root excluded; the other drafts are chains.
        parts: of the preset, replaced as in `presets.resolve`.

    Raises:
        BadInput: an unknown engine, preset or head, or a head that nobody has published.
    """
    for name, value, known in (("engine", engine, ENGINES), ("head", kind, HEADS)):
        if value not in known:
            raise BadInput(f"There is no {name} {value!r}; choose among {', '.join(known)}.")
    chosen = resolve(preset, **parts)
    head = getattr(chosen, HEADS[kind]) if HEADS[kind] else None
    if HEADS[kind] and head is None:
        raise BadInput(f"No {kind} head is known for {preset}; choose another with --head, or none.")
    return shlex.join(ENGINES[engine](chosen.target, chosen.dtype, kind, head, budget))
