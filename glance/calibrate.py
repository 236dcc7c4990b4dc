"""The tie gate's threshold for one device, dtype and quantization, measured; and what the gate then does.

Several rows in one pass round differently from one row alone (other kernels, other orders of summation), and they leave
other keys and values behind, so where the two best logits lie close, a packed pass may prefer the other one. The gate
asks again there, one row at a time. Its threshold is the farthest that leading logits moved against each other, in
packed passes over the cache that such passes have filled: no lead above it has turned around, as far as the prompts
measured show it.

What no threshold sees is `drift`: the row that is asked again reads keys and values that packed passes have left,
unless `Settings.exact_ties` has them made anew.
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
from .trace import Round, summarize
from .tree import CandidateTree

WAYS = {"without": {"tie_threshold": 0.0}, "gate": {"exact_ties": False}, "exact": {"exact_ties": True}}


@dataclass(frozen=True)
class Row:
    """One token of an answer: the logits that chose it, by three routes.

    Args:
        margin: top-1 minus top-2 logit in ordinary decoding, one row a pass.
        packed: largest logit difference between that and a row packed with a tree, over a cache of such passes.
        move: how far the leading tokens' logits, two of each, moved against each other between those passes.
        flipped: whether the packed row prefers another token.
        drift: largest logit difference between ordinary decoding and one row over a cache that packed passes filled;
            None where it was not asked for.
    """

    margin: float
    packed: float
    move: float
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
            best, found, delta = expected.topk(2), seen[row].topk(2), seen[row] - expected
            leading = delta[torch.cat((best.indices, found.indices))]
            yield Row(
                margin=float(best.values[0] - best.values[1]),
                packed=float(delta.abs().max()),
                move=float(leading.max() - leading.min()),
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
    """`threshold`, and beside it the largest differences, how many rows flipped, and how many do not lie above it."""
    rows = list(rows)
    threshold = max(r.move for r in rows)
    flips = [r.margin for r in rows if r.flipped]
    return {
        "threshold": threshold,
        "largest_packed_difference": max(r.packed for r in rows),
        "largest_drift": max(r.drift for r in rows if r.drift is not None),
        "rows": len(rows),
        "flipped": len(flips),
        "largest_flipped_margin": max(flips, default=0.0),
        "share_not_above_threshold": sum(r.margin <= threshold for r in rows) / len(rows),
    }


def check(family: Family, prompts: Iterable[Prompt], settings: Settings) -> Iterator[dict[str, Any]]:
    """Compare every lane with ordinary decoding on each prompt: without the gate, with it, and with exact ties.

    Yields:
        A row for each lane and prompt. For `without`, `gate` and `exact`: whether the answer is `identical`, and the
        `rounds`, `deferred` rounds and target `passes` that it took.
    """
    stop = family.stop_rules(settings)

    def run(prefill: Prefill, drafter: Drafter, how: Settings) -> tuple[list[int], list[Round]]:
        decoding = Decoding(family.target, prefill, drafter, how, stop)
        rounds = list(decoding)
        return decoding.answer, rounds

    for prompt in prompts:
        prefill = family.target.prefill(prompt)
        expected, _ = run(prefill, Autoregressive(), settings)
        for lane in family.lanes:
            if lane == "autoregressive":
                continue
            row: dict[str, Any] = {"question": prompt.question, "lane": lane, "tokens": len(expected)}
            for name, change in WAYS.items():
                answer, rounds = run(prefill, family.drafter(lane), replace(settings, **change))
                counted = summarize(rounds)
                row[name] = {
                    "identical": answer == expected,
                    "rounds": counted.rounds,
                    "deferred": counted.deferred,
                    "passes": counted.target_passes,
                }
            yield row


def check_figures(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Of all runs: how many were identical each way, the share of rounds that were deferred, and target passes a token.

    Ordinary decoding takes one pass for each token but the first.
    """
    found: dict[str, float] = {"runs": len(rows)}
    tokens = sum(r["tokens"] - 1 for r in rows)
    for way in WAYS:
        total = {key: sum(r[way][key] for r in rows) for key in ("identical", "rounds", "deferred", "passes")}
        found[f"identical_{way}"] = total["identical"]
        found[f"deferred_share_{way}"] = total["deferred"] / max(1, total["rounds"])
        found[f"passes_per_token_{way}"] = total["passes"] / max(1, tokens)
    del found["deferred_share_without"]
    return found
