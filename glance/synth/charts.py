"""Bar, horizontal bar, line and pie charts whose values are printed, to list or to query."""

import random

from PIL import ImageFont

from glance.synth import vocabulary as words
from glance.synth.canvas import BRIGHT, COLOURS, Canvas, Colour, body_font, fit, paper, text_width, title_font
from glance.synth.fonts import font
from glance.synth.phrasing import ask_extreme, ask_list, ask_title, ask_value, state_title
from glance.synth.sample import Sample
from glance.synth.vocabulary import Split, capitalise

Rows = list[tuple[str, str]]


def _categories(rng: random.Random, split: Split, count: int) -> list[str]:
    kind = rng.random()
    if kind < 0.3:
        return [capitalise(noun) for noun in rng.sample([n for n in words.NOUNS if len(n) <= 6], count)]
    if kind < 0.5:
        first = rng.randint(1990, 2025)
        return [str(first + i) for i in range(count)]
    if kind < 0.65:
        return [month[:3] for month in rng.sample(words.MONTHS, count)]
    if kind < 0.75:
        return [name[:3] for name in rng.sample(words.DAYS, count)]
    if kind < 0.85:
        return rng.sample([name for name in words.COUNTRIES if len(name) <= 6], count)
    names: set[str] = set()
    while len(names) < count:
        names.add(words.first_name(rng, split)[:6])
    return sorted(names)


def _values(rng: random.Random, count: int) -> list[str]:
    """Distinct values, so that highest and lowest are well defined."""
    kind, values = rng.random(), set()
    while len(values) < count:
        if kind < 0.6:
            values.add(str(rng.randint(2, 99)))
        elif kind < 0.8:
            values.add(f"{rng.uniform(1, 60):.1f}")
        else:
            values.add(str(rng.randint(100, 900)))
    shuffled = sorted(values)
    rng.shuffle(shuffled)
    return shuffled


class _Plot:
    """The area below the title, the font of the labels and one colour for each row."""

    def __init__(self, rng: random.Random, canvas: Canvas, top: int, rows: Rows) -> None:
        self.canvas, self.top, self.rows, self.rng = canvas, top, rows, rng
        self.numbers = [float(value) for _, value in rows]
        names = rng.sample(BRIGHT, len(rows)) if rng.random() < 0.5 else [rng.choice(BRIGHT)] * len(rows)
        self.colours: list[Colour] = [COLOURS[name] for name in names]

    def face(self, space: float, texts: list[str] | None = None) -> ImageFont.FreeTypeFont:
        """A font in which the widest label or value (or of `texts`) fits into `space` pixels, if there is one."""
        texts = texts or [text for row in self.rows for text in row]
        for _ in range(8):
            face = body_font(self.rng, 16, 18)
            if max(text_width(face, text) for text in texts) <= space:
                return face
        return font("LiberationSans-Regular", 15)


def _bars(plot: _Plot, line: bool) -> None:
    canvas, count = plot.canvas, len(plot.rows)
    step = (canvas.width - 16) / count
    face = plot.face(step - 3)
    base = canvas.height - face.size - 14
    tallest = base - plot.top - face.size - 8
    points = []
    for i, (name, value) in enumerate(plot.rows):
        x = 8 + step * (i + 0.5)
        y = base - tallest * plot.numbers[i] / max(plot.numbers)
        if line:
            points.append((x, y))
        else:
            canvas.draw.rectangle([x - step * 0.32, y, x + step * 0.32, base], fill=plot.colours[i])
        canvas.text(x - text_width(face, value) / 2, y - face.size - 5, value, face)
        canvas.text(x - text_width(face, name) / 2, base + 5, name, face)
    canvas.draw.line([6, base, canvas.width - 6, base], fill=canvas.ink)
    if line:
        canvas.draw.line(points, fill=plot.colours[0], width=3)
        for x, y in points:
            canvas.draw.ellipse([x - 3, y - 3, x + 3, y + 3], fill=plot.colours[0])


def _horizontal(plot: _Plot) -> None:
    canvas = plot.canvas
    face = plot.face(canvas.width * 0.36)
    left = max(text_width(face, name) for name, _ in plot.rows) + 14
    room = canvas.width - left - max(text_width(face, value) for _, value in plot.rows) - 14
    step = (canvas.height - plot.top - 8) / len(plot.rows)
    for i, (name, value) in enumerate(plot.rows):
        middle = plot.top + step * (i + 0.5)
        reach = room * plot.numbers[i] / max(plot.numbers)
        thick = min(step * 0.36, 18)
        canvas.draw.rectangle([left, middle - thick, left + reach, middle + thick], fill=plot.colours[i])
        canvas.text(6, middle - face.size * 0.6, name, face)
        canvas.text(left + reach + 5, middle - face.size * 0.6, value, face)


def _pie(plot: _Plot) -> None:
    canvas, wide = plot.canvas, plot.canvas.width >= plot.canvas.height
    plot.colours = [COLOURS[name] for name in plot.rng.sample(BRIGHT, len(plot.rows))]
    space = canvas.height - plot.top
    if wide:
        radius = min(canvas.width * 0.2, space * 0.45)
        centre, x, y = (radius + 8, plot.top + space / 2), 2 * radius + 22, plot.top + 8
        pitch = (space - 16) / len(plot.rows)
    else:
        radius = min(canvas.width * 0.36, space * 0.28)
        centre, x, y = (canvas.width / 2, plot.top + radius + 4), 16, plot.top + 2 * radius + 14
        pitch = (canvas.height - y - 6) / len(plot.rows)
    face = plot.face(canvas.width - x - 23, [f"{name} {value}" for name, value in plot.rows])
    box = [centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius]
    angle, total = -90.0, sum(plot.numbers)
    for i, (name, value) in enumerate(plot.rows):
        end = angle + 360 * plot.numbers[i] / total
        canvas.draw.pieslice(box, angle, end, fill=plot.colours[i], outline=canvas.paper)
        angle, row = end, y + pitch * i + max(0, (pitch - face.size) / 2 - 2)
        canvas.draw.rectangle([x, row + 4, x + 11, row + 15], fill=plot.colours[i])
        canvas.text(x + 17, row, name, face)
        canvas.text(x + 17 + text_width(face, name + " "), row, value, face)


def _answers(rng: random.Random, title: str, rows: Rows, level: float) -> tuple[str, str, str]:
    """(question, answer, task)."""
    choice, numbers = rng.random(), [float(value) for _, value in rows]
    if choice < 0.45:
        return (
            ask_list(rng),
            f"{title}: " + ", ".join(f"{name} {value}" for name, value in rows) + ".",
            "list",
        )
    if choice < 0.72:
        name, value = rng.choice(rows)
        return ask_value(rng, name), f"{name}: {value}", "value"
    if choice < 0.94:
        highest = rng.random() < 0.6
        name, value = rows[numbers.index(max(numbers) if highest else min(numbers))]
        word = "highest" if highest else "lowest"
        return ask_extreme(rng, highest), f"The {word} is {name} with {value}.", word
    return ask_title(rng), state_title(title), "title"


def chart(rng: random.Random, split: Split, level: float, size: tuple[int, int]) -> Sample:
    """One chart of two to six rows."""
    canvas = paper(rng, size, dark_share=0.25)
    kind = rng.choice(["bars", "bars", "horizontal", "line", "pie"])
    most = min(2 + round(3.4 * level), 6 if kind == "horizontal" else size[0] // 50)
    count = rng.randint(2, most)
    rows = list(zip(_categories(rng, split, count), _values(rng, count), strict=True))
    face = title_font(rng, 18, 23)
    title = fit(capitalise(words.noun_phrase(rng)), face, size[0] - 16)
    canvas.centred(6, title, face) if rng.random() < 0.7 else canvas.text(8, 6, title, face)
    plot = _Plot(rng, canvas, 12 + face.size, rows)
    if kind == "horizontal":
        _horizontal(plot)
    elif kind == "pie":
        _pie(plot)
    else:
        _bars(plot, line=kind == "line")
    question, answer, task = _answers(rng, title, rows, level)
    return Sample(canvas.image, question, answer, "charts", f"{kind}/{task}", tuple(canvas.glyphs))
