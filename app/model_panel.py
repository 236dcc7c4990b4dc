"""Which model answers, chosen on the page. For hosts that set GLANCE_CHOOSE=1: what one visitor loads, all get."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import gradio as gr

from app import zero
from app.models import Models, load
from app.replay import status
from app.run import HERE
from glance.errors import BadCheckpoint, BadInput

VARIABLE = "GLANCE_CHOOSE"
NONE = "none"

log = logging.getLogger(__name__)


def parts_of(name: str) -> list[str]:
    """A preset's target, block head, EAGLE-3 head, dtype and quantization, as the environment leaves them."""
    from glance.presets import PARTS, resolve

    preset = resolve(name)
    return [str(getattr(preset, part) or NONE).replace(HERE, "") for part in PARTS]


def change(models: Models, name: str, values: Sequence[str]) -> Iterator[str]:
    """Load a preset with these parts in place of the present model, once no run needs that; yields sentences.

    A model that cannot be loaded leaves the present one in its place.
    """
    from glance.presets import PARTS, resolve

    given = {part: (value or "").strip() or NONE for part, value in zip(PARTS, values, strict=True)}
    try:
        if given["target"] == NONE:
            raise BadInput("Name a target: a folder or a hub id.")
        own = dict(zip(PARTS, parts_of(name), strict=True))
        parts = {part: value for part, value in given.items() if value != own[part]}
        resolve(name, **parts)
        with models.turns.ticket() as ticket:
            while ticket.ahead:
                yield "Waiting for the runs before yours…"
                ticket.wait(0.5)
            models.change(partial(load, name, parts))
            try:
                while not models.wait(0.5):
                    yield "Loading the model, for all visitors…"
                models.get()
            finally:
                models.start()  # after a failure the earlier model, before the next run asks for one
        yield "Loaded. The next run asks it."
    except (BadInput, BadCheckpoint) as problem:
        yield f"{str(problem).replace(HERE, '')} The earlier model stays."
    except Exception as problem:
        log.exception("a model could not be loaded")
        yield f"The model cannot be loaded ({type(problem).__name__}). The earlier model stays."


def build(models: Models) -> None:
    """The panel, or nothing where the host does not allow it. On ZeroGPU models are loaded before the first visitor."""
    if os.environ.get(VARIABLE) != "1" or zero.ON:
        return
    from glance.checkpoints.target import QUANTIZE
    from glance.presets import DTYPES, PRESETS

    name = os.environ.get("GLANCE_PRESET", "mini")
    target, block, eagle3, dtype, quantize = parts_of(name)
    with gr.Accordion("Model", open=False, elem_id="model"):
        preset = gr.Dropdown(list(PRESETS), value=name, label="Preset", elem_id="preset")
        values = [
            gr.Textbox(target, label="Target (folder or hub id)"),
            gr.Textbox(block, label="GLANCE head (or none)"),
            gr.Textbox(eagle3, label="EAGLE-3 head (or none)"),
            gr.Dropdown(list(DTYPES), value=dtype, label="Type"),
            gr.Dropdown(list(QUANTIZE), value=quantize, label="Quantization of the target"),
        ]
        button = gr.Button("Load for all visitors", elem_id="load")
        words = status("", elem_id="model-status")
        private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
        preset.input(parts_of, preset, values, **private)
        button.click(
            lambda name, *chosen: (yield from change(models, name, chosen)),
            [preset, *values], words, concurrency_id="load", concurrency_limit=1, **private,
        )  # fmt: skip
