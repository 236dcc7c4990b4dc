"""Simple scenes to describe. The wording is free on purpose: several captions are equally right."""

import random

from glance.synth.canvas import BRIGHT, COLOURS, Canvas, Colour
from glance.synth.phrasing import ask_scene
from glance.synth.sample import Sample, Thing
from glance.synth.shapes import SHAPES
from glance.synth.vocabulary import Split

BACKGROUNDS: dict[str, tuple[Colour, Colour]] = {
    # name: (upper half, lower half)
    "meadow": ((180, 215, 245), (150, 205, 130)),
    "sea": ((200, 225, 245), (70, 140, 200)),
    "desert": ((250, 225, 180), (230, 195, 120)),
    "snow": ((190, 205, 225), (245, 248, 252)),
    "night sky": ((25, 30, 60), (45, 50, 85)),
}
_SETTINGS = {
    "meadow": ["on a meadow", "on green grass", "in a green field", "on a lawn"],
    "sea": ["by the sea", "at the sea", "in front of the water", "over blue water"],
    "desert": ["in the desert", "on sand", "on a sandy plain", "in a dry place"],
    "snow": ["in the snow", "on white snow", "on a winter day", "in a snowy place"],
    "night sky": ["at night", "in the dark", "under a night sky", "on a dark night"],
}
_SIZES = {"large": ["large", "big", "huge"], "small": ["small", "little", "tiny"]}
_OPENINGS = (
    "The image shows ",
    "There is ",
    "We see ",
    "This picture has ",
    "Here is ",
    "I can see ",
    "The scene has ",
    "",
)


def _noun(rng: random.Random, thing: Thing, size: str) -> str:
    """A noun phrase with its article; the size is said or left out."""
    adjective = rng.choice(_SIZES[size]) + " " if rng.random() < 0.6 else ""
    phrase = f"{adjective}{thing.colour} {thing.kind}"
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


def _join(rng: random.Random, nouns: list[str]) -> str:
    if len(nouns) == 1:
        return nouns[0]
    if len(nouns) == 2:
        return nouns[0] + rng.choice([" and ", " next to ", " beside ", " near ", " with "]) + nouns[1]
    return f"{nouns[0]}, {nouns[1]}{rng.choice([' and ', ', and '])}{nouns[2]}"


def _caption(rng: random.Random, things: list[Thing], sizes: list[str], setting: str) -> str:
    order = list(range(len(things)))
    if rng.random() < 0.3:
        order.reverse()
    body = _join(rng, [_noun(rng, things[i], sizes[i]) for i in order])
    place = rng.choice(_SETTINGS[setting])
    form = rng.random()
    if form < 0.6:
        text = f"{rng.choice(_OPENINGS)}{body} {place}."
    elif form < 0.8:
        text = f"{place}, there {'is' if len(things) == 1 else 'are'} {body}."
    else:
        text = f"{body} {place}."
    if rng.random() < 0.3:
        text += rng.choice(
            [
                " It looks calm.",
                " It is a simple drawing.",
                " The colors are flat.",
                " Nothing else is there.",
            ]
        )
    return text[:1].upper() + text[1:]


def _look_up(rng: random.Random, things: list[Thing]) -> tuple[str, str, str]:
    """(question, answer, task) about one thing, or about how many there are."""
    kinds = [thing.kind for thing in things]
    thing = rng.choice(things)
    if rng.random() < 0.6 and kinds.count(thing.kind) == 1:
        question = rng.choice([f"What color is the {thing.kind}?", f"Which color does the {thing.kind} have?"])
        return question, f"The {thing.kind} is {thing.colour}.", "colour"
    question = rng.choice(["How many things are there?", "How many objects do you see?", "Count the objects."])
    count = ("one object", "two objects", "three objects")[len(things) - 1]
    return question, f"There {'is' if len(things) == 1 else 'are'} {count}.", "count"


def scene(rng: random.Random, split: Split, level: float, size: tuple[int, int]) -> Sample:
    """One to three things on one of five backgrounds."""
    width, height = size
    setting = rng.choice(list(BACKGROUNDS))
    upper, lower = BACKGROUNDS[setting]
    canvas = Canvas(size, upper, (0, 0, 0))
    horizon = height * rng.uniform(0.45, 0.65)
    canvas.draw.rectangle([0, horizon, width, height], fill=lower)
    count = rng.randint(1, 3)
    things, sizes = [], []
    for i in range(count):
        kind, colour = rng.choice(list(SHAPES)), rng.choice(BRIGHT)
        name = rng.choice(["large", "small"])
        room = min(width / count / 2, height / 2) - 4
        radius = min(room, rng.uniform(36, 52) if name == "large" else rng.uniform(18, 26))
        x = (i + 0.5) * width / count + rng.uniform(-1, 1) * (width / count / 2 - radius)
        y = rng.uniform(radius + 4, height - radius - 4)
        SHAPES[kind](canvas.draw, x, y, radius, COLOURS[colour])
        things.append(Thing(kind, colour, (x - radius, y - radius, x + radius, y + radius)))
        sizes.append(name)
    if rng.random() < 0.3:
        question, answer, task = _look_up(rng, things)
        return Sample(canvas.image, question, answer, "scenes", task, (), tuple(things))
    caption = _caption(rng, things, sizes, setting)
    return Sample(canvas.image, ask_scene(rng), caption, "scenes", "describe", (), tuple(things), alternatives=True)
