"""A saved run, read back: it may come from anywhere, and may have been torn off."""

from __future__ import annotations

import codecs
import json
import os
from pathlib import Path

from .trace import TraceError, read


def text_of(path: str | os.PathLike[str], limit: int | None = None) -> str:
    """The NDJSON of a saved run, checked, and without what was torn off in the middle of its last line.

    Args:
        limit: largest size in bytes, asked before anything is read.

    Raises:
        TraceError: one sentence: too large, not text, or not a trace.
    """
    try:
        if limit is not None and os.path.getsize(path) > limit:
            size = f"{os.path.getsize(path) / 2**20:.1f} MB"
            raise TraceError(f"The file has {size} and {limit / 2**20:.0f} fit; choose a trace saved by this app.")
        raw = Path(path).read_bytes()
    except OSError:
        raise TraceError("The file could not be opened; choose it again.") from None
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(raw)  # leaves out half a character at the end
    except UnicodeDecodeError:
        raise TraceError("The file is not text; choose a trace saved by this app.") from None
    text = text.replace("\r\n", "\n")
    read(text)
    whole, _, last = text.rpartition("\n")
    try:
        return text + "\n" if last and isinstance(json.loads(last), dict) else whole + "\n"
    except (ValueError, RecursionError):
        return whole + "\n"
