"""Do two lanes print the same bytes? If not: where, what each side chose, and how close the choice was."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .trace import Identity, Round

TOO_FAR = "further than rounding should move them: probably a bug"


def margin_at(rounds: Sequence[Round], index: int) -> float | None:
    """Top-1 minus top-2 logit where a lane chose answer token `index`; None where the trace does not say.

    Token 0 comes from the prefill. Older traces know root rows only, which is every row of the autoregressive lane.
    """
    produced = 1
    for rnd in rounds:
        margins = rnd.margins or (rnd.margin,)
        if 0 <= index - produced < len(rnd.emitted):
            return margins[index - produced] if index - produced < len(margins) else None
        produced += len(rnd.emitted)
    return None


def compare(
    reference: str,
    expected: Sequence[int],
    got: Sequence[int],
    reference_rounds: Sequence[Round],
    finished: bool,
    show: Callable[[int], str],
    rounding: float | None,
) -> Identity:
    """The verdict on one lane.

    Args:
        reference: name of the reference lane.
        expected, got: answer ids of the reference and of the lane.
        reference_rounds: the reference's rounds, for the margin at the first difference.
        finished: False where either lane was stopped early; then only the common prefix is compared.
        show: token id -> text for the sentence.
        rounding: logits no further apart than this can change places by rounding; None where the tokens were drawn,
            so that the two best logits decide nothing.
    """
    shared = min(len(expected), len(got))
    index = next((i for i in range(shared) if expected[i] != got[i]), None)
    if index is None and finished and len(expected) != len(got):
        index = shared
    if index is not None:
        margin = None if rounding is None else margin_at(reference_rounds, index)
        tie = None if margin is None else margin <= rounding
        left = expected[index] if index < len(expected) else None
        right = got[index] if index < len(got) else None
        gap = "" if margin is None else f"; the target's two best logits were {margin:.3g} apart there"
        gap += {None: "", True: ", which rounding can turn around", False: f", {TOO_FAR}"}[tie]
        name = ["the end" if t is None else f"“{show(t)}”" for t in (left, right)]
        sentence = f"Differs from {reference} at token {index}: {name[1]} instead of {name[0]}{gap}."
        return Identity("differs", reference, shared, index, left, right, margin, sentence, tie)
    if finished:
        return Identity(
            "identical", reference, shared, sentence=f"Byte-identical to {reference}, {shared} tokens long."
        )
    return Identity(
        "so far", reference, shared, sentence=f"Stopped early; the first {shared} tokens equal {reference}'s."
    )
