"""The tie gate's threshold for one device, dtype and quantization, measured; and what the gate then does.

Several rows in one pass round differently from one row alone (other kernels, other orders of summation), so where the
two best logits lie close, a packed pass may prefer the other one. The gate asks again there, one row at a time. Its
threshold is twice the largest difference seen between a packed and a single logit: two logits can move against each
other, so no lead above that can have turned around, as far as the prompts measured show it.

What no threshold sees is `drift`: the row that is asked again reads keys and values that packed passes have left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from .drafters.autoregressive import Autoregressive
from .engine import Decoding, Drafter, Settings
from .family import Family
from .prompt import Prompt
from .stop import StopRules
from .target import Prefill, Target
from .tree import CandidateTree


@dataclass(frozen=True)
class Row:
    """One token of an answer: the logits that chose it, by three routes.

    Args:
        margin: top-1 minus top-2 logit in ordinary decoding, one row a pass.
        packed: largest logit difference between that and a row packed with a tree.
        flipped: whether the packed row prefers another token.
        drift: largest logit difference between ordinary decoding and one row over a cache that packed passes filled;
            None where it was not asked for.
    """

    margin: float
    packed: float
    flipped: bool
    drift: float | None


def measure(target: Target, prefill: Prefill, stop: StopRules, budget: int) -> Iterator[Row]:
    """Decode a prompt one row a pass, then go through the same answer in packed passes of `budget` + 1 rows.

    The accepted length runs through 0 to 7, round after round; the other nodes are wrong children of the root.
    """
    answer, alone = _decode(target, prefill, stop)
    prompt, size = prefill.prompt, prefill.logits.shape[-1]
    cache = prefill.cache.fork(prompt.length + len(answer) + budget + 1)
    done, turn = 0, 0  # answer tokens whose rows the cache holds
    while done < len(alone):
        path = answer[done + 1 : done + 1 + min(turn % 8, budget, len(alone) - done - 1)]
        single = target.verify(cache, answer[done], CandidateTree(), prompt).logits[0]
        cache.rollback()
        tree = _tree(path, size, budget)
        seen = target.verify(cache, answer[done], tree, prompt).logits
        rows = [0, *range(1 + len(tree) - len(path), 1 + len(tree))]
        for i, row in enumerate(rows):
            expected = alone[done + i]
            best = expected.topk(2).values
            yield Row(
                margin=float(best[0] - best[1]),
                packed=float((seen[row] - expected).abs().max()),
                flipped=int(seen[row].argmax()) != int(expected.argmax()),
                drift=None if i else float((single - expected).abs().max()),
            )
        cache.commit(rows)
        done += len(rows)
        turn += 1


def _decode(target: Target, prefill: Prefill, stop: StopRules) -> tuple[list[int], list[torch.Tensor]]:
    """The greedy answer, and the logits [V] that followed each of its tokens but the last."""
    prompt, answer, logits = prefill.prompt, [int(prefill.logits.argmax())], []
    cache = prefill.cache.fork(prompt.length + stop.max_new_tokens + 1)
    while not stop.cut(answer[:-1], answer[-1:])[1]:
        logits.append(target.verify(cache, answer[-1], CandidateTree(), prompt).logits[0].clone())
        cache.commit([0])
        answer.append(int(logits[-1].argmax()))
    return answer, logits


def _tree(path: Sequence[int], size: int, budget: int) -> CandidateTree:
    """Wrong children of the root, then the path."""
    wrong = [t for t in range(size) if not path or t != path[0]][: budget - len(path)]
    below = range(len(wrong), len(wrong) + len(path) - 1)
    parents = (*[-1] * len(wrong), *([-1, *below] if path else []))
    return CandidateTree((*wrong, *path), parents, (-1.0,) * len(parents))


def figures(rows: Iterable[Row]) -> dict[str, float]:
    """`threshold`, and beside it the largest differences, how many rows flipped, and how many lie below it."""
    rows = list(rows)
    packed = max(r.packed for r in rows)
    flips = [r.margin for r in rows if r.flipped]
    return {
        "threshold": 2 * packed,
        "largest_packed_difference": packed,
        "largest_drift": max(r.drift for r in rows if r.drift is not None),
        "rows": len(rows),
        "flipped": len(flips),
        "largest_flipped_margin": max(flips, default=0.0),
        "share_below_threshold": sum(r.margin < 2 * packed for r in rows) / len(rows),
    }


def check(family: Family, prompts: Iterable[Prompt], settings: Settings) -> Iterator[dict[str, Any]]:
    """Decode each prompt with every lane, with the gate and without it; yields a row for each lane and prompt."""
    stop = family.stop_rules(settings)

    def run(prefill: Prefill, drafter: Drafter, threshold: float) -> tuple[list[int], int, int]:
        how = replace(settings, tie_threshold=threshold)
        decoding = Decoding(family.target, prefill, drafter, how, stop)
        rounds = list(decoding)
        return decoding.answer, len(rounds), sum(r.deferred for r in rounds)

    for prompt in prompts:
        prefill = family.target.prefill(prompt)
        expected, *_ = run(prefill, Autoregressive(), 0.0)
        for lane in family.lanes:
            if lane != "autoregressive":
                bare, *_ = run(prefill, family.drafter(lane), 0.0)
                gated, rounds, deferred = run(prefill, family.drafter(lane), settings.tie_threshold)
                yield {
                    "question": prompt.question,
                    "lane": lane,
                    "tokens": len(expected),
                    "identical": gated == expected,
                    "identical_without": bare == expected,
                    "rounds": rounds,
                    "deferred": deferred,
                }


def check_figures(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Runs that are identical with the gate and without it, and the share of rounds in which it spoke."""
    return {
        "runs": len(rows),
        "identical": sum(r["identical"] for r in rows),
        "identical_without_gate": sum(r["identical_without"] for r in rows),
        "deferred_share": sum(r["deferred"] for r in rows) / max(1, sum(r["rounds"] for r in rows)),
    }
