"""Infographics: a title and a few rows of icon, big number and caption."""

import random

from glance.synth import values
from glance.synth import vocabulary as words
from glance.synth.canvas import BRIGHT, COLOURS, body_font, fit, paper, title_font
from glance.synth.phrasing import ask_infographic, ask_title, ask_value, state_title
from glance.synth.sample import Sample
from glance.synth.shapes import ICONS, SHAPES
from glance.synth.vocabulary import Split, capitalise


def _figure(rng: random.Random) -> str:
    return values.number(rng) + rng.choice(["%", "%", "", "k", "M", "x"])


def infographic(rng: random.Random, split: Split, level: float, size: tuple[int, int]) -> Sample:
    """One to four facts; each is a number over its caption, or beside it on a wide canvas."""
    canvas = paper(rng, size, dark_share=0.3)
    face = title_font(rng)
    title = fit(capitalise(words.noun_phrase(rng)), face, size[0] - 20)
    canvas.text(10, 8, title, face)
    top, most = 16 + face.size, (size[1] - 40) // 54
    count = rng.randint(1, max(1, min(most, 1 + round(3 * level))))
    pitch = (size[1] - top - 4) / max(count, 2)
    number_face, label_face = title_font(rng, 20, 25), body_font(rng, 17, 19)
    facts: list[tuple[str, str]] = []
    for i in range(count):
        y = top + i * pitch
        icon, colour = rng.choice(ICONS), COLOURS[rng.choice(BRIGHT)]
        SHAPES[icon](canvas.draw, 27, y + min(pitch / 2, 28), 15, colour)
        figure = _figure(rng)
        label = fit(words.noun_phrase(rng), label_face, size[0] - 64)
        canvas.text(54, y + 2, figure, number_face, colour if rng.random() < 0.3 else None)
        canvas.text(54, y + 5 + number_face.size, label, label_face)
        facts.append((figure, label))
    choice = rng.random()
    question, task = ask_infographic(rng), "list"
    answer = f"{title}: " + ", ".join(f"{figure} {label}" for figure, label in facts) + "."
    if choice > 0.92:
        question, answer, task = ask_title(rng), state_title(title), "title"
    elif choice > 0.65:
        figure, label = rng.choice(facts)
        question, answer, task = ask_value(rng, label), f"{label}: {figure}", "value"
    return Sample(canvas.image, question, answer, "infographics", task, tuple(canvas.glyphs))
