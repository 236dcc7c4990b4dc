"""Where a run stands: which stage, how far through it, and what follows from that."""

import time
from dataclasses import dataclass

from glance.training.recipe import Stage


@dataclass
class Progress:
    """The mutable state of a run; everything else follows from it.

    Args:
        stage: index of the current stage.
        fraction: 0 … 1 through that stage.
        step: optimizer steps within the stage.
        total_steps: optimizer steps of the run.
        seconds: time spent, pauses left out.
    """

    stage: int = 0
    fraction: float = 0.0
    step: int = 0
    total_steps: int = 0
    seconds: float = 0.0


class Schedule:
    """Moves through the stages by steps, or, where `minutes` is given, by the clock.

    By the clock the stages that are left share the minutes in proportion to their steps, so a run ends on time on any
    machine with its rates decayed. By steps a run is reproducible.
    """

    def __init__(self, stages: tuple[Stage, ...], minutes: float | None = None) -> None:
        self.stages, self.minutes = stages, minutes
        self.progress = Progress()
        self.start()

    def start(self) -> None:
        """Start or restart the clock: what is left of the run gets all of `minutes`."""
        self._tick = time.monotonic()
        self._steps_per_second = self._steps_left() / (60 * self.minutes) if self.minutes else None

    def _steps_left(self) -> float:
        now, stages = self.progress.stage, self.stages
        if self.done:
            return 0.0
        return stages[now].steps * (1 - self.progress.fraction) + sum(stage.steps for stage in stages[now + 1 :])

    @property
    def done(self) -> bool:
        return self.progress.stage >= len(self.stages)

    @property
    def stage(self) -> Stage:
        return self.stages[self.progress.stage]

    @property
    def overall(self) -> float:
        """0 … 1 through the whole run."""
        return 1 - self._steps_left() / sum(stage.steps for stage in self.stages)

    @property
    def level(self) -> float:
        return self.level_at(self.progress.step)

    def level_at(self, step: int) -> float:
        """The level that a later step of this stage has; by the clock nobody knows, and it is the present one."""
        first, last = self.stage.level
        through = step / self.stage.steps if self._steps_per_second is None else self.progress.fraction
        return first + (last - first) * min(1.0, through / self.stage.grown)

    @property
    def rate(self) -> float:
        first, last = self.stage.rate
        return first + (last - first) * self.progress.fraction

    @property
    def guide_weight(self) -> float:
        first, last = self.stage.guide_weight
        return first + (last - first) * self.progress.fraction

    def advance(self) -> bool:
        """Count one step; True when it ended its stage."""
        progress, now = self.progress, time.monotonic()
        spent, self._tick = now - self._tick, now
        progress.seconds += spent
        progress.step += 1
        progress.total_steps += 1
        if self._steps_per_second is None:
            progress.fraction = progress.step / self.stage.steps
        else:
            progress.fraction += spent * self._steps_per_second / self.stage.steps
        if progress.fraction < 1.0:
            return False
        progress.stage, progress.step, progress.fraction = progress.stage + 1, 0, 0.0
        return True
