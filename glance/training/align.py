"""Where in the picture does an answer's character come from?"""

import re
from collections import defaultdict
from collections.abc import Sequence

from glance.synth import Glyphs, Sample, Thing

Place = tuple[int, int]  # (drawn string, character)


def _inside(text: str, i: int) -> bool:
    """Whether a cut before character i would part a word or a number."""
    return 0 < i < len(text) and text[i].isalnum() and text[i - 1].isalnum()


def _starts(text: str) -> list[int]:
    """Indices at which a word or a run of digits begins."""
    return [i for i, c in enumerate(text) if not c.isspace() and not _inside(text, i)]


def copied_from(answer: str, glyphs: Sequence[Glyphs]) -> list[Place | None]:
    """For every character of `answer`, the drawn character that it copies, or None.

    At each word of the answer the longest run of equal characters wins; of equally long ones the first not yet
    used. Shorter than two characters counts only where a whole drawn word is one character long.
    """
    origin: list[Place | None] = [None] * len(answer)
    starts: dict[str, list[Place]] = defaultdict(list)
    for s, glyph in enumerate(glyphs):
        for i in _starts(glyph.text):
            starts[glyph.text[i]].append((s, i))
    used: set[Place] = set()
    done = 0
    for at in _starts(answer):
        if at < done:
            continue
        best, length = None, 0
        for s, i in starts.get(answer[at], ()):
            text, run = glyphs[s].text, 0
            while i + run < len(text) and at + run < len(answer) and text[i + run] == answer[at + run]:
                run += 1
            if _inside(text, i + run) or _inside(answer, at + run):
                continue  # ends within a word
            if run < 2 and not answer[at].isalnum():
                continue  # a lone mark is the answer's own
            if run > length or (run == length and best in used and (s, i) not in used):
                best, length = (s, i), run
        if best is None:
            continue
        used.add(best)
        for k in range(length):
            origin[at + k] = (best[0], best[1] + k)
        done = at + length
    return origin


def named_in(answer: str, things: Sequence[Thing]) -> list[int | None]:
    """For every character of `answer`, the thing that it names by colour and kind, or by kind alone, or None.

    Of things that look alike each is named once, in their order.
    """
    origin: list[int | None] = [None] * len(answer)
    for name in (lambda thing: f"{thing.colour} {thing.kind}", lambda thing: thing.kind):
        for i, thing in enumerate(things):
            if i in origin:
                continue
            for found in re.finditer(rf"\b{name(thing)}\b", answer):
                if origin[found.start()] is None:
                    origin[found.start() : found.end()] = [i] * len(found[0])
                    break
    return origin


def pixels_of(drawn: Sample) -> list[tuple[float, float] | None]:
    """For every character of the answer, the pixel (x, y) where what it says is drawn, or None.

    That is the middle of the character that it copies, or of the thing that it names.
    """
    if drawn.things:
        boxes = [thing.box for thing in drawn.things]
        middles = [((left + right) / 2, (top + bottom) / 2) for left, top, right, bottom in boxes]
        return [None if i is None else middles[i] for i in named_in(drawn.answer, drawn.things)]
    origin = copied_from(drawn.answer, drawn.glyphs)
    return [None if place is None else drawn.glyphs[place[0]].centres[place[1]] for place in origin]
