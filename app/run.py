"""A run as the app shows it: from what a visitor entered to the growing text of a trace, with a status sentence.

Nothing here knows a component of Gradio, so all of it can be tested with made-up lines.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from app.models import Models
from app.turns import place
from glance.errors import BadCheckpoint, BadInput
from glance.images import load_image
from glance.lanes import LANES

HERE = f"{Path(__file__).resolve().parent.parent}{os.sep}"  # what a visitor need not know of this server
UPDATE_SECONDS = 0.125
MAX_NEW_TOKENS, MAX_BUDGET, MAX_TEMPERATURE = 512, 63, 1.5

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Update:
    """What to change on the page: None keeps what is there. `warning` asks for a notice beside the status."""

    status: str
    trace: str | None = None
    seen: Image.Image | None = None
    warning: bool = False


class Stops:
    """Which sessions have asked their run to end."""

    def __init__(self) -> None:
        self._flags: dict[str, threading.Event] = {}

    def arm(self, session: str) -> threading.Event:
        """A fresh flag for the session's next run."""
        self._flags[session] = threading.Event()
        return self._flags[session]

    def flag(self, session: str) -> threading.Event:
        """The session's flag, made where there is none."""
        return self._flags.get(session) or self.arm(session)

    def press(self, session: str) -> None:
        """End the session's run before its next round, also one that has not begun yet."""
        if session in self._flags:
            self._flags[session].set()

    def holds(self, session: str) -> bool:
        """Whether the session has a run that is not over."""
        return session in self._flags

    def drop(self, session: str) -> None:
        """Forget a session whose run is over."""
        self._flags.pop(session, None)


def whole(name: str, value: Any, low: int, high: int) -> int:
    """A whole number from a control or an API call, or `BadInput`."""
    try:
        number = float(value)
        if not low <= number <= high or number != int(number):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{name} must be a whole number from {low} to {high}.") from None
    return int(number)


def picture(path: str | None, page: Any) -> tuple[Image.Image, tuple[str, ...]]:
    """The page, from 1, of a file as an RGB image, and what was done to it. Raises `BadInput`."""
    return load_image(path, whole("Page", page, 1, 100_000) - 1)


def check_question(question: str | None) -> None:
    """Refuse a question without words. Raises `BadInput`."""
    if not (question or "").strip():
        raise BadInput("The question is empty; type what you want to know about the picture.")


def lanes_from(chosen: Iterable[str] | None) -> tuple[str, ...]:
    """Ids of the lanes to run, in their usual order; empty for all that the model has heads for.

    All chosen, as nothing chosen, means those: a model may lack a head.

    Raises:
        BadInput: one lane only, or an unknown one.
    """
    wanted = {lane.strip() for lane in chosen or ()} - {""}
    unknown = sorted(wanted - set(LANES))
    if unknown:
        raise BadInput(f"There is no lane {unknown[0]!r}; choose among {', '.join(LANES)}.")
    if len(wanted) == 1:
        raise BadInput("One lane alone is no race; choose at least two.")
    return () if wanted == set(LANES) else tuple(lane for lane in LANES if lane in wanted)


def settings_from(
    max_new_tokens: Any, budget: Any, temperature: Any, seed: Any, lanes: Iterable[str] | None = None
) -> dict[str, Any]:
    """The decoding settings as keyword arguments, each checked.

    Args:
        lanes: as `lanes_from` takes them.

    Raises:
        BadInput: one sentence about the first value that cannot be used.
    """
    try:
        heat = float(temperature)
        if not 0 <= heat <= MAX_TEMPERATURE:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"Temperature must be a number from 0 to {MAX_TEMPERATURE}.") from None
    return {
        "max_new_tokens": whole("New tokens", max_new_tokens, 1, MAX_NEW_TOKENS),
        "budget": whole("Budget", budget, 1, MAX_BUDGET),
        "temperature": heat,
        "seed": whole("Seed", seed, 0, 2**31 - 1),
        "lanes": lanes_from(lanes),
    }


def decode(
    models: Models,
    path: str | None,
    page: Any,
    question: str | None,
    settings: dict[str, Any],
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Update]:
    """Answer a question about a file with all lanes.

    Bad input and failures become updates with a sentence; what was decoded until then stays. Closing this generator
    ends the run and frees what it held.

    Args:
        path: the file, an image or a PDF.
        page: page of a PDF, from 1.
        settings: as `settings_from` gives them.
        stopped: asked before every round.
    """
    text = ""
    try:
        check_question(question)
        image, notes = picture(path, page)
        yield from _loading(models, stopped)
        with models.turns.ticket() as ticket:
            while ticket.ahead and not stopped():
                yield Update(place(ticket.ahead))
                ticket.wait(0.5)
            if stopped():
                yield Update("Stopped before the run began.")
                return
            engine = models.get()
            prompt = engine.prompt(image, question)
            note = f" ({', '.join(notes)})" if notes else ""
            yield Update(f"Reading the picture{note}…", seen=engine.seen(image))
            with closing(grow(engine.race(prompt, settings, stopped))) as texts:
                for text in texts:
                    yield Update("Decoding…", text)  # always the same, so that it is announced once
        about = [note for lane, note in engine.notes.items() if lane in (settings["lanes"] or LANES)]
        yield Update(" ".join((ending(text, stopped()), *about)), text)
    except (BadInput, BadCheckpoint) as problem:
        yield Update(str(problem).replace(HERE, ""), warning=True)
    except Exception as problem:
        log.exception("a run failed")
        kept = "what was decoded so far is kept" if text else "nothing was decoded"
        yield Update(f"The run failed ({type(problem).__name__}); {kept}. Try again.", text or None, warning=True)


def _loading(models: Models, stopped: Callable[[], bool]) -> Iterator[Update]:
    """Say that the model is loading for as long as it does."""
    models.start()
    started = time.monotonic()
    while not (models.ready or stopped()):
        tens = int(time.monotonic() - started) // 10 * 10  # a screen reader speaks at every change
        yield Update(f"Loading the model, once for all visitors…{f' {tens} s' if tens else ''}")
        if models.wait(0.5):
            return


def grow(lines: Iterable[str], seconds: float = UPDATE_SECONDS) -> Iterator[str]:
    """The text so far, at most every so many seconds, at the end, and before an error. Closes the lines when closed."""
    parts: list[str] = []
    shown, last = 0, -seconds
    try:
        for line in lines:
            parts.append(line)
            if time.monotonic() - last >= seconds:
                last, shown = time.monotonic(), len(parts)
                yield "".join(parts)
        if shown < len(parts):
            yield "".join(parts)
    except Exception:
        yield "".join(parts)
        raise
    finally:
        close = getattr(lines, "close", None)
        if close:
            close()


def ending(text: str, was_stopped: bool) -> str:
    """The last sentence of a run."""
    ends = [json.loads(line) for line in text.split("\n") if line.startswith('{"kind":"end"')]
    verdicts = [end["identity"]["verdict"] for end in ends]
    if "differs" in verdicts:
        return "Done, but not every lane wrote the same: its card says where."
    if any(end["reason"] == "failed" for end in ends):
        return "Done, but a lane failed: its card says so."
    if was_stopped:
        return "Stopped. What was decoded is kept and can be replayed."
    same = "Every lane wrote the same bytes." if len(verdicts) > 1 else ""
    doubt = ends[0].get("note") if ends else ""  # of the reference: the target itself is unsure
    return f"Done. {same} {doubt or 'Press Play to watch the run again.'}"
