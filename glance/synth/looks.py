"""How charts look: like no library's, or by default in matplotlib 3.10 or Plotly 6 (template `plotly`).

Of the libraries' looks this has colours, frames, ticks and faces. Type is as large as in the other charts: at their
default of ten or twelve points it would be lost on a canvas this small.
"""

import random
from dataclasses import dataclass
from typing import Literal

from glance.synth.canvas import Canvas, Colour, text_width
from glance.synth.fonts import ALL, font

TINT: Colour = (229, 236, 246)  # the plot area of Plotly's template
TICK_SIZE = 13  # pixels; the numbers along an axis, which no question asks for


@dataclass(frozen=True)
class Look:
    """Page, colours, faces and frame of a chart.

    Args:
        canvas: the page.
        colours: one for each row, or for each series; a pie needs as many as it has slices.
        faces: fonts of labels and title.
        frame: `box`, four lines around the plot with ticks on the left; `grid`, a tinted area with white lines; or
            `bare`, the base line alone.
        bar, band: shares of their place that vertical and horizontal bars fill.
    """

    canvas: Canvas
    colours: tuple[Colour, ...]
    faces: tuple[str, ...] = ALL
    frame: Literal["bare", "box", "grid"] = "bare"
    bar: float = 0.64
    band: float = 0.72

    def area(self, left: float, top: float, base: float) -> None:
        """What lies behind the plot, up to the right edge."""
        box = [left, top, self.canvas.width - 6, base]
        if self.frame == "grid":
            self.canvas.draw.rectangle(box, fill=TINT)
        elif self.frame == "box":
            self.canvas.draw.rectangle(box, outline=self.canvas.ink)

    def axis(self, left: float, top: float, base: float, highest: float) -> None:
        """Ticks and their numbers left of the plot; `highest` is the value at its top."""
        canvas, face = self.canvas, font(self.faces[0], TICK_SIZE)
        for tick in ticks(highest):
            y, number = base - tick / highest * (base - top), str(tick)
            if self.frame == "grid":
                canvas.draw.line([left, y, canvas.width - 6, y], fill=(255, 255, 255))
            else:
                canvas.draw.line([left - 4, y, left, y], fill=canvas.ink)
            canvas.text(left - 6 - text_width(face, number), y - TICK_SIZE * 0.65, number, face)

    def margin(self, highest: float) -> float:
        """Pixels left of a plot with that axis."""
        return 8 if self.frame == "bare" else text_width(font(self.faces[0], TICK_SIZE), f"{highest:.0f}") + 12


def ticks(highest: float) -> range:
    """At most five round numbers from 0 up."""
    step = next(m * 10**e for e in range(4) for m in (1, 2, 5) if highest < 5 * m * 10**e)
    return range(0, int(highest) + 1, step)


def library_look(rng: random.Random, size: tuple[int, int]) -> Look:
    """The look of one of the two libraries, on an empty page."""
    if rng.random() < 0.5:
        page = Canvas(size, (255, 255, 255), (0, 0, 0))
        return Look(page, _MATPLOTLIB, ("DejaVuSans",), "box", bar=0.8, band=0.8)
    page = Canvas(size, (255, 255, 255), (42, 63, 95))
    return Look(page, _PLOTLY, ("OpenSans-Regular",), "grid", bar=0.8, band=0.8)


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
