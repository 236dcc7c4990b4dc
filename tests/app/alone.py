"""The player in a page by itself, on a made-up run: no server, the same scripts."""

from dataclasses import replace

from glance import trace
from glance.export import PLAYER
from tests.app import fake

EMOJI = ("\U0001f469\u200d", "\U0001f4bb")  # one character from two tokens
TOURS = [path.read_text(encoding="utf-8") for path in sorted((PLAYER.parent / "tour" / "en").glob("*.md"))]


def enriched(lines: list[str]) -> str:
    """The run with the likeliest tokens of both sides, taken from the first level of each tree."""
    run, lanes = trace.read("".join(lines)), []
    for lane in run.lanes:
        rounds = []
        for rnd in lane.rounds:
            first = [i for i, parent in enumerate(rnd.parents) if parent < 0]
            q = sorted(first, key=lambda i: -rnd.log_q[i])[:5]
            p = sorted(first, key=lambda i: -rnd.log_p[i])[:5]
            rounds.append(replace(
                rnd, draft_top=tuple(rnd.tokens[i] for i in q), draft_top_log_q=tuple(rnd.log_q[i] for i in q),
                target_top=tuple(rnd.tokens[i] for i in p), target_top_log_p=tuple(rnd.log_p[i] for i in p),
            ))  # fmt: skip
        lanes.append(trace.Lane(lane.id, tuple(rounds), lane.end))
    return trace.write(trace.Trace(run.header, tuple(lanes), run.pieces))


WORDS = [*fake.ANSWER[:6], *EMOJI, *fake.ANSWER[6:]]
PLAIN = enriched(fake.lines(WORDS, run="plain"))


def focused(page) -> str:
    return page.evaluate("document.activeElement.ariaLabel || document.activeElement.textContent")


def start_tour(page) -> None:
    page.evaluate("texts => { const P = document.querySelector('main').player; P.tour.files = texts;"
                  " P.tour.steps = texts.map(Glance.parseStep); P.parts.tour.hidden = false; }", TOURS)  # fmt: skip
    page.click("[data-action=tour]")
