"""What is taken for a record of a trace, and what is refused: types by the records' own annotations, then the sense."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from .errors import TraceError

if TYPE_CHECKING:
    from .trace import Header, LaneEnd, Round

MAX_LANES = 8
# What the player counts with, in the mappings whose values the annotations leave open.
_OPEN = {
    "prompt": {"tokens": int, "image": tuple[Mapping[str, Any], ...]},
    "image": {"sha256": str, "width": int, "height": int, "tokens": int},
    "settings": {"max_new_tokens": int, "budget": int, "temperature": float, "seed": int, "eos_ids": tuple[int, ...]},
}
_hints = cache(get_type_hints)


def finite(text: str) -> float:
    """The number; ValueError for NaN and infinity, which JavaScript's JSON does not know."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def build(cls: type, data: Mapping[str, Any], where: str) -> Any:
    """The record of a JSON object; its fields' annotations say what is taken."""
    hints = _hints(cls)
    missing = [f.name for f in fields(cls) if f.name not in data and f.default is MISSING]
    if missing:
        raise TraceError(f"{where} lacks {missing[0]!r}; record the run again.")
    return cls(**{n: value_as(hints[n], data[n], f"{where}: {n!r}") for n in hints if n in data})


def value_as(hint: Any, value: Any, where: str) -> Any:
    """A JSON value as its annotation wants it: lists become tuples, objects become records.

    Raises:
        TraceError: a value of another type, or a whole number that JavaScript cannot hold.
    """
    kind, args = get_origin(hint) or hint, get_args(hint)
    if kind is UnionType:  # X | None
        return None if value is None else value_as(args[0], value, where)
    if kind is tuple and isinstance(value, list):
        return tuple(value_as(args[0], v, where) for v in value)
    if kind is Mapping and isinstance(value, dict):
        return {k: value_as(args[1], v, where) for k, v in value.items()}
    if is_dataclass(kind) and isinstance(value, dict):
        return build(kind, value, where)
    if type(value) is str and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise TraceError(f"{where} holds half of a surrogate pair; the file is damaged.") from None
    number = type(value) is int and abs(value) <= 2**53
    if kind is Any or (number if kind is int else type(value) is kind or (kind is float and number)):
        return value
    raise TraceError(f"{where} has a value of the wrong kind; the file is damaged.")


def check_round(rnd: Round, where: str) -> None:
    """Refuse a round whose tree, path, times, entropies or counts contradict each other, or cannot be."""
    n = len(rnd.tokens)
    if any(len(getattr(rnd, a)) != n for a in ("parents", "depths", "log_q", "log_p")):
        raise TraceError(f"{where} has tree arrays of different lengths; the file is damaged.")
    if any(not -1 <= p < i for i, p in enumerate(rnd.parents)):
        raise TraceError(f"{where} has a child before its parent; the file is damaged.")
    if any(d != (1 if p < 0 else rnd.depths[p] + 1) for p, d in zip(rnd.parents, rnd.depths, strict=True)):
        raise TraceError(f"{where} has depths that do not fit its parents; the file is damaged.")
    if any(not 0 <= a < n for a in rnd.accepted):
        raise TraceError(f"{where} accepts a node that is not in its tree; the file is damaged.")
    if any(rnd.parents[a] != before for before, a in zip((-1, *rnd.accepted), rnd.accepted, strict=False)):
        raise TraceError(f"{where} accepts nodes that are no path from the root; the file is damaged.")
    if any(value > 1e-3 for value in (*rnd.log_q, *rnd.log_p)):
        raise TraceError(f"{where} has a probability above one; the file is damaged.")
    _times(rnd.ms.values(), where)
    _nats((rnd.entropy, *rnd.entropies), where)
    path = [rnd.tokens[a] for a in rnd.accepted]
    if list(rnd.emitted) != path + ([] if rnd.bonus is None else [rnd.bonus]):
        raise TraceError(f"{where} emits other tokens than it accepts; the file is damaged.")
    if any(len(values) not in (0, len(rnd.emitted)) for values in (rnd.entropies, rnd.margins)):
        raise TraceError(f"{where} has entropies or margins for other tokens than it emits; the file is damaged.")
    if rnd.single_passes < 0:
        raise TraceError(f"{where} has fewer than no passes; the file is damaged.")
    tops = (rnd.draft_top, rnd.draft_top_log_q), (rnd.target_top, rnd.target_top_log_p)
    if any(len(ids) != len(values) for ids, values in tops):
        raise TraceError(f"{where} has likeliest tokens without probabilities; the file is damaged.")


def _check_open(kind: str, data: Mapping[str, Any], where: str) -> None:
    for key, hint in _OPEN[kind].items():
        if key in data:
            value_as(hint, data[key], f"{where}: {key!r} of {kind!r}")


def _times(times: Iterable[float], where: str) -> None:
    if any(not 0 <= ms < 1e12 for ms in times):
        raise TraceError(f"{where} has a time that no clock shows; the file is damaged.")


def _nats(entropies: Iterable[float], where: str) -> None:
    if any(not -1e-3 <= nats <= 100 for nats in entropies):  # rounding may leave a sure row a hair below 0
        raise TraceError(f"{where} has an entropy that no vocabulary allows; the file is damaged.")


def check_header(header: Header, where: str) -> None:
    """Refuse a header whose open mappings, times, entropy, budget or lanes cannot be shown."""
    _check_open("prompt", header.prompt, where)
    _check_open("settings", header.settings, where)
    for image in header.prompt.get("image", ()):
        _check_open("image", image, where)
    _times([header.prefill_ms], where)
    _nats([] if header.first_entropy is None else [header.first_entropy], where)
    if header.settings.get("budget", 1) < 1:
        raise TraceError(f"{where} has a budget below one node; the file is damaged.")
    if len(header.lanes) > MAX_LANES:
        raise TraceError(f"The header names {len(header.lanes)} lanes and {MAX_LANES} can be shown; split the run.")
    if any(key not in lane for lane in header.lanes for key in ("id", "name", "drafter")):
        raise TraceError("The header describes a lane without id, name or drafter; record the run again.")
    ids = [lane["id"] for lane in header.lanes]
    if not ids or len(set(ids)) < len(ids):
        raise TraceError("The header must name lanes, each once; the file is damaged.")


def check_end(end: LaneEnd, where: str) -> None:
    """Refuse a closing line with a law that no lane can have."""
    if end.law and (any(len(row) != 3 for row in end.law.band) or not 0 < end.law.horizon <= 4096):
        raise TraceError(f"{where} has a law with a horizon or a band that none can have; the file is damaged.")
