"""The record of a run: what every decoder did, round by round.

One format everywhere. A run is append-only NDJSON: a header line, then a line a round of any lane, then a
closing line a lane. The app streams these lines, a file holds them, the player draws nothing else, and
`read` turns them back into a `Trace` without a model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .errors import TraceError
from .trace_checks import build, check_end, check_header, check_round, finite

SCHEMA = 1


@dataclass(frozen=True)
class Round:
    """One pass of the target over a pending root and its candidate tree.

    Nodes are numbered from 0 without the root; `parents[i] == -1` means the root. `log_q` is the drafter's and
    `log_p` the target's natural-log probability of node i's token given its parent's path.

    Args:
        lane: id of the decoder.
        index: number of the round in its lane, from 0.
        root: token id of the pending root: emitted before, verified only now.
        position: sequence index of the root (image tokens counted), which is also the cache length before it.
        tokens, parents, depths: the candidate tree; depths start at 1.
        log_q, log_p: natural-log probabilities of each node, nats.
        accepted: node indices of the accepted path that was emitted, in order.
        bonus: the target's own token after the path; None where a stop rule cut before it.
        emitted: token ids that this round added to the answer, after the stop rules.
        entropy: the target's next-token entropy at the root row, nats.
        margin: top-1 minus top-2 logit at the root row.
        deferred: True where the tie gate took the last token from an ordinary one-token pass.
        draft_passes: sequential passes of the drafter.
        ms: milliseconds of `draft`, `build`, `verify` and `commit`.
        entropies, margins: the same two of the target's row that chose each emitted token: the root row, then that of
            each accepted node, and the one-token pass for a deferred token. Empty in older traces, as are the rest.
        draft_top, draft_top_log_q: the drafter's likeliest tokens after the root and their log-probabilities, best
            first; empty where nothing was drafted.
        target_top, target_top_log_p: the target's at the root row.
        single_passes: one-token passes of the target that the tie gate asked for: the deferred token's, and with
            `exact_ties` those of all rows since the last one.
    """

    lane: str
    index: int
    root: int
    position: int
    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    depths: tuple[int, ...]
    log_q: tuple[float, ...]
    log_p: tuple[float, ...]
    accepted: tuple[int, ...]
    bonus: int | None
    emitted: tuple[int, ...]
    entropy: float
    margin: float
    deferred: bool
    draft_passes: int
    ms: Mapping[str, float]
    entropies: tuple[float, ...] = ()
    margins: tuple[float, ...] = ()
    draft_top: tuple[int, ...] = ()
    draft_top_log_q: tuple[float, ...] = ()
    target_top: tuple[int, ...] = ()
    target_top_log_p: tuple[float, ...] = ()
    single_passes: int = 0

    @property
    def total_ms(self) -> float:
        """Milliseconds of the whole round."""
        return sum(self.ms.values())


@dataclass(frozen=True)
class Summary:
    """The numbers of one lane. `tau` is emitted tokens a round: mean accepted length plus one, except that a last
    round cut by a stop rule counts only what it emitted. None stands for "no round was needed".

    `target_passes` counts verify passes, not the shared prefill; `ms` is decode time, prefill excluded.
    """

    tokens: int
    rounds: int
    target_passes: int
    draft_passes: int
    tau: float | None
    ms: float
    ms_per_token: float | None
    tokens_per_s: float | None
    deferred: int


@dataclass(frozen=True)
class Identity:
    """Whether a lane's bytes equal the reference lane's.

    `verdict` is "reference", "identical", "differs", or "so far" (stopped early: equal as far as both got).
    On a difference: `index` in the answer, the token id on each side, and the top-1 minus top-2 logit of the
    reference there (None where the reference had no row to compare, or the token was drawn); `tie` says whether
    rounding can turn that margin around.
    """

    verdict: str
    reference: str
    compared: int
    index: int | None = None
    expected: int | None = None
    got: int | None = None
    margin: float | None = None
    sentence: str = ""
    tie: bool | None = None


@dataclass(frozen=True)
class Law:
    """The entropy law of one lane, as `glance.law.fit` finds it: logit p = intercept - slope * H.

    Args:
        intercept, slope: of the logit of a match at root entropy H, in nats.
        low, high: the slope's 95 % bootstrap interval over rounds.
        horizon: tokens that a round can accept at most.
        r: Pearson's correlation of root entropy and accepted length.
        rounds: rounds that were fitted.
        band: rows of (H, low, high): the 95 % interval of the mean accepted length along the entropies met.
    """

    intercept: float
    slope: float
    low: float
    high: float
    horizon: int
    r: float
    rounds: int
    band: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class LaneEnd:
    """The closing line of a lane: the answer, why it stopped ("eos", "length", "stop string", "stopped", or "failed"
    for a drafter that raised), its summary and its verdict. `begin_ms` is the drafter's own prefill. `note` warns
    ("this head is not helping"). `law` is None where the lane had too few rounds, or drafted nothing."""

    lane: str
    ids: tuple[int, ...]
    text: str
    sha256: str
    reason: str
    begin_ms: float
    summary: Summary
    identity: Identity
    note: str = ""
    law: Law | None = None


@dataclass(frozen=True)
class Header:
    """The first line: what was asked, of which models, with which settings.

    Args:
        run: unique id of the run.
        question: the question as typed.
        prompt: `tokens` (prompt length), `ids_sha256`, and `image`: a list of {sha256, width, height, tokens}.
        settings: the decoding settings as a flat mapping.
        lanes: a list of {id, name, drafter}; the first is the reference.
        first: id of the first answer token, which the shared prefill gives to every lane.
        prefill_ms: milliseconds of the shared prefill.
        provenance: versions, device, dtype, threads, attention kernel, model ids, seed, git id.
        first_entropy, first_margin: entropy and margin of the prefill's row that chose `first`; None in older traces.
    """

    run: str
    question: str
    prompt: Mapping[str, Any]
    settings: Mapping[str, Any]
    lanes: tuple[Mapping[str, str], ...]
    first: int
    prefill_ms: float
    provenance: Mapping[str, Any]
    first_entropy: float | None = None
    first_margin: float | None = None


@dataclass(frozen=True)
class Lane:
    """One decoder's rounds, and its closing line unless the run was torn off."""

    id: str
    rounds: tuple[Round, ...]
    end: LaneEnd | None


@dataclass(frozen=True)
class Trace:
    """A whole run. `pieces` maps a token id to its bytes."""

    header: Header
    lanes: tuple[Lane, ...]
    pieces: Mapping[int, bytes] = field(default_factory=dict)

    def lane(self, lane_id: str) -> Lane:
        """The lane of that id; KeyError where there is none."""
        for lane in self.lanes:
            if lane.id == lane_id:
                return lane
        raise KeyError(lane_id)


def summarize(rounds: Iterable[Round]) -> Summary:
    """Count a lane's rounds. The first token comes from the prefill and costs no round."""
    rounds = tuple(rounds)
    decoded = sum(len(r.emitted) for r in rounds)
    ms = sum(r.total_ms for r in rounds)
    return Summary(
        tokens=1 + decoded,
        rounds=len(rounds),
        target_passes=sum(1 + max(r.single_passes, r.deferred) for r in rounds),
        draft_passes=sum(r.draft_passes for r in rounds),
        tau=decoded / len(rounds) if rounds else None,
        ms=ms,
        ms_per_token=ms / decoded if decoded else None,
        tokens_per_s=1e3 * decoded / ms if ms else None,
        deferred=sum(r.deferred for r in rounds),
    )


# --- lines ---------------------------------------------------------------------------------------------------

_KINDS = {"header": Header, "round": Round, "end": LaneEnd}


def _plain(value: Any) -> Any:
    """JSON values only, floats cut to six significant digits; NaN and infinity are refused by `json`."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def _encode_piece(piece: bytes) -> str | dict[str, list[int]]:
    """A token's bytes: its text where they are UTF-8 by themselves, else the byte values."""
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return {"bytes": list(piece)}


def _decode_piece(piece: Any) -> bytes:
    return bytes(list(piece["bytes"])) if isinstance(piece, dict) else piece.encode("utf-8")


def line(record: Header | Round | LaneEnd, pieces: Mapping[int, bytes] | None = None) -> str:
    """One NDJSON line, newline included. `pieces` are the bytes of token ids that this line shows first."""
    kind = next(k for k, cls in _KINDS.items() if isinstance(record, cls))
    data = {"kind": kind, **({"schema": SCHEMA} if kind == "header" else {}), **_plain(asdict(record))}
    if pieces:
        data["pieces"] = {str(i): _encode_piece(b) for i, b in pieces.items()}
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def read(text: str) -> Trace:
    """Parse and check the NDJSON of a run, also one that was torn off in the middle of a line.

    Raises:
        TraceError: not a trace, another schema, or a damaged line; the message is one sentence.
    """
    header: Header | None = None
    rounds: dict[str, list[Round]] = {}
    ends: dict[str, LaneEnd] = {}
    pieces: dict[int, bytes] = {}
    lines = text.split("\n")
    for number, raw in enumerate(lines, 1):
        where = f"Line {number}"
        if not raw:
            continue
        try:
            data = json.loads(raw, parse_float=finite, parse_constant=finite)
            kind = data.get("kind")
        except (ValueError, AttributeError, RecursionError):
            if number == len(lines):  # no newline behind it: torn off
                break
            raise TraceError(f"{where} is not a JSON object; choose a trace saved by this app.") from None
        if (number == 1) != (kind == "header"):
            raise TraceError("This is not a GLANCE trace: its first line, and only that, must be a header.")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise TraceError(f"{where} is of the unknown kind {kind!r}; the file may come from a newer version.")
        try:
            pieces.update({int(i): _decode_piece(p) for i, p in data.get("pieces", {}).items()})
        except (AttributeError, KeyError, TypeError, ValueError):
            raise TraceError(f"{where} has a token without readable bytes; the file is damaged.") from None
        if kind == "header":
            if data.get("schema") != SCHEMA:
                raise TraceError(f"The trace has schema {data.get('schema')!r}; this version reads schema {SCHEMA}.")
            header = build(Header, data, where)
            check_header(header, where)
            rounds = {lane["id"]: [] for lane in header.lanes}
            continue
        record = build(_KINDS[kind], data, where)
        if record.lane not in rounds:
            raise TraceError(f"{where} belongs to the lane {record.lane!r}, which the header does not name.")
        if kind == "round":
            check_round(record, where)
            rounds[record.lane].append(record)
        else:
            check_end(record, where)
            ends[record.lane] = record
    if header is None:
        raise TraceError("The trace is empty; choose a file saved by this app.")
    lanes = tuple(Lane(i, tuple(r), ends.get(i)) for i, r in rounds.items())
    return Trace(header, lanes, pieces)


def write(trace: Trace) -> str:
    """The NDJSON of a trace. `read(write(t))` equals `t` up to the six digits of its floats."""
    out = [line(trace.header, trace.pieces)]
    out += [line(rnd) for lane in trace.lanes for rnd in lane.rounds]
    out += [line(lane.end) for lane in trace.lanes if lane.end]
    return "".join(out)
