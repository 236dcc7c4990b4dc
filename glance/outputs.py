"""Files and folders that the commands write: refused before the work begins, and never over what they are made of."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import BadInput


def check_output(path: Path | None, *inputs: Path) -> Path | None:
    """The path, if a file can be written there and is none of the inputs.

    Raises:
        BadInput: one sentence that says what to do.
    """
    if path is None or _is_special(path):
        return path
    file = path.resolve()
    if file.is_dir() or not file.parent.is_dir():
        raise BadInput(f"{path} is no place for a file; name a file in a folder that exists.")
    if not os.access(file.parent, os.W_OK) or (file.exists() and not os.access(file, os.W_OK)):
        raise BadInput(f"{path} cannot be written; name a file in a folder of yours.")
    if file.exists() and any(file.samefile(i) for i in inputs if i.exists()):
        raise BadInput(f"{path} is what is to be read; name another file for the output.")
    return path


def _is_special(path: Path) -> bool:
    """Whether it is a device or a pipe, which can only be written in place."""
    return path.exists() and not path.is_file() and not path.is_dir()


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all: an earlier one stays until the new one is complete.

    Raises:
        BadInput: no room, or no right to write.
    """
    special = _is_special(path)
    path = path if special else path.resolve()  # a link stays one
    part = path if special else path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="")
        if not special:
            part.replace(path)
    except OSError as error:
        if not special:
            part.unlink(missing_ok=True)
        raise BadInput(f"{path} could not be written ({error.strerror}); make room, or name another file.") from None


def new_folder(path: Path) -> None:
    """Make an empty folder.

    Raises:
        BadInput: it is a file, or not empty.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise BadInput(f"{path} exists and is no empty folder; name a new one.")
    path.mkdir(parents=True, exist_ok=True)
