"""When an answer ends. The rules cut inside an accepted block, and the earliest one wins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StopRules:
    """Where an answer ends, checked token by token.

    Args:
        eos_ids: every end-of-text id; the id itself is kept in the answer.
        max_new_tokens: cap on the answer, the first token counted.
        strings: stop strings; the answer ends with the token that completes one, string included, as in
            transformers.
        text: ids -> text, needed for `strings` only.
    """

    eos_ids: Collection[int]
    max_new_tokens: int
    strings: tuple[str, ...] = ()
    text: Callable[[Sequence[int]], str] | None = None

    def cut(self, answer: Sequence[int], new: Sequence[int]) -> tuple[int, str | None]:
        """How many of the `new` ids may follow `answer`, and why it ends there.

        Returns:
            (count, reason): reason is "eos", "stop string", "length", or None while the answer goes on.
        """
        grown = list(answer)
        for count, token in enumerate(new, 1):
            grown.append(token)
            if token in self.eos_ids:
                return count, "eos"
            if self.strings and any(s in self.text(grown) for s in self.strings):
                return count, "stop string"
            if len(grown) >= self.max_new_tokens:
                return count, "length"
        return len(new), None
