"""ZeroGPU: a GPU that a Space is lent for the seconds of one run.

A run's generator lives in a forked worker there, so only strings go in and come out: the request as JSON (the picture
as PNG in it), the lines of the trace, and a file's name by which the page asks for the run's end. The models are
loaded before the fork, when the app is imported. Anywhere else nothing of this is used.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from glance.errors import BadInput
from glance.lanes import LANES

if TYPE_CHECKING:
    from app.models import Engine

ON = os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
if ON:
    import spaces  # before torch, which it prepares for the fork

REFUSED = "!"  # begins a line that is a refusal; the lines of a trace begin with "{"
LONGEST = 60.0  # seconds; the Space's tariff multiplies them, and a visitor without an account has two minutes a day


def seconds(request: str) -> float:
    """How long a run may take: the worker's start and the prefill, then 35 ms a token of the reference lane, and half
    of that for each further one. A short run asks for little, which puts it ahead in the queue."""
    settings = json.loads(request)["settings"]
    lanes = len(settings.get("lanes") or LANES)
    return min(LONGEST, 8 + 0.035 * settings["max_new_tokens"] * (lanes + 1) / 2)


def engine(inner: Engine) -> Engine:
    """The engine as it is or, on ZeroGPU, with its runs in the worker."""
    return ZeroEngine(inner, spaces.GPU) if ON else inner


class ZeroEngine:
    """An engine whose runs cross the fork as strings."""

    def __init__(self, inner: Engine, gpu: Callable[..., Callable[[str], Iterator[str]]]) -> None:
        self._inner = inner
        self.seen = inner.seen
        self._work = gpu(duration=seconds)(self._in_worker)

    def prompt(self, image: Image.Image, question: str) -> dict[str, str]:
        """The request, once the real prompt could be made of it. Raises `BadInput`."""
        self._inner.prompt(image, question)
        png = io.BytesIO()
        image.save(png, "PNG", compress_level=1)
        return {"question": question, "image": base64.b64encode(png.getvalue()).decode()}

    def _in_worker(self, request: str) -> Iterator[str]:
        asked = json.loads(request)
        image = Image.open(io.BytesIO(base64.b64decode(asked["image"])))
        image.load()
        try:
            prompt = self._inner.prompt(image, asked["question"])
            yield from self._inner.race(prompt, asked["settings"], Path(asked["stop"]).exists)
        except BadInput as problem:
            yield REFUSED + str(problem)

    def race(self, prompt: dict[str, str], settings: dict[str, Any], stopped: Callable[[], bool]) -> Iterator[str]:
        """The lines of a trace. Raises `BadInput` also with the host's own words, such as a quota that is used up."""
        import gradio as gr  # only here, so that the modules beside this one stay free of it

        with tempfile.TemporaryDirectory() as folder:
            stop = Path(folder) / "stop"
            request = json.dumps({**prompt, "settings": settings, "stop": str(stop)})
            try:
                with closing(self._work(request)) as lines:
                    for line in lines:
                        if line.startswith(REFUSED):
                            raise BadInput(line.removeprefix(REFUSED))
                        yield line
                        if stopped():
                            stop.touch()
            except gr.Error as refusal:
                words = " ".join(re.sub(r"<[^>]*>", " ", refusal.message).split())
                raise BadInput(f"The host's GPU was not to be had: {words}") from None
