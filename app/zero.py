"""ZeroGPU: a GPU that a Space is lent for the seconds of one run.

A run's generator lives in a forked worker there, so only strings go in and come out: the request as JSON (the picture
as PNG in it), the lines of the trace, and a file's name by which the page asks for the run's end. A look at the
target's attention goes the same way. The models are loaded before the fork, when the app is imported. Anywhere else
nothing of this is used.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from glance.errors import BadCheckpoint, BadInput
from glance.lanes import LANES

if TYPE_CHECKING:
    from app.models import Engine
    from glance.attention import Attention

Work = Callable[[str], Iterator[str]]  # what runs in the worker

ON = os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
if ON:
    import spaces  # before torch, which it prepares for the fork

REFUSED = "!"  # begins a line that is a refusal; the lines of a trace begin with "{"
START = 8.0  # seconds for the worker's start and the prefill
LONGEST = 60.0  # seconds; the Space's tariff multiplies them, and a visitor without an account has two minutes a day


def seconds(request: str) -> float:
    """How long a run may take: its start, then 35 ms a token of the reference lane, and half of that for each further
    one. A short run asks for little, which puts it ahead in the queue."""
    settings = json.loads(request)["settings"]
    lanes = len(settings.get("lanes") or LANES)
    return min(LONGEST, START + 0.035 * settings["max_new_tokens"] * (lanes + 1) / 2)


def engine(inner: Engine) -> Engine:
    """The engine as it is or, on ZeroGPU, with its runs in the worker."""
    return ZeroEngine(inner, spaces.GPU) if ON else inner


@dataclass(frozen=True)
class Asked:
    """A prompt as it crosses the fork: the question, the picture as PNG in base64, and the hash of the prompt's ids."""

    question: str
    image: str
    ids_sha256: str


class ZeroEngine:
    """An engine whose work with the model crosses the fork as strings."""

    def __init__(self, inner: Engine, gpu: Callable[..., Callable[[Work], Work]]) -> None:
        self._inner = inner
        self.seen, self.notes = inner.seen, inner.notes
        self._race = gpu(duration=seconds)(self._race_in_worker)
        self._look = gpu(duration=START)(self._look_in_worker)

    def prompt(self, image: Image.Image, question: str) -> Asked:
        """The request, once the real prompt could be made of it. Raises `BadInput`."""
        made = self._inner.prompt(image, question)
        png = io.BytesIO()
        image.save(png, "PNG", compress_level=1)
        return Asked(question, base64.b64encode(png.getvalue()).decode(), made.ids_sha256)

    def race(self, prompt: Asked, settings: dict[str, Any], stopped: Callable[[], bool]) -> Iterator[str]:
        """The lines of a trace. Raises `BadInput`."""
        with tempfile.TemporaryDirectory() as folder:
            stop = Path(folder) / "stop"
            request = json.dumps({**asdict(prompt), "settings": settings, "stop": str(stop)})
            with closing(_lines(self._race, request)) as lines:
                for line in lines:
                    yield line
                    if stopped():
                        stop.touch()

    def look(self, prompt: Asked, answer: Sequence[int], emitted: int) -> Attention:
        """Where the target looked while it wrote the last tokens of an answer. Raises `BadInput`."""
        from glance.attention import Attention  # brings torch

        (line,) = _lines(self._look, json.dumps({**asdict(prompt), "answer": answer, "emitted": emitted}))
        found = json.loads(line)
        return Attention(**{**found, "values": tuple(found["values"]), "layers": tuple(found["layers"])})

    def _race_in_worker(self, request: str) -> Iterator[str]:
        asked = json.loads(request)
        try:
            yield from self._inner.race(self._prompt_in_worker(asked), asked["settings"], Path(asked["stop"]).exists)
        except (BadInput, BadCheckpoint) as problem:
            yield REFUSED + str(problem)

    def _look_in_worker(self, request: str) -> Iterator[str]:
        asked = json.loads(request)
        try:
            found = self._inner.look(self._prompt_in_worker(asked), asked["answer"], asked["emitted"])
            yield json.dumps(asdict(found))
        except (BadInput, BadCheckpoint) as problem:
            yield REFUSED + str(problem)

    def _prompt_in_worker(self, asked: dict[str, Any]) -> Any:
        image = Image.open(io.BytesIO(base64.b64decode(asked["image"])))
        image.load()
        return self._inner.prompt(image, asked["question"])


def _lines(work: Work, request: str) -> Iterator[str]:
    """What the worker gives; raises `BadInput` also with the host's own words, such as a quota that is used up."""
    import gradio as gr  # only here, so that the modules beside this one stay free of it

    try:
        with closing(work(request)) as lines:
            for line in lines:
                if line.startswith(REFUSED):
                    raise BadInput(line.removeprefix(REFUSED))
                yield line
    except gr.Error as refusal:
        words = " ".join(re.sub(r"<[^>]*>", " ", refusal.message).split())
        raise BadInput(f"The host's GPU was not to be had: {words}") from None
