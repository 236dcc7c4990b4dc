"""How charts look by default in two plotting libraries, beside charts that look like no library's.

Colours, frames and faces are those of matplotlib 3.10 (style `default`) and Plotly 6 (template `plotly`); the type is
as large as in the other charts, because at their default size of ten or twelve points it would be lost on a canvas
this small.
"""

import random
from dataclasses import dataclass
from typing import Literal

from glance.synth.canvas import BRIGHT, COLOURS, Canvas, Colour, paper, text_width
from glance.synth.fonts import ALL, font

TINT: Colour = (229, 236, 246)  # the plot area of Plotly's template
TICK_SIZE = 13  # pixels; the numbers along an axis, which no question asks for


@dataclass(frozen=True)
class Look:
    """Colours, faces and frame of a chart.

    Args:
        canvas: the empty page.
        colours: of the series, in order; the others may not repeat.
        faces: fonts of the labels and the title.
        frame: `box`, four lines around the plot with ticks on the left; `grid`, a tinted area with white lines; or
            `bare`, the base line alone.
        title: where the title stands.
        gap: share of a bar's place that stays empty.
    """

    canvas: Canvas
    colours: tuple[Colour, ...]
    faces: tuple[str, ...] = ALL
    frame: Literal["box", "grid", "bare"] = "bare"
    title: Literal["left", "middle"] = "middle"
    gap: float = 0.36

    def axis(self, left: float, top: float, base: float, highest: float) -> None:
        """Frame, ticks and their numbers of a plot from `left` to the right edge; `highest` is the value at `top`."""
        canvas, right = self.canvas, self.canvas.width - 6
        if self.frame == "bare":
            canvas.draw.line([6, base, right, base], fill=canvas.ink)
            return
        if self.frame == "grid":
            canvas.draw.rectangle([left, top, right, base], fill=TINT)
        face = font(self.faces[0], TICK_SIZE)
        for tick in _ticks(highest):
            y, number = base - tick / highest * (base - top), str(tick)
            if self.frame == "grid":
                canvas.draw.line([left, y, right, y], fill=(255, 255, 255))
            else:
                canvas.draw.line([left - 4, y, left, y], fill=canvas.ink)
            canvas.text(left - 6 - text_width(face, number), y - TICK_SIZE * 0.65, number, face)
        if self.frame == "box":
            canvas.draw.rectangle([left, top, right, base], outline=canvas.ink)

    def margin(self, highest: float) -> float:
        """Pixels that the numbers along the axis need on the left."""
        return 8 if self.frame == "bare" else text_width(font(self.faces[0], TICK_SIZE), f"{highest:.0f}") + 12


_MATPLOTLIB: tuple[Colour, ...] = (
    (31, 119, 180),
    (255, 127, 14),
    (44, 160, 44),
    (214, 39, 40),
    (148, 103, 189),
    (140, 86, 75),
)
_PLOTLY: tuple[Colour, ...] = (
    (99, 110, 250),
    (239, 85, 59),
    (0, 204, 150),
    (171, 99, 250),
    (255, 161, 90),
    (25, 211, 243),
)


def _ticks(highest: float) -> range:
    """At most five round numbers from 0 up."""
    step = next(m * 10**e for e in range(4) for m in (1, 2, 5) if highest < 5 * m * 10**e)
    return range(0, int(highest) + 1, step)


def any_look(rng: random.Random, size: tuple[int, int]) -> Look:
    """A look of our own for every second chart, else one of the two libraries'."""
    choice = rng.random()
    if choice < 0.25:
        canvas = Canvas(size, (255, 255, 255), (0, 0, 0))
        return Look(canvas, _MATPLOTLIB, ("DejaVuSans",), "box", gap=0.2)
    if choice < 0.5:
        canvas = Canvas(size, (255, 255, 255), (42, 63, 95))
        return Look(canvas, _PLOTLY, ("OpenSans-Regular",), "grid", "left", gap=0.2)
    colours = tuple(COLOURS[name] for name in rng.sample(BRIGHT, 6))
    return Look(paper(rng, size, dark_share=0.25), colours, title=rng.choice(["middle", "middle", "left"]))
