"""Bar, grouped, horizontal bar, line and pie charts whose values are printed, to list or to query.

`chart` draws them in looks of their own, `plot` as matplotlib and Plotly do by default.
"""

import random
from dataclasses import replace
from functools import partial

from PIL import ImageFont

from glance.synth import vocabulary as words
from glance.synth.canvas import BRIGHT, COLOURS, fit, paper, text_width, title_font
from glance.synth.fonts import font
from glance.synth.looks import Look, library_look
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
        name = words.first_name(rng, split)
        if len(name) <= 5:  # short by itself: a part of a name can be one of another split
            names.add(name)
    return sorted(names)


def _values(rng: random.Random, count: int, short: bool = False) -> list[str]:
    """Distinct values, so that highest and lowest are well defined; `short` ones have at most two digits."""
    kind, values = rng.random() * (0.6 if short else 1.0), set()
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
    """The area below the title and the rows in it; with `series`, each category has a row for each of them."""

    def __init__(self, rng: random.Random, look: Look, top: float, rows: Rows, series: tuple[str, ...] = ()) -> None:
        self.rng, self.look, self.canvas, self.top, self.rows, self.series = rng, look, look.canvas, top, rows, series
        self.numbers = [float(value) for _, value in rows]

    def face(self, space: float, texts: list[str] | None = None) -> ImageFont.FreeTypeFont:
        """A font in which the widest label or value (or of `texts`) fits into `space` pixels, if there is one."""
        texts = texts or [text for row in self.rows for text in row]
        for _ in range(8):
            face = font(self.rng.choice(self.look.faces), self.rng.randint(16, 18))
            if max(text_width(face, text) for text in texts) <= space:
                return face
        return font("LiberationSans-Regular" if self.look.frame == "bare" else self.look.faces[0], 15)


def _key(plot: _Plot) -> None:
    """The names of the series with their colours, in a line above the plot."""
    face, x = plot.face(plot.canvas.width / 2 - 30, list(plot.series)), 12.0
    for name, colour in zip(plot.series, plot.look.colours, strict=False):
        plot.canvas.draw.rectangle([x, plot.top + 6, x + 11, plot.top + 17], fill=colour)
        plot.canvas.text(x + 17, plot.top, name, face)
        x += 30 + text_width(face, name)
    plot.top += face.size + 8


def _bars(plot: _Plot, line: bool = False) -> None:
    """Bars side by side, in groups where there are series, or a line through the same points."""
    canvas, look, members = plot.canvas, plot.look, len(plot.series) or 1
    names = [name for name, _ in plot.rows[::members]]
    if plot.series:
        names = [name.removesuffix(f" {plot.series[0]}") for name in names]
        _key(plot)
    left = look.margin(1.3 * max(plot.numbers))
    step = (canvas.width - 8 - left) / len(names)
    wide = step * look.bar / members
    face = plot.face(step - 3, names if plot.series else None)
    small = plot.face(wide, [value for _, value in plot.rows]) if plot.series else face
    base = canvas.height - face.size - 14
    tallest = base - plot.top - face.size - 8
    if look.frame != "bare":
        look.area(left, plot.top, base)
        look.axis(left, plot.top, base, max(plot.numbers) * (base - plot.top) / tallest)
    points = []
    for i, (_, value) in enumerate(plot.rows):
        group, member = divmod(i, members)
        x = left + step * (group + 0.5) + wide * (member - (members - 1) / 2)
        y = base - tallest * plot.numbers[i] / max(plot.numbers)
        if line:
            points.append((x, y))
        else:
            colour = look.colours[member if plot.series else i]
            canvas.draw.rectangle([x - wide / 2, y, x + wide / 2, base], fill=colour)
        canvas.text(x - text_width(small, value) / 2, y - small.size - 5, value, small)
        if member == 0:
            name, middle = names[group], left + step * (group + 0.5)
            canvas.text(middle - text_width(face, name) / 2, base + 5, name, face)
    if look.frame == "bare":
        canvas.draw.line([6, base, canvas.width - 6, base], fill=canvas.ink)
    if line:
        canvas.draw.line(points, fill=look.colours[0], width=3)
        for x, y in points:
            canvas.draw.ellipse([x - 3, y - 3, x + 3, y + 3], fill=look.colours[0])


def _horizontal(plot: _Plot) -> None:
    canvas, look = plot.canvas, plot.look
    face = plot.face(canvas.width * 0.36)
    left = max(text_width(face, name) for name, _ in plot.rows) + 14
    room = canvas.width - left - max(text_width(face, value) for _, value in plot.rows) - 14
    step = (canvas.height - plot.top - 8) / len(plot.rows)
    look.area(left, plot.top, canvas.height - 6)
    for i, (name, value) in enumerate(plot.rows):
        middle = plot.top + step * (i + 0.5)
        reach = room * plot.numbers[i] / max(plot.numbers)
        thick = min(step * look.band / 2, 18)
        canvas.draw.rectangle([left, middle - thick, left + reach, middle + thick], fill=look.colours[i])
        canvas.text(6, middle - face.size * 0.6, name, face)
        canvas.text(left + reach + 5, middle - face.size * 0.6, value, face)


def _pie(plot: _Plot) -> None:
    canvas, wide, colours = plot.canvas, plot.canvas.width >= plot.canvas.height, plot.look.colours
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
        canvas.draw.pieslice(box, angle, end, fill=colours[i], outline=canvas.paper)
        angle, row = end, y + pitch * i + max(0, (pitch - face.size) / 2 - 2)
        canvas.draw.rectangle([x, row + 4, x + 11, row + 15], fill=colours[i])
        canvas.text(x + 17, row, name, face)
        canvas.text(x + 17 + text_width(face, name + " "), row, value, face)


def _answers(rng: random.Random, title: str, rows: Rows) -> tuple[str, str, str]:
    """(question, answer, task)."""
    choice, numbers = rng.random(), [float(value) for _, value in rows]
    listed = ", ".join(f"{name} {value}" for name, value in rows)
    if choice < 0.45:
        return ask_list(rng), f"{title}: {listed}.", "list"
    if choice < 0.72:
        name, value = rng.choice(rows)
        return ask_value(rng, name), f"{name}: {value}", "value"
    if choice < 0.94:
        highest = rng.random() < 0.6
        name, value = rows[numbers.index(max(numbers) if highest else min(numbers))]
        word = "highest" if highest else "lowest"
        # read first, then compare: a small model has no other place to keep what it has read
        return ask_extreme(rng, highest), f"{listed}: the {word} is {name} with {value}.", word
    return ask_title(rng), state_title(title), "title"


def _draw(plot: _Plot, kind: str) -> None:
    {"pie": _pie, "horizontal": _horizontal, "line": partial(_bars, line=True)}.get(kind, _bars)(plot)


def chart(rng: random.Random, split: Split, level: float, size: tuple[int, int]) -> Sample:
    """One chart of two to six rows, in a look of its own."""
    canvas = paper(rng, size, dark_share=0.25)
    kind = rng.choice(["bars", "bars", "horizontal", "line", "pie"])
    count = rng.randint(2, _most(kind, level, size))
    rows = list(zip(_categories(rng, split, count), _values(rng, count), strict=True))
    face = title_font(rng, 18, 23)
    title = fit(capitalise(words.noun_phrase(rng)), face, size[0] - 16)
    canvas.centred(6, title, face) if rng.random() < 0.7 else canvas.text(8, 6, title, face)
    names = rng.sample(BRIGHT, count) if rng.random() < 0.5 else [rng.choice(BRIGHT)] * count
    if kind == "pie":
        names = rng.sample(BRIGHT, count)
    look = Look(canvas, tuple(COLOURS[name] for name in names))
    _draw(_Plot(rng, look, 12 + face.size, rows), kind)
    question, answer, task = _answers(rng, title, rows)
    return Sample(canvas.image, question, answer, "charts", f"{kind}/{task}", tuple(canvas.glyphs))


_SERIES = (("Plan", "Actual"), ("Before", "After"), ("Men", "Women"), ("2023", "2024"))


def _grouped(rng: random.Random, split: Split, most: int) -> tuple[Rows, tuple[str, ...]]:
    """A row for each category and each of two series, named by both; and the series."""
    categories = _categories(rng, split, rng.randint(2, max(2, most // 2)))
    series = rng.choice(_SERIES[:3] if categories[0].isdigit() else _SERIES)
    names = [f"{name} {part}" for name in categories for part in series]
    return list(zip(names, _values(rng, len(names), short=True), strict=True)), series


def plot(rng: random.Random, split: Split, level: float, size: tuple[int, int]) -> Sample:
    """One chart of two to six rows as a plotting library draws it by default."""
    look = library_look(rng, size)
    canvas, kind = look.canvas, rng.choice(["bars", "grouped", "horizontal", "line", "pie"])
    most = _most(kind, level, size)
    if kind == "grouped":
        rows, series = _grouped(rng, split, most)
    else:
        count = rng.randint(2, most)
        rows, series = list(zip(_categories(rng, split, count), _values(rng, count), strict=True)), ()
    face = font(look.faces[0], rng.randint(18, 23))
    title = fit(capitalise(words.noun_phrase(rng)), face, size[0] - 16)
    canvas.text(8, 6, title, face) if look.frame == "grid" else canvas.centred(6, title, face)
    if kind in ("bars", "horizontal"):  # both libraries give one series one colour
        look = replace(look, colours=look.colours[:1] * len(rows))
    _draw(_Plot(rng, look, 12 + face.size, rows, series), kind)
    question, answer, task = _answers(rng, title, rows)
    return Sample(canvas.image, question, answer, "plots", f"{kind}/{task}", tuple(canvas.glyphs))


def _most(kind: str, level: float, size: tuple[int, int]) -> int:
    """How many rows there is room for."""
    return min(2 + round(3.4 * level), 6 if kind == "horizontal" else size[0] // 50)
