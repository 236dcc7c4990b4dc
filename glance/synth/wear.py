"""Mild wear of a picture: slight rotation, resampling, blur, noise, JPEG."""

import io
import math
import random
from dataclasses import replace

import numpy as np
from PIL import Image, ImageFilter

from glance.synth.sample import Glyphs, Sample


def worn(sample: Sample, rng: random.Random, share: float) -> Sample:
    """The sample as a camera or a bad scan might have it, in `share` of the cases."""
    if rng.random() >= share:
        return sample
    kind = rng.choice(["rotate", "resample", "blur", "noise", "jpeg"])
    if kind == "rotate":
        return _rotated(sample, rng.uniform(-2.0, 2.0))
    return replace(sample, image=_filtered(sample.image, kind, rng))


def _filtered(image: Image.Image, kind: str, rng: random.Random) -> Image.Image:
    if kind == "blur":
        return image.filter(ImageFilter.GaussianBlur(rng.uniform(0.3, 0.8)))
    if kind == "resample":
        scale = rng.uniform(0.7, 1.4)
        width, height = image.size
        other = image.resize((round(width * scale), round(height * scale)), Image.Resampling.BICUBIC)
        return other.resize(image.size, Image.Resampling.BICUBIC)
    if kind == "noise":
        noise = np.random.default_rng(rng.getrandbits(32)).normal(0, rng.uniform(2, 9), (*image.size[::-1], 3))
        return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=rng.randint(45, 90))
    return Image.open(buffer).convert("RGB")


def _rotated(sample: Sample, degrees: float) -> Sample:
    """Rotate counter-clockwise about the centre; the corners take the colour of the top left pixel."""
    image = sample.image
    corner = image.getpixel((0, 0))
    turned = image.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=corner)
    sin, cos = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    middle_x, middle_y = image.width / 2, image.height / 2

    def move(x: float, y: float) -> tuple[float, float]:
        dx, dy = x - middle_x, y - middle_y
        return middle_x + cos * dx + sin * dy, middle_y - sin * dx + cos * dy

    glyphs = tuple(Glyphs(g.text, tuple(move(x, y) for x, y in g.centres)) for g in sample.glyphs)
    return replace(sample, image=turned, glyphs=glyphs)
