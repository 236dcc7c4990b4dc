"""Pages full of unrelated words, numbers and codes: practice for the vision tower.

It learns what characters look like, and a full page shows it twice as many as a document for the same work, in more
faces, sizes and colours.
"""

import random
from collections.abc import Callable

from glance.synth import values
from glance.synth import vocabulary as words
from glance.synth.canvas import BRIGHT, COLOURS, fit, paper, text_width
from glance.synth.fonts import ALL, font
from glance.synth.sample import Sample
from glance.synth.vocabulary import Split, capitalise

_PRINTED = "".join(map(chr, range(33, 127)))
_Word = Callable[[random.Random, Split], str]
_WORDS: tuple[_Word, ...] = (
    lambda rng, split: words.any_words(rng, 1),
    lambda rng, split: capitalise(words.any_words(rng, 1)),
    lambda rng, split: words.any_words(rng, 1).upper(),
    words.company,
    words.street,
    lambda rng, split: values.number(rng) + rng.choice(["", "%", ":", ","]),
    lambda rng, split: rng.choice([values.amount, values.date, values.time_of_day, values.phone])(rng),
    lambda rng, split: values.code(rng),
    lambda rng, split: "".join(rng.choice(_PRINTED) for _ in range(rng.randint(1, 6))),
)


def lines(rng: random.Random, split: Split, level: float, size: tuple[int, int]) -> Sample:
    """A page full of lines, each in its own face and size; asked for the first. `level` counts for nothing."""
    canvas = paper(rng, size, dark_share=0.35)
    y, texts = rng.randint(1, 12), []
    while True:
        face, x = font(rng.choice(ALL), rng.randint(14, 26)), rng.randint(2, 30)
        if y + face.size + 4 > size[1]:
            break
        room, text = size[0] - x - 2, rng.choice(_WORDS)(rng, split)
        while text_width(face, text) < room:
            text += " " + rng.choice(_WORDS)(rng, split)
        texts.append(fit(text, face, room))
        canvas.text(x, y, texts[-1], face, COLOURS[rng.choice(BRIGHT)] if rng.random() < 0.1 else None)
        y += face.size + rng.randint(2, 10)
    return Sample(canvas.image, "Read the first line.", texts[0], "lines", "first", tuple(canvas.glyphs))
