"""The app on made-up runs: `python stub_server.py PORT`. No model is loaded.

The question chooses what the engine does: "slow" and "glacial" take their time, "fail" breaks in the middle, "refuse"
is refused, "hostile" answers with tokens that would harm a careless page, "history" repeats which earlier runs were
left before their end.
"""

import hashlib
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import gradio as gr
from PIL import Image

from app import main
from app.models import Models
from glance.errors import BadInput
from glance.examples import Example
from glance.trace import Identity, line, read, summarize
from tests.app import fake
from tests.app.fake import HOSTILE


def stopped_lines(lines: list[str]) -> list[str]:
    """The closing lines of a run that was stopped after these lines."""
    run = read("".join(lines))
    out = []
    for order, lane_id in enumerate(lane["id"] for lane in run.header.lanes):
        rounds = run.lane(lane_id).rounds
        ids = (run.header.first, *(i for r in rounds for i in r.emitted))
        end = read("".join(fake.lines())).lane(lane_id).end
        verdict = Identity(
            "so far" if order else "reference", run.header.lanes[0]["name"], len(ids), sentence="So far equal."
        )
        out.append(line(replace(end, ids=ids, reason="stopped", summary=summarize(rounds), identity=verdict)))
    return out


class Asked(str):
    """A question as a prompt."""

    ids_sha256 = "0" * 64


class StubEngine:
    """Answers with made-up runs."""

    def __init__(self) -> None:
        self.left: list[str] = []
        self.notes: dict[str, str] = {}

    def prompt(self, image: Image.Image, question: str) -> Asked:
        assert image.mode == "RGB"
        if "refuse" in question:
            raise BadInput("This question is refused; ask another.")
        return Asked(question)

    def look(self, prompt: Asked, answer: Sequence[int], emitted: int) -> object:
        """More attention the further down and right; the third cell gets most."""
        from glance.attention import Attention  # brings torch

        values = [0.001 * i for i in range(12)]
        values[2] = 0.1
        return Attention(3, 4, tuple(values), sum(values), (1, 5), emitted, emitted)

    def seen(self, image: Image.Image) -> Image.Image:
        return image.resize((224, 192))

    def race(self, prompt: str, settings: dict, stopped):
        words = HOSTILE * 2 if "hostile" in prompt else fake.ANSWER
        other = HOSTILE if "hostile" in prompt else fake.DISTRACTORS
        question = f"left: {self.left}" if "history" in prompt else prompt
        lines = fake.lines(words, other, question=question, budget=settings["budget"], run=f"run-{time.time_ns()}",
                           lanes=settings["lanes"] or tuple(dict(fake.LANES)))  # fmt: skip
        shown: list[str] = []
        try:
            for text in lines:
                if shown and stopped():
                    yield from stopped_lines(shown)
                    return
                time.sleep(0.1 * ("slow" in prompt) + 1.0 * ("glacial" in prompt))
                if "fail" in prompt and len(shown) == 12:
                    raise RuntimeError("made up")
                shown.append(text)
                yield text
        except GeneratorExit:
            self.left.append(prompt)
            raise


def picture(folder: Path) -> Path:
    """A small chart."""
    path = folder / "stub-chart.png"
    image = Image.new("RGB", (320, 240), "white")
    for i, colour in enumerate(("#0072b2", "#e69f00", "#009e73")):
        image.paste(colour, (40 + i * 90, 200 - 50 * (i + 1), 100 + i * 90, 200))
    image.save(path)
    return path


def examples(folder: Path) -> tuple[Example, ...]:
    """Three recorded runs."""
    path = picture(folder)
    pixels = hashlib.sha256(Image.open(path).convert("RGB").tobytes()).hexdigest()
    return (
        Example("chart", path, "What does the chart say?", "".join(fake.lines(run="first", image=pixels))),
        Example("hostile", path, HOSTILE[0], "".join(fake.lines(HOSTILE * 2, HOSTILE, HOSTILE[0], run="hostile"))),
        Example("differs", path, "Do they differ?", "".join(fake.lines(seed=2, run="differs", differs=True))),
    )


if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp(prefix="glance-stub-"))
    gr.set_static_paths([folder])
    main.models = Models(StubEngine)
    main.demo = main.build(examples(folder))
    main.launch(server_name="127.0.0.1", server_port=int(sys.argv[1]), quiet=True)
