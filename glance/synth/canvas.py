"""A drawing surface that remembers where it drew every character."""

import random
from functools import lru_cache
from itertools import accumulate, pairwise

from PIL import Image, ImageDraw, ImageFont

from glance.synth.fonts import ALL, BOLD, font
from glance.synth.sample import Glyphs

Colour = tuple[int, int, int]

COLOURS: dict[str, Colour] = {
    "red": (208, 44, 44),
    "blue": (38, 98, 190),
    "green": (46, 150, 60),
    "orange": (245, 135, 30),
    "purple": (136, 80, 180),
    "gray": (125, 125, 125),
    "pink": (236, 130, 180),
    "brown": (130, 82, 45),
    "yellow": (238, 205, 40),
    "white": (250, 250, 250),
    "black": (25, 25, 25),
}
BRIGHT = ("red", "blue", "green", "orange", "purple", "gray", "pink", "brown", "yellow")


@lru_cache(maxsize=20_000)
def advance(face: ImageFont.FreeTypeFont, character: str) -> float:
    """Width of one character in pixels; kerning, below a pixel, is left out."""
    return face.getlength(character)


def text_width(face: ImageFont.FreeTypeFont, text: str) -> float:
    return sum(advance(face, c) for c in text)


class Canvas:
    """An RGB image of `size` (width, height) pixels with ink and paper colours."""

    def __init__(self, size: tuple[int, int], paper: Colour, ink: Colour) -> None:
        self.image = Image.new("RGB", size, paper)
        self.draw = ImageDraw.Draw(self.image)
        self.width, self.height = size
        self.paper, self.ink = paper, ink
        self.glyphs: list[Glyphs] = []

    def text(self, x: float, y: float, text: str, face: ImageFont.FreeTypeFont, fill: Colour | None = None) -> None:
        """Draw `text` with its top left corner at (x, y)."""
        x, y = round(x), round(y)
        self.draw.text((x, y), text, font=face, fill=fill or self.ink)
        # 0.62 of the ascent is the middle of the lower-case letters in all nine fonts
        middle = y + face.getmetrics()[0] * 0.62
        edges = list(accumulate((advance(face, c) for c in text), initial=x))
        centres = tuple(((a + b) / 2, middle) for a, b in pairwise(edges))
        self.glyphs.append(Glyphs(text, centres))

    def centred(self, y: float, text: str, face: ImageFont.FreeTypeFont, fill: Colour | None = None) -> None:
        self.text((self.width - text_width(face, text)) / 2, y, text, face, fill)


def paper(rng: random.Random, size: tuple[int, int], dark_share: float = 0.15) -> Canvas:
    """A page: dark ink on light paper, or the reverse in `dark_share` of the cases."""
    light: Colour = tuple(rng.randint(225, 255) for _ in range(3))
    dark: Colour = tuple(rng.randint(0, 70) for _ in range(3))
    if rng.random() < 0.3:
        light = (255, 255, 255)
    if rng.random() < dark_share:
        light, dark = dark, light
    return Canvas(size, light, dark)


def body_font(rng: random.Random, low: int = 17, high: int = 22) -> ImageFont.FreeTypeFont:
    """17–22 px: a cell of 32 × 32 pixels then holds two or three characters of one line."""
    return font(rng.choice(ALL), rng.randint(low, high))


def title_font(rng: random.Random, low: int = 19, high: int = 24) -> ImageFont.FreeTypeFont:
    return font(rng.choice(BOLD + ALL), rng.randint(low, high))


def fit(text: str, face: ImageFont.FreeTypeFont, room: float) -> str:
    """The longest prefix of whole words (else of characters) that is at most `room` pixels wide."""
    while " " in text and text_width(face, text) > room:
        text = text.rsplit(" ", 1)[0]
    while len(text) > 1 and text_width(face, text) > room:
        text = text[:-1]
    return text
