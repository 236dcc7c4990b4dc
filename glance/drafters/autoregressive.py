"""No drafter at all: the empty tree. Decoding with it is ordinary autoregressive decoding."""

from __future__ import annotations

from ..engine import Draft, Step
from ..tree import CandidateTree


class Autoregressive:
    """Proposes nothing, so each round verifies the root alone and adds one token."""

    horizon = 0

    def begin(self, prefill: Step, capacity: int) -> None:
        """Nothing to prepare."""

    def propose(self, budget: int) -> Draft:
        """The empty tree."""
        return Draft(CandidateTree(), passes=0)

    def commit(self, accepted: Step) -> None:
        """Nothing to remember."""
