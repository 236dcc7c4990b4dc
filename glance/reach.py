"""Whether a picture lies outside what a target was trained for, judged by how unsure the target is of its own answer.

The rule is one number, measured for a small family by `python -m glance lab reach`: the 95th percentile, over pictures
of the kind it was trained for, of the mean entropy of the first tokens. Large targets have none.
"""

from __future__ import annotations

from collections.abc import Sequence

FIRST = 16  # tokens of the answer that count


def uncertainty(entropies: Sequence[float]) -> float:
    """Mean next-token entropy, in nats, over the first tokens of an answer; 0.0 for an empty one."""
    first = entropies[:FIRST]
    return sum(first) / len(first) if first else 0.0


def warning(entropies: Sequence[float], limit: float | None) -> str:
    """A sentence for a picture that is probably out of reach, else an empty string.

    Args:
        entropies: of the target's rows that chose the answer's tokens, in nats.
        limit: of the family, in nats; None where it has none.
    """
    found = uncertainty(entropies)
    if limit is None or found <= limit:
        return ""
    return (
        f"The model is unusually unsure here ({found:.2f} nats a token at the start; 95 % of the pictures it was "
        f"trained for stay below {limit:.2f}): it is probably not meant for a picture or question of this kind."
    )
