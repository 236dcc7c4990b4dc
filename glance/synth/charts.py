"""Bar, grouped, horizontal bar, line and pie charts whose values are printed, to list or to query."""

import random

from PIL import ImageFont

from glance.synth import vocabulary as words
from glance.synth.canvas import fit, text_width
from glance.synth.fonts import font
from glance.synth.looks import TINT, Look, any_look
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


def _values(rng: random.Random, count: int, short: bool) -> list[str]:
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
    """The area below the title, its look, and the rows in it; with `series`, each category has a row for each."""

    def __init__(self, rng: random.Random, look: Look, top: float, rows: Rows, series: tuple[str, ...] = ()) -> None:
        self.rng, self.look, self.canvas, self.top, self.rows, self.series = rng, look, look.canvas, top, rows, series
        self.numbers = [float(value) for _, value in rows]
        several = look.frame == "bare" and rng.random() < 0.5
        self.colours = look.colours if several or series else look.colours[:1] * len(rows)

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
    for name, colour in zip(plot.series, plot.colours, strict=False):
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
    highest = max(plot.numbers) / 0.84
    left = look.margin(highest)
    step = (canvas.width - 8 - left) / len(names)
    face = plot.face(step - 3, names)
    wide = step * (1 - look.gap) / members
    values = plot.face(wide if plot.series else step - 3, [value for _, value in plot.rows])
    base = canvas.height - face.size - 14
    look.axis(left, plot.top, base, highest)
    points = []
    for i, number in enumerate(plot.numbers):
        group, member = divmod(i, members)
        x = left + step * (group + 0.5) + wide * (member - (members - 1) / 2)
        y = max(base - (base - plot.top) * number / highest, plot.top + values.size + 6)
        points.append((x, y))
        if not line:
            colour = plot.colours[member if plot.series else i]
            canvas.draw.rectangle([x - wide / 2, y, x + wide / 2, base], fill=colour)
    if line:
        canvas.draw.line(points, fill=plot.colours[0], width=3)
        for x, y in points:
            canvas.draw.ellipse([x - 3, y - 3, x + 3, y + 3], fill=plot.colours[0])
    for (x, y), (_, value) in zip(points, plot.rows, strict=True):
        canvas.text(x - text_width(values, value) / 2, y - values.size - 5, value, values)
    for group, name in enumerate(names):
        canvas.text(left + step * (group + 0.5) - text_width(face, name) / 2, base + 5, name, face)


def _horizontal(plot: _Plot) -> None:
    canvas, look = plot.canvas, plot.look
    face = plot.face(canvas.width * 0.36)
    left = max(text_width(face, name) for name, _ in plot.rows) + 14
    room = canvas.width - left - max(text_width(face, value) for _, value in plot.rows) - 14
    step = (canvas.height - plot.top - 8) / len(plot.rows)
    if look.frame == "grid":
        canvas.draw.rectangle([left, plot.top, canvas.width - 6, canvas.height - 6], fill=TINT)
    elif look.frame == "box":
        canvas.draw.rectangle([left, plot.top, canvas.width - 6, canvas.height - 6], outline=canvas.ink)
    for i, (name, value) in enumerate(plot.rows):
        middle = plot.top + step * (i + 0.5)
        reach = room * plot.numbers[i] / max(plot.numbers)
        thick = min(step * (1 - look.gap) / 2, 18)
        canvas.draw.rectangle([left, middle - thick, left + reach, middle + thick], fill=plot.colours[i])
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


_SERIES = (("Plan", "Actual"), ("Before", "After"), ("Men", "Women"), ("2023", "2024"))


def _rows(rng: random.Random, split: Split, most: int, grouped: bool) -> tuple[Rows, tuple[str, ...]]:
    """Two to `most` names and values; grouped, each category has a row for each of two series, named by both."""
    if not grouped:
        count = rng.randint(2, most)
        return list(zip(_categories(rng, split, count), _values(rng, count, short=False), strict=True)), ()
    categories = _categories(rng, split, rng.randint(2, max(2, most // 2)))
    series = rng.choice(_SERIES[:3] if categories[0].isdigit() else _SERIES)
    names = [f"{name} {part}" for name in categories for part in series]
    return list(zip(names, _values(rng, len(names), short=True), strict=True)), series


def chart(rng: random.Random, split: Split, level: float, size: tuple[int, int]) -> Sample:
    """One chart of two to six rows."""
    look = any_look(rng, size)
    canvas, kind = look.canvas, rng.choice(["bars", "bars", "horizontal", "line", "pie", "grouped"])
    most = min(2 + round(3.4 * level), 6 if kind == "horizontal" else size[0] // 50)
    rows, series = _rows(rng, split, most, kind == "grouped")
    face = font(rng.choice(look.faces), rng.randint(18, 23))
    title = fit(capitalise(words.noun_phrase(rng)), face, size[0] - 16)
    canvas.centred(6, title, face) if look.title == "middle" else canvas.text(8, 6, title, face)
    plot = _Plot(rng, look, 12 + face.size, rows, series)
    if kind == "horizontal":
        _horizontal(plot)
    elif kind == "pie":
        _pie(plot)
    else:
        _bars(plot, line=kind == "line")
    question, answer, task = _answers(rng, title, rows, level)
    return Sample(canvas.image, question, answer, "charts", f"{kind}/{task}", tuple(canvas.glyphs))
