"""The models of this process: loaded once, in the background, while visitors already watch a replay."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from PIL import Image

from app import zero
from app.turns import Turns

if TYPE_CHECKING:
    from glance.attention import Attention


class Engine(Protocol):
    """What the app asks of the library.

    `notes`: lane -> why it is missing, or what to know of its head, in a sentence.
    """

    notes: Mapping[str, str]

    def prompt(self, image: Image.Image, question: str) -> Any:
        """The prompt; raises `BadInput`."""

    def seen(self, image: Image.Image) -> Image.Image:
        """The image as the target sees it."""

    def race(self, prompt: Any, settings: dict[str, Any], stopped: Callable[[], bool]) -> Iterator[str]:
        """The answers of `settings["lanes"]`, or of all lanes where that is empty, as the lines of a trace."""

    def look(self, prompt: Any, answer: Sequence[int], emitted: int) -> Attention:
        """Where the target looked while it wrote the last tokens of an answer; raises `BadInput`."""


class FamilyEngine:
    """The engine behind the app: a loaded family of the library."""

    def __init__(self, family: Any) -> None:
        self._family = family
        self.notes = family.notes
        self.prompt = family.prompt
        self.seen = family.seen

    def race(self, prompt: Any, settings: dict[str, Any], stopped: Callable[[], bool]) -> Iterator[str]:
        """The answers of `settings["lanes"]`, or of all lanes where that is empty, as the lines of a trace."""
        from glance.engine import Settings
        from glance.race import race

        options = {"tie_threshold": self._family.tie_threshold, **settings}
        lanes = options.pop("lanes") or self._family.lanes
        return race(self._family, prompt, Settings(**options), lanes, stopped)

    def warm_up(self) -> None:
        """Decode a few tokens, so that the first visitor's times are not those of a cold process."""
        prompt = self.prompt(Image.new("RGB", (256, 256), "white"), "What does it say?")
        for _ in self.race(prompt, {"lanes": (), "max_new_tokens": 8}, lambda: False):
            pass

    def look(self, prompt: Any, answer: Sequence[int], emitted: int) -> Attention:
        """Where the target looked while it wrote the last tokens of an answer; raises `BadInput`."""
        from glance.attention import attend

        return attend(self._family, prompt, answer, emitted)


def load(name: str | None = None, parts: Mapping[str, str] | None = None) -> Engine:
    """The engine of a preset, by default of the one in `GLANCE_PRESET`; raises as `presets.load`."""
    from glance import presets  # brings torch, which the first screen must not wait for

    engine = FamilyEngine(presets.load(name or os.environ.get("GLANCE_PRESET", "mini"), **(parts or {})))
    if not zero.ON:  # there the GPU is lent to runs alone
        engine.warm_up()
    return zero.engine(engine)


class Models:
    """An engine that loads in a thread of its own.

    Args:
        load: makes the engine.
    """

    def __init__(self, load: Callable[[], Engine] = load) -> None:
        self.turns = Turns()
        self._load = load
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._engine: Engine | None = None
        self._error: Exception | None = None

    @property
    def ready(self) -> bool:
        """Whether `get` returns at once."""
        return self._engine is not None

    def start(self) -> None:
        """Begin to load, unless that is done or under way. After a failure, try again."""
        with self._lock:
            if self._engine is None and not (self._thread and self._thread.is_alive()):
                self._begin(self._load)

    def change(self, load: Callable[[], Engine]) -> None:
        """Forget the engine, so that its memory is free, and begin to load another; after a failure `start` loads the
        earlier one again."""
        self.wait(threading.TIMEOUT_MAX)
        with self._lock:
            self._engine = None
            self._begin(load)

    def _begin(self, load: Callable[[], Engine]) -> None:
        self._error = None
        self._thread = threading.Thread(target=self._run, args=(load,), name="load-models", daemon=True)
        self._thread.start()

    def _run(self, load: Callable[[], Engine]) -> None:
        try:
            self._engine = load()
            self._load = load
        except Exception as error:  # whoever waits gets it
            self._error = error

    def load_now(self) -> None:
        """Load in the calling thread; raises what goes wrong."""
        self._engine = self._load()

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the loading, at most that long; True when it ended, well or badly."""
        thread = self._thread
        if thread is None:
            return self.ready
        thread.join(seconds)
        return not thread.is_alive()

    def get(self) -> Engine:
        """The engine; raises what went wrong while loading."""
        if self._error is None:
            self.start()
        self.wait(threading.TIMEOUT_MAX)
        if self._error is not None:
            raise self._error
        assert self._engine is not None
        return self._engine
