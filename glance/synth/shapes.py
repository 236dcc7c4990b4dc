"""Flat drawings of simple things, each inside a square of side 2r around (x, y)."""

import math
from collections.abc import Callable

from PIL import ImageDraw

from glance.synth.canvas import Colour

Shape = Callable[[ImageDraw.ImageDraw, float, float, float, Colour], None]

_WOOD, _GLASS, _WHEEL = (110, 72, 40), (205, 228, 240), (30, 30, 30)


def circle(d: ImageDraw.ImageDraw, x: float, y: float, r: float, c: Colour) -> None:
    d.ellipse([x - r, y - r, x + r, y + r], fill=c)


def square(d: ImageDraw.ImageDraw, x: float, y: float, r: float, c: Colour) -> None:
    d.rectangle([x - r, y - r, x + r, y + r], fill=c)


def triangle(d: ImageDraw.ImageDraw, x: float, y: float, r: float, c: Colour) -> None:
    d.polygon([(x, y - r), (x - r, y + r), (x + r, y + r)], fill=c)


def star(d: ImageDraw.ImageDraw, x: float, y: float, r: float, c: Colour) -> None:
    radii = (r if i % 2 == 0 else 0.42 * r for i in range(10))
    d.polygon(
        [(x + s * math.sin(i * math.pi / 5), y - s * math.cos(i * math.pi / 5)) for i, s in enumerate(radii)],
        fill=c,
    )


def heart(d: ImageDraw.ImageDraw, x: float, y: float, r: float, c: Colour) -> None:
    d.ellipse([x - r, y - r, x + 0.1 * r, y + 0.2 * r], fill=c)
    d.ellipse([x - 0.1 * r, y - r, x + r, y + 0.2 * r], fill=c)
    d.polygon([(x - 0.92 * r, y - 0.1 * r), (x + 0.92 * r, y - 0.1 * r), (x, y + r)], fill=c)


def house(d: ImageDraw.ImageDraw, x: float, y: float, r: float, c: Colour) -> None:
    d.rectangle([x - 0.8 * r, y - 0.2 * r, x + 0.8 * r, y + r], fill=c)
    d.polygon([(x, y - r), (x - r, y - 0.2 * r), (x + r, y - 0.2 * r)], fill=_WOOD)
    d.rectangle([x - 0.2 * r, y + 0.3 * r, x + 0.2 * r, y + r], fill=_GLASS)


def tree(d: ImageDraw.ImageDraw, x: float, y: float, r: float, c: Colour) -> None:
    d.rectangle([x - 0.14 * r, y, x + 0.14 * r, y + r], fill=_WOOD)
    d.ellipse([x - 0.75 * r, y - r, x + 0.75 * r, y + 0.4 * r], fill=c)


def car(d: ImageDraw.ImageDraw, x: float, y: float, r: float, c: Colour) -> None:
    d.rectangle([x - 0.5 * r, y - 0.5 * r, x + 0.45 * r, y], fill=c)
    d.rectangle([x - 0.38 * r, y - 0.38 * r, x + 0.33 * r, y - 0.05 * r], fill=_GLASS)
    d.rectangle([x - r, y, x + r, y + 0.5 * r], fill=c)
    for wheel in (-0.5, 0.5):
        circle(d, x + wheel * r, y + 0.55 * r, 0.25 * r, _WHEEL)


def boat(d: ImageDraw.ImageDraw, x: float, y: float, r: float, c: Colour) -> None:
    d.polygon([(x - r, y + 0.4 * r), (x + r, y + 0.4 * r), (x + 0.6 * r, y + r), (x - 0.6 * r, y + r)], fill=_WOOD)
    d.polygon([(x, y - r), (x, y + 0.25 * r), (x + 0.85 * r, y + 0.25 * r)], fill=c)
    d.line([x, y - r, x, y + 0.4 * r], fill=_WHEEL, width=2)


def flower(d: ImageDraw.ImageDraw, x: float, y: float, r: float, c: Colour) -> None:
    d.line([x, y, x, y + r], fill=(46, 130, 60), width=max(2, int(r / 8)))
    for i in range(6):
        a = i * math.pi / 3
        circle(d, x + 0.38 * r * math.cos(a), y - 0.35 * r + 0.38 * r * math.sin(a), 0.26 * r, c)
    circle(d, x, y - 0.35 * r, 0.22 * r, (250, 220, 80))


def fish(d: ImageDraw.ImageDraw, x: float, y: float, r: float, c: Colour) -> None:
    d.ellipse([x - r, y - 0.5 * r, x + 0.55 * r, y + 0.5 * r], fill=c)
    d.polygon([(x + 0.4 * r, y), (x + r, y - 0.5 * r), (x + r, y + 0.5 * r)], fill=c)
    circle(d, x - 0.6 * r, y - 0.12 * r, 0.08 * r, _WHEEL)


def balloon(d: ImageDraw.ImageDraw, x: float, y: float, r: float, c: Colour) -> None:
    d.ellipse([x - 0.62 * r, y - r, x + 0.62 * r, y + 0.4 * r], fill=c)
    d.line([x, y + 0.4 * r, x + 0.1 * r, y + r], fill=_WHEEL, width=2)


SHAPES: dict[str, Shape] = {
    "circle": circle,
    "square": square,
    "triangle": triangle,
    "star": star,
    "heart": heart,
    "house": house,
    "tree": tree,
    "car": car,
    "boat": boat,
    "flower": flower,
    "fish": fish,
    "balloon": balloon,
}
ICONS = ("circle", "square", "triangle", "star", "heart")
