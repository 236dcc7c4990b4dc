"""Where the target looked in one round of a run, as the player asks it: from a trace and the picture on the page."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict
from typing import Any

from app.models import Models
from app.run import HERE, picture, whole
from glance import trace
from glance.errors import BadCheckpoint, BadInput

MAX_TRACE = 5 * 2**20  # bytes of a saved run

log = logging.getLogger(__name__)


def where(models: Models, text: str | None, lane: Any, index: Any, path: str | None, page: Any) -> dict[str, Any]:
    """The attention of a round over the visual tokens, or a sentence on why there is none.

    Args:
        text: the NDJSON of the run.
        lane, index: id of the lane, and its round from 0.
        path, page: the picture on the page, and the page of a PDF from 1.

    Returns:
        The fields of `glance.attention.Attention` with `sampled` (whether the run was), or only `sentence`.
    """
    try:
        return _where(models, text or "", lane, index, path, page)
    except (BadInput, BadCheckpoint, trace.TraceError) as problem:
        return {"sentence": str(problem).replace(HERE, "")}
    except Exception as problem:
        log.exception("a look failed")
        return {"sentence": f"It could not be computed ({type(problem).__name__})."}


def _where(models: Models, text: str, lane: Any, index: Any, path: str | None, page: Any) -> dict[str, Any]:
    if len(text) > MAX_TRACE:
        raise BadInput("The run is too long for this; choose a shorter one.")
    run = trace.read(text)
    rounds = next((x.rounds for x in run.lanes if x.id == lane), ())
    k = whole("The round", index, 0, max(0, len(rounds) - 1))
    if not rounds or not rounds[k].emitted:
        raise BadInput("This round emitted no token; choose another one.")
    if not path:
        raise BadInput("The picture of this run is not here; choose it on the page, and ask again.")
    image, _ = picture(path, page)
    if [x["sha256"] for x in run.header.prompt.get("image", ())] != [hashlib.sha256(image.tobytes()).hexdigest()]:
        raise BadInput("The picture on the page is not the one of this run; choose that one, and ask again.")
    with models.turns.ticket() as ticket:
        while ticket.ahead:
            ticket.wait(1.0)
        engine = models.get()
        prompt = engine.prompt(image, run.header.question)
        if prompt.ids_sha256 != run.header.prompt.get("ids_sha256"):
            raise BadInput("The model that is loaded reads this prompt in another way; the run was made with another.")
        answer = (run.header.first, *(i for rnd in rounds[: k + 1] for i in rnd.emitted))
        found = engine.look(prompt, answer, len(rounds[k].emitted))
    return {**asdict(found), "sampled": run.header.settings.get("temperature", 0) > 0}


def answer(found: dict[str, Any], ticket: Any) -> str:
    """What the player takes: JSON, with the ticket of its question."""
    rounded = {**found, "values": [float(f"{v:.4g}") for v in found["values"]]} if "values" in found else found
    return json.dumps({**rounded, "ticket": ticket})
