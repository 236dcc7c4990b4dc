"""One run at a time: what the others read meanwhile, and who comes next."""

from __future__ import annotations

import threading

import pytest
from PIL import Image

from app import run
from app.models import Models
from app.turns import Turns, place
from tests.app import fake

SETTINGS = run.settings_from(128, 31, 0, 0)


class Engine:
    """Counts how many runs are under way at once."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.notes: dict[str, str] = {}

    def prompt(self, image, question):
        return question

    def seen(self, image):
        return image

    def race(self, prompt, settings, stopped):
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            yield from fake.lines()
        finally:
            self.running -= 1


@pytest.fixture
def visit(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (80, 60)).save(path)
    engine = Engine()
    models = Models(lambda: engine)
    models.get()
    visit = lambda **more: run.decode(models, str(path), 1, "What?", SETTINGS, **more)  # noqa: E731
    visit.engine = engine
    return visit


def test_the_second_visitor_reads_a_place_and_then_gets_a_turn(visit):
    first, second, third = visit(), visit(), visit()
    assert "Reading" in next(first).status
    assert next(second).status == "Waiting: 1 run is before yours, one runs at a time."
    assert next(third).status == "Waiting: 2 runs are before yours, one runs at a time."
    assert list(first)[-1].status.startswith("Done.")
    assert "Reading" in next(second).status
    assert next(third).status == place(1)
    assert list(second)[-1].status.startswith("Done.") and list(third)[-1].status.startswith("Done.")
    assert visit.engine.most == 1


def test_whoever_leaves_or_stops_gives_the_place_away(visit):
    pressed = threading.Event()
    first, second, third, fourth = visit(), visit(stopped=pressed.is_set), visit(), visit()
    for waiting in (first, second, third, fourth):
        next(waiting)
    third.close()
    pressed.set()
    assert [update.status for update in second] == ["Stopped before the run began."]
    assert next(fourth).status == place(1)
    first.close()
    assert "Reading" in next(fourth).status


def test_threads_take_turns_in_the_order_of_their_tickets():
    turns, order = Turns(), []
    tickets = [turns.ticket() for _ in range(4)]
    entered = [ticket.__enter__() for ticket in tickets]

    def wait(i):
        while entered[i].ahead:
            entered[i].wait(10)
        order.append(i)
        tickets[i].__exit__(None, None, None)

    threads = [threading.Thread(target=wait, args=(i,)) for i in (3, 1, 2, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert order == [0, 1, 2, 3]
