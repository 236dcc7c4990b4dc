"""What the generator yields: an image, a question, an answer, and where everything was drawn."""

from dataclasses import dataclass

from PIL import Image


@dataclass(frozen=True)
class Glyphs:
    """One drawn string; `centres[i]` is the pixel (x, y) of character i's middle."""

    text: str
    centres: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Thing:
    """One object of a scene and the pixel box (left, top, right, bottom) that it fills."""

    kind: str
    colour: str
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class Sample:
    """One question about one image.

    `family` is one of the five task families, `task` names what is asked within it. `alternatives` is True
    where several wordings are equally right, so an exact match says nothing.
    """

    image: Image.Image
    question: str
    answer: str
    family: str
    task: str
    glyphs: tuple[Glyphs, ...]
    things: tuple[Thing, ...] = ()
    alternatives: bool = False
