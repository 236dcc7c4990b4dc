"""Several decoders answer one prompt, a round at a time, as the NDJSON lines of a trace."""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from . import law, provenance, reach
from .engine import Decoding, Settings, certainty, first_token
from .errors import BadInput
from .identity import compare
from .lanes import LANES
from .prompt import Prompt
from .trace import Header, Identity, LaneEnd, Round, line, summarize

if TYPE_CHECKING:
    from .presets import Family

log = logging.getLogger(__name__)
NOT_HELPING = 0.05  # mean accepted tokens a round below which a head does not help
LOOPS, LOOP_TOKENS = 4, 32  # an end that repeats itself so often, and for so many tokens, is a loop


def race(
    family: Family,
    prompt: Prompt,
    settings: Settings,
    lanes: Sequence[str] = tuple(LANES),
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[str]:
    """Decode one prompt with several lanes; the first is the reference. A lane whose drafter fails ends alone.

    One round runs at a time, and always that of the lane whose own measured clock is furthest behind. So no lane
    disturbs another's timing on the one device, and all grow together as they would side by side.

    Args:
        stopped: asked before each round; once true, the lanes close with the reason "stopped".

    Yields:
        The lines of a trace: header, rounds, closing lines.

    Raises:
        BadInput: an unknown lane, a lane twice, or a prompt too long for the model.
    """
    unknown = [i for i in lanes if i not in LANES]
    if unknown or not lanes:
        raise BadInput(f"Choose lanes among {', '.join(LANES)}; {', '.join(unknown) or 'none'} was given.")
    if len(set(lanes)) < len(lanes):
        raise BadInput("Choose each lane once.")
    family.check_length(prompt, settings)
    started = time.perf_counter()
    prefill = family.target.prefill(prompt)
    first = first_token(prefill, settings)
    prefill_ms = 1e3 * (time.perf_counter() - started)
    vocabulary = family.vocabulary
    known: set[int] = set()

    def emit(record: Header | Round | LaneEnd, ids: Sequence[int]) -> str:
        new = dict.fromkeys(i for i in ids if i not in known)
        text = line(record, {i: vocabulary.piece(i) for i in new})
        known.update(new)
        return text

    (entropy,), (margin,) = certainty(prefill.logits[None])
    header = Header(
        run=uuid.uuid4().hex,
        question=prompt.question,
        prompt={"tokens": prompt.length, "ids_sha256": prompt.ids_sha256, "image": list(prompt.images)},
        settings={**settings.__dict__, "eos_ids": sorted(family.eos_ids)},
        lanes=tuple({"id": i, "name": LANES[i], "drafter": family.drafter_name(i)} for i in lanes),
        first=first,
        prefill_ms=prefill_ms,
        provenance=provenance.of(family, settings),
        first_entropy=entropy,
        first_margin=margin,
    )
    yield emit(header, [first, *family.eos_ids])

    stop = family.stop_rules(settings)
    runs = {i: Decoding(family.target, prefill, family.drafter(i), settings, stop, lane=i) for i in lanes}
    steps = {i: iter(run) for i, run in runs.items()}
    rounds: dict[str, list[Round]] = {i: [] for i in lanes}
    clock = dict.fromkeys(lanes, 0.0)
    failed: dict[str, str] = {}
    while steps and not stopped():
        lane = min(steps, key=clock.__getitem__)
        try:
            rnd = next(steps[lane], None)
            text = rnd and emit(rnd, [rnd.root, *rnd.tokens, *rnd.emitted, *rnd.draft_top, *rnd.target_top])
        except Exception as error:
            if lane == lanes[0] or isinstance(error, BadInput):
                raise
            log.exception("the lane %s failed", lane)
            failed[lane] = f"This lane failed ({type(error).__name__}); the others went on."
            rnd = None
        if rnd is None:
            del steps[lane]
            continue
        rounds[lane].append(rnd)
        clock[lane] += rnd.total_ms
        yield text

    reference = runs[lanes[0]]
    for lane, run in runs.items():
        answer = (first, *(i for rnd in rounds[lane] for i in rnd.emitted))  # a failed lane may hold half a round more
        summary = summarize(rounds[lane])
        note = failed.get(lane) or _note(lane, rounds[lane])
        if run is reference:
            entropies = [entropy, *(e for rnd in rounds[lane] for e in rnd.entropies)]
            whole = run.reason == "eos" or len(entropies) >= reach.FIRST
            if whole and settings.temperature == 0:  # as in the measurement of the limit
                note = note or reach.warning(entropies, family.reach)
            if run.reason != "eos":
                note = f"{note} {_loop(answer)}".strip()
            identity = Identity("reference", LANES[lane], len(answer), sentence="The reference of this run.")
        else:
            identity = compare(
                LANES[lanes[0]],
                reference.answer or [first],
                answer,
                rounds[lanes[0]],
                bool(reference.reason and run.reason and lane not in failed),
                lambda i: vocabulary.piece(i).decode("utf-8", errors="replace"),
                None if settings.temperature > 0 else family.rounding,
            )
        yield emit(
            LaneEnd(
                lane=lane,
                ids=answer,
                text=vocabulary.text(answer),
                sha256=hashlib.sha256(vocabulary.bytes(answer)).hexdigest(),
                reason="failed" if lane in failed else run.reason or "stopped",
                begin_ms=run.begin_ms,
                summary=summary,
                identity=identity,
                note=note,
                law=law.of_rounds(rounds[lane], min(run.drafter.horizon, settings.budget)),
            ),
            answer,
        )


def _loop(answer: Sequence[int]) -> str:
    """A warning where the end of an answer says the same again and again: what repeats is easy to draft."""
    for period in range(1, len(answer) // LOOPS + 1):
        span = max(LOOPS * period, LOOP_TOKENS)
        if len(answer) >= span and answer[-span:-period] == answer[period - span :]:
            return (
                f"The answer goes round in circles, {period} token{'s' * (period > 1)} at a time. Repeats are easy to "
                "draft, so the accepted lengths of this run are not typical."
            )
    return ""


def _note(lane: str, rounds: Sequence[Round]) -> str:
    """A warning where a head falls silent, or drafts and nothing of it is accepted."""
    drafted = [r for r in rounds if r.draft_passes]
    silent = len(rounds) - len(drafted)
    if silent and lane != "autoregressive":
        return f"In {silent} of {len(rounds)} rounds this head drafted nothing: the text outgrew its positions."
    if len(drafted) >= 4 and sum(len(r.accepted) for r in drafted) < NOT_HELPING * len(drafted):
        return "This head is not helping: the target accepted almost none of its tokens. Was it made for this target?"
    return ""
