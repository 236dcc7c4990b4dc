"""A recorded run as a table for a spreadsheet, and as a page that plays by itself.

The player's page makes the same two files in the browser (`assets/player/take.js`), byte for byte.
"""

from __future__ import annotations

import csv
import io
import json
import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from .trace import Lane, Round, Trace, read

PLAYER = Path(__file__).resolve().parent.parent / "assets" / "player"
TEMPLATE = PLAYER / "replay.html"

_FILE = re.compile(r'<link rel="stylesheet" href="([^"]+)">|<script src="([^"]+)"></script>')
_HELD = 'id="trace">'  # where the run stands in the page

COLUMNS = (
    "lane", "round", "position", "root_id", "root_text", "candidates", "tree_depth", "accepted", "emitted",
    "emitted_text", "root_entropy_nats", "root_margin", "deferred", "draft_passes", "draft_ms", "build_ms",
    "verify_ms", "commit_ms", "total_ms",
)  # fmt: skip
STAGES = ("draft", "build", "verify", "commit")


def scripts() -> tuple[Path, ...]:
    """The player's scripts in the order in which they load, Plotly first; the stand-alone page lists them."""
    return tuple(PLAYER / match[2] for match in _FILE.finditer(TEMPLATE.read_text(encoding="utf-8")) if match[2])


def replay_html(text: str) -> str:
    """A page that holds the player and the run, and needs neither a server nor a network.

    Args:
        text: the NDJSON of the run. No text of it can become markup: "<" is written as JSON's `\\u003c`.

    Raises:
        TraceError: the text is not a trace.
    """
    read(text)

    def inline(match: re.Match[str]) -> str:
        style, script = match.groups()
        content = (PLAYER / (style or script)).read_text(encoding="utf-8")
        return f"<style>{content}</style>" if style else f"<script>{content}</script>"

    template = TEMPLATE.read_text(encoding="utf-8")
    return _FILE.sub(inline, template.replace(_HELD, _HELD + text.replace("<", "\\u003c")))


def rounds_csv(trace: Trace) -> str:
    """A row a round: lane by lane, rounds counted from 1, times in ms, entropy in nats, floats to six decimals.

    Texts are JSON strings. So blanks and control characters survive, and since a cell then begins with a quotation
    mark, no spreadsheet takes a token for a formula. Bytes that are only a part of a character appear as U+FFFD.
    """
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow(COLUMNS)
    for lane in trace.lanes:
        rows.writerows(_row(trace, lane, rnd) for rnd in lane.rounds)
    return out.getvalue()


def _row(trace: Trace, lane: Lane, rnd: Round) -> list[object]:
    ms = [rnd.ms.get(stage, 0.0) for stage in STAGES]
    total = 0.0
    for part in ms:  # not sum(): it rounds in another way than JavaScript since Python 3.12
        total += part
    return [
        _name(lane.id), rnd.index + 1, rnd.position, rnd.root, _text(trace, [rnd.root]), len(rnd.tokens),
        max(rnd.depths, default=0), len(rnd.accepted), len(rnd.emitted), _text(trace, rnd.emitted),
        _float(rnd.entropy), _float(rnd.margin), int(rnd.deferred), rnd.draft_passes, *map(_float, [*ms, total]),
    ]  # fmt: skip


def _text(trace: Trace, ids: list[int] | tuple[int, ...]) -> str:
    joined = b"".join(trace.pieces.get(i, b"") for i in ids)
    return json.dumps(joined.decode("utf-8", errors="replace"), ensure_ascii=False)


def _float(value: float) -> str:
    """As JavaScript's `toFixed(6)` writes it."""
    if abs(value) >= 1e21:
        return repr(value)
    return str(Decimal(value + 0.0).quantize(Decimal("0.000001"), ROUND_HALF_UP))  # + 0.0: no minus before a zero


def _name(lane: str) -> str:
    return lane if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", lane) else json.dumps(lane, ensure_ascii=False)
