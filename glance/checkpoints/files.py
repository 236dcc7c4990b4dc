"""The files of a checkpoint: fetched where a hub id was given, and read without running anything that they hold."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError
from safetensors import SafetensorError
from safetensors.torch import load_file

from ..errors import BadCheckpoint

HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_TEXTS = ["*.json", "*.jinja", "*.txt", "*.model"]


def local(folder: str | Path) -> Path:
    """The folder itself, or the local copy of a hub repository, fetched where it is not here yet.

    Raises:
        BadCheckpoint: neither a folder nor a hub id, a repository that is gated or not there, or no way to the hub.
    """
    path, name = Path(folder), str(folder)
    if path.is_dir():
        return path
    if not HUB_ID.fullmatch(name):
        raise BadCheckpoint(f"There is no such folder as {folder}; give a folder, or a hub id like owner/name.")
    try:
        copy = Path(snapshot_download(name, allow_patterns=[*_TEXTS, "*.safetensors"], ignore_patterns="*/*"))
        if not any(copy.glob("*.safetensors")):
            snapshot_download(name, allow_patterns="pytorch_model*.bin")
    except GatedRepoError:
        raise BadCheckpoint(f"{name} is gated; accept its licence on the hub, then set HF_TOKEN.") from None
    except (RepositoryNotFoundError, HFValidationError):
        raise BadCheckpoint(f"The hub has no public repository {name}; check how it is spelt.") from None
    except Exception as error:  # OSError, or whatever the HTTP library under this version of the hub's raises
        raise BadCheckpoint(
            f"{name} is not on this machine and the hub cannot be reached; "
            "connect once, or copy the repository into a folder and give that folder."
        ) from error
    return copy


def read_config(folder: Path) -> dict[str, Any]:
    """The config of a draft head.

    Raises:
        BadCheckpoint: missing, or not a JSON object.
    """
    try:
        raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except OSError:
        raise BadCheckpoint(f"There is no config.json in {folder}; give the folder of a draft head.") from None
    except (ValueError, RecursionError):
        raise BadCheckpoint(f"The config.json in {folder} is not JSON; copy it again.") from None
    if not isinstance(raw, dict):
        raise BadCheckpoint(f"The config.json in {folder} is not a JSON object; copy it again.")
    return raw


def read_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of a draft head, without the prefix `model.` and without buffers that positions follow from.

    Pickled files are read by torch's restricted loader, which takes tensors and nothing else.

    Raises:
        BadCheckpoint: no weights, a damaged file, a tensor that comes twice, or a pickle that holds more than tensors.
    """
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    if not files:
        raise BadCheckpoint(f"There is no .safetensors file in {folder}; give the folder of a draft head.")
    tensors: dict[str, torch.Tensor] = {}
    for file in files:
        found = _unpickle(file) if file.suffix == ".bin" else _load(file)
        if tensors.keys() & found.keys():
            raise BadCheckpoint(f"Two files in {folder} hold the same tensor; copy one head alone into a folder.")
        tensors.update(found)
    named = {name.removeprefix("model."): t for name, t in tensors.items()}
    if len(named) < len(tensors):
        raise BadCheckpoint(f"A tensor in {folder} is there with and without the prefix model.; copy one head alone.")
    return {name: t for name, t in named.items() if not name.endswith("rotary_emb.inv_freq")}


def _load(file: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(file)
    except (OSError, SafetensorError):
        raise BadCheckpoint(f"The file {file} is damaged; copy it again.") from None


def _unpickle(file: Path) -> dict[str, torch.Tensor]:
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError):
        state = None
    if not isinstance(state, dict) or not all(isinstance(t, torch.Tensor) for t in state.values()):
        raise BadCheckpoint(f"The file {file} is damaged or holds more than tensors; save it as .safetensors.")
    return state
