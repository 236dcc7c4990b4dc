"""One run at a time on the device, in the order in which visitors came."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

WAITING = 16  # runs that know their place; the page's own queue holds the others


class Ticket:
    """A place in the line."""

    def __init__(self, line: list[Ticket], moved: threading.Condition) -> None:
        self._line, self._moved = line, moved

    @property
    def ahead(self) -> int:
        """Runs that come before this one, the running one included."""
        return self._line.index(self)

    def wait(self, seconds: float) -> None:
        """Until the line moves, at most that long."""
        with self._moved:
            if self.ahead:
                self._moved.wait(seconds)


class Turns:
    """The line. Whoever's ticket has nobody ahead may run."""

    def __init__(self) -> None:
        self._line: list[Ticket] = []
        self._moved = threading.Condition()

    @contextmanager
    def ticket(self) -> Iterator[Ticket]:
        """Stand in line for as long as the context lasts."""
        mine = Ticket(self._line, self._moved)
        with self._moved:
            self._line.append(mine)
        try:
            yield mine
        finally:
            with self._moved:
                self._line.remove(mine)
                self._moved.notify_all()


def place(ahead: int) -> str:
    """What a waiting visitor reads."""
    return f"Waiting: {ahead} {'run is' if ahead == 1 else 'runs are'} before yours, one runs at a time."
