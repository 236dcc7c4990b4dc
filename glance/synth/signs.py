"""Signs in front of a plain background: one to four short lines of text on a board."""

import random

from glance.synth import values
from glance.synth import vocabulary as words
from glance.synth.canvas import BRIGHT, COLOURS, Canvas, body_font, fit, text_width
from glance.synth.phrasing import ask_sign
from glance.synth.sample import Sample
from glance.synth.shapes import SHAPES
from glance.synth.vocabulary import Split, capitalise

_SHORT = """OPEN|CLOSED|EXIT|STOP|SALE|NO PARKING|ENTRANCE|PUSH|PULL|WELCOME|INFORMATION|TAXI|BUS STOP|CAFE|HOTEL
|LIBRARY|KEEP LEFT|SLOW|NO ENTRY|TICKETS|PLATFORM|MUSEUM|BAKERY|PHARMACY|FOR RENT|WET PAINT|TOILETS""".replace(
    "\n", ""
).split("|")


def _line(rng: random.Random, split: Split) -> str:
    kind = rng.random()
    if kind < 0.25:
        return rng.choice(_SHORT)
    if kind < 0.4:
        return words.company(rng, split)
    if kind < 0.5:
        return words.street(rng, split)
    if kind < 0.6:
        return f"{words.place(rng, split)} {rng.randint(2, 90)} km"
    if kind < 0.7:
        return f"{values.time_of_day(rng)} - {values.time_of_day(rng)}"
    text = words.noun_phrase(rng) if kind < 0.85 else words.any_words(rng, 2)
    return rng.choice([text.upper(), capitalise(text), text.title()])


def sign(rng: random.Random, split: Split, level: float, size: tuple[int, int]) -> Sample:
    """A board of one to four lines; the answer quotes them, parted by spaces."""
    width, height = size
    canvas = Canvas(size, tuple(rng.randint(90, 220) for _ in range(3)), (20, 20, 20))
    for _ in range(rng.randint(0, 4)):
        shape = SHAPES[rng.choice(["circle", "square", "triangle", "tree", "house"])]
        shape(
            canvas.draw,
            rng.uniform(0, width),
            rng.uniform(0, height),
            rng.uniform(12, 50),
            COLOURS[rng.choice(BRIGHT)],
        )
    face = body_font(rng, 19, 26)
    board_width = rng.randint(int(width * 0.65), width - 12)
    count, texts = rng.randint(1, 1 + round(3 * level)), []
    while len(texts) < count:
        text, room = _line(rng, split), board_width - 18
        if text_width(face, text.split()[0]) <= room:  # a part of a name can be one of another split
            texts.append(fit(text, face, room))
    pitch = face.size + 10
    board_height = pitch * len(texts) + 14
    x, y = rng.randint(4, width - board_width - 4), rng.randint(4, max(4, height - board_height - 4))
    if rng.random() < 0.5:
        board, ink = (
            tuple(rng.randint(0, 90) for _ in range(3)),
            tuple(rng.randint(220, 255) for _ in range(3)),
        )
    else:
        board, ink = (
            tuple(rng.randint(200, 255) for _ in range(3)),
            tuple(rng.randint(0, 60) for _ in range(3)),
        )
    canvas.draw.rounded_rectangle([x, y, x + board_width, y + board_height], rng.choice([0, 0, 8, 14]), board, ink, 2)
    for i, text in enumerate(texts):
        canvas.text(x + (board_width - text_width(face, text)) / 2, y + 8 + i * pitch, text, face, ink)
    quote = " ".join(texts)
    answer = rng.choice(
        [f'The sign says "{quote}".', f'It says "{quote}".', f'"{quote}"', f'The sign reads "{quote}".']
    )
    return Sample(canvas.image, ask_sign(rng), answer, "signs", "read", tuple(canvas.glyphs), alternatives=True)
