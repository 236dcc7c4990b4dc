"""Printed documents: forms, receipts, letters and small tables, to read whole or to look a field up in."""

import random
from collections.abc import Callable

from glance.synth import values
from glance.synth import vocabulary as words
from glance.synth.canvas import Canvas, body_font, fit, paper, text_width, title_font
from glance.synth.phrasing import ask_field, ask_read, ask_title, state_field, state_title
from glance.synth.sample import Sample
from glance.synth.vocabulary import Split, capitalise

Lines = list[str]
Fields = list[tuple[str, str]]

TITLES = """INVOICE|RECEIPT|Invoice|Receipt|Order Form|Memo|Report|Statement|Purchase Order|Certificate|Delivery Note
|Ticket|Reservation|Packing List|Application|Notice|Contract|Permit""".replace("\n", "").split("|")


def _kinds(split: Split) -> dict[str, Callable[[random.Random], str]]:
    """Field name → a maker of values; half of the values are invented names or codes."""
    return {
        "Invoice No": values.code,
        "Invoice number": values.code,
        "Order ID": values.code,
        "Account": values.code,
        "Reference": values.code,
        "Room": lambda r: str(r.randint(1, 480)),
        "Seat": lambda r: f"{r.randint(1, 40)}{r.choice('ABCDEF')}",
        "Date": values.date,
        "Due date": values.date,
        "Issued": values.date,
        "Time": values.time_of_day,
        "Day": values.day,
        "Total": values.amount,
        "Amount": values.amount,
        "Tax": values.amount,
        "Subtotal": values.amount,
        "Price": values.amount,
        "Quantity": lambda r: str(r.randint(1, 99)),
        "Weight": lambda r: f"{r.uniform(0.5, 60):.1f} kg",
        "Phone": values.phone,
        "Name": lambda r: words.person(r, split),
        "Customer": lambda r: words.person(r, split),
        "Manager": lambda r: words.person(r, split),
        "Company": lambda r: words.company(r, split),
        "Supplier": lambda r: words.company(r, split),
        "Address": lambda r: words.street(r, split),
        "City": lambda r: words.place(r, split),
        "Country": lambda r: r.choice(words.COUNTRIES),
        "Email": lambda r: f"{words.first_name(r, split).lower()}@{r.choice(words.NOUNS)}.com",
        "Item": lambda r: capitalise(words.noun_phrase(r)),
        "Subject": lambda r: capitalise(words.noun_phrase(r, 2)),
        "Status": lambda r: r.choice(["Paid", "Open", "Sent", "Closed", "Pending", "Ready"]),
        "From": lambda r: words.place(r, split),
        "To": lambda r: words.place(r, split),
    }


class _Page:
    """A canvas with a pen that moves down line by line until the page is full."""

    def __init__(self, rng: random.Random, size: tuple[int, int], most_lines: int) -> None:
        self.rng, self.canvas = rng, paper(rng, size)
        self.face = body_font(rng)
        self.left, self.y = rng.randint(8, 24), rng.randint(6, 20)
        self.width = size[0] - 2 * self.left + 4
        self.gap = rng.randint(4, 12)
        self.most_lines, self.lines = most_lines, []

    @property
    def full(self) -> bool:
        bottom = self.y + self.face.size + 6
        return len(self.lines) >= self.most_lines or bottom > self.canvas.height

    def advance(self, extra: int = 0) -> None:
        self.y += self.face.size + self.gap + extra

    def title(self, text: str) -> str:
        """Draw a heading, left or centred; returns what fitted."""
        face = title_font(self.rng)
        text = fit(text, face, self.width)
        middle = self.rng.random() < 0.4
        x = (self.canvas.width - text_width(face, text)) / 2 if middle else self.left
        self.canvas.text(x, self.y, text, face)
        self.y += face.size + self.rng.randint(8, 14)
        if self.rng.random() < 0.3:
            self.canvas.draw.line([self.left, self.y - 5, self.left + self.width, self.y - 5], self.canvas.ink)
        self.lines.append(text)
        return text

    def line(self, text: str) -> None:
        self.canvas.text(self.left, self.y, text, self.face)
        self.lines.append(text)
        self.advance()

    def pair(self, left: str, right: str, column: float | None = None) -> bool:
        """Two strings on one line, the second flush right or at `column`; False when they do not fit."""
        x = self.left + (column if column is not None else self.width - text_width(self.face, right))
        if (
            self.left + text_width(self.face, left) + 6 > x
            or x + text_width(self.face, right) > self.left + self.width + 2
        ):
            return False
        self.canvas.text(self.left, self.y, left, self.face)
        self.canvas.text(x, self.y, right, self.face)
        self.lines.append(f"{left} {right}")
        self.advance()
        return True


def _heading(page: _Page, split: Split, level: float) -> str | None:
    if page.most_lines < 2 or page.rng.random() > 0.3 + 0.4 * level:
        return None
    kind = page.rng.random()
    text = page.rng.choice(TITLES) if kind < 0.5 else words.company(page.rng, split)
    return page.title(capitalise(words.noun_phrase(page.rng)) if kind > 0.8 else text)


def _form(page: _Page, split: Split) -> Fields:
    kinds, fields, aligned = _kinds(split), [], page.rng.random() < 0.25
    names = page.rng.sample(list(kinds), len(kinds))
    for name in names:
        if page.full:
            break
        label, value = f"{name}:", kinds[name](page.rng)
        if text_width(page.face, f"{label} {value}") > page.width:
            continue
        if aligned:
            if not page.pair(label, value, column=page.width * 0.45):
                continue
        else:
            page.canvas.text(page.left, page.y, label, page.face)
            page.canvas.text(page.left + text_width(page.face, label + " "), page.y, value, page.face)
            page.lines.append(f"{label} {value}")
            page.advance()
        fields.append((name, value))
    return fields


def _receipt(page: _Page, split: Split) -> Fields:
    fields: Fields = []
    tries = 0
    while not page.full and tries < 30:
        tries += 1
        last = len(page.lines) == page.most_lines - 1 and page.rng.random() < 0.7
        name = page.rng.choice(["Total", "TOTAL", "Sum"]) if last else capitalise(words.noun_phrase(page.rng))
        price = values.amount(page.rng)
        if name not in dict(fields) and page.pair(name, price):
            fields.append((name, price))
    return fields


def _letter(page: _Page, split: Split) -> Fields:
    rng = page.rng
    if page.most_lines > 2 and not page.full and rng.random() < 0.6:
        page.line(
            fit(
                f"{rng.choice(['Dear', 'Hello', 'Hi'])} {words.first_name(rng, split)},",
                page.face,
                page.width,
            )
        )
    text = ""
    while not page.full:
        if len(text) < 60:
            text = f"{text} {_sentence(rng, split)}".strip()
        line = fit(text, page.face, page.width)
        text = text[len(line) :].strip()
        page.line(line)
    return []


def _sentence(rng: random.Random, split: Split) -> str:
    thing, other = words.noun_phrase(rng), words.noun_phrase(rng)
    return rng.choice(
        [
            f"Please {rng.choice(words.VERBS)} the {thing} {rng.choice(words.ADVERBS)}.",
            f"The {thing} will {rng.choice(words.VERBS)} on {values.day(rng)}.",
            f"We {rng.choice(words.VERBS)} {rng.randint(2, 90)} {thing} for {words.first_name(rng, split)}.",
            f"Your {thing} is {rng.choice(words.ADJECTIVES)} and {rng.choice(words.ADJECTIVES)}.",
            f"Meet {words.person(rng, split)} at {values.time_of_day(rng)}.",
            capitalise(words.any_words(rng, rng.randint(3, 6))) + ".",
            f"The {thing} and the {other} are in {words.place(rng, split)}.",
        ]
    )


def _table(page: _Page, split: Split) -> Fields:
    rng, fields = page.rng, []
    column, kind = (
        page.width * rng.uniform(0.5, 0.65),
        rng.choice([values.number, values.amount, values.code]),
    )
    if page.most_lines > 2:
        head = rng.choice(["Item Price", "Name Score", "City Code", "Part Count", "Day Sales", "Team Points"]).split()
        page.pair(head[0], head[1], column)
    names = (lambda: capitalise(rng.choice(words.NOUNS)), lambda: words.first_name(rng, split))
    make, tries = rng.choice(names), 0
    while not page.full and tries < 30:
        tries += 1
        name, value = make(), kind(rng)
        if name not in dict(fields) and page.pair(name, value, column):
            fields.append((name, value))
    return fields


def document(rng: random.Random, split: Split, level: float, size: tuple[int, int]) -> Sample:
    """One document; `level` 0 … 1 lets it grow from one line to as many as the page takes (about nine)."""
    most = rng.randint(1, 1 + round(level * 8)) if rng.random() < 0.6 else 1 + round(level * 8)
    page = _Page(rng, size, most)
    title = _heading(page, split, level)
    maker = rng.choices([_form, _receipt, _letter, _table], [0.42, 0.18, 0.25, 0.15])[0]
    fields = maker(page, split)
    if not page.lines:
        return document(rng, split, level, size)
    choice, read = rng.random(), "\n".join(page.lines)
    question, answer, task = ask_read(rng, "document"), read, "read"
    if fields and choice < 0.35:
        name, value = rng.choice(fields)
        question, answer, task = ask_field(rng, name), state_field(name, value), "field"
    elif title and choice < 0.4:
        question, answer, task = ask_title(rng), state_title(title), "title"
    return _finish(page.canvas, question, answer, task)


def _finish(canvas: Canvas, question: str, answer: str, task: str) -> Sample:
    return Sample(canvas.image, question, answer, "documents", task, tuple(canvas.glyphs))
