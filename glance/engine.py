"""The one loop behind every decoder: draft a tree, verify it in one pass, keep what the target chose."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from .cache import TreeCache
from .errors import BadInput
from .stop import StopRules
from .target import Prefill, Target, Verified
from .trace import Round
from .tree import CandidateTree

MAX_SEED = 2**53  # what JavaScript can read back from a trace


@dataclass(frozen=True)
class Settings:
    """How to decode.

    Args:
        max_new_tokens: cap on the answer.
        budget: nodes of a candidate tree, root excluded.
        temperature: 0 is greedy; above it, each token is drawn from the target's own distribution.
        seed: of the draws; every lane draws the same numbers.
        stop: stop strings.
        tie_threshold: where the target's top two logits at a tree row lie no further apart than this, the token comes
            from an ordinary one-token pass. 0 for fp32; above it where packed and single rows round differently. By
            itself it makes differences rarer and cannot exclude them: that pass reads keys and values of packed passes.
        exact_ties: let that pass read ordinary decoding's keys and values: every row that packed passes have left is
            run again first, one row a pass. Then a deferred token is ordinary decoding's own, and an answer can differ
            only by a lead above the threshold that turned around. The price: an answer needs ordinary decoding's
            passes up to its last deferred token, besides its own.

    Raises:
        BadInput: a value of another type, or outside its range.
    """

    max_new_tokens: int = 256
    budget: int = 31
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    tie_threshold: float = 0.0
    exact_ties: bool = False

    def __post_init__(self) -> None:
        for names, kinds, said in (
            (("max_new_tokens", "budget", "seed"), int, "whole number"),
            (("temperature", "tie_threshold"), (int, float), "number"),
        ):
            for name in names:
                value = getattr(self, name)
                if not isinstance(value, kinds) or isinstance(value, bool):
                    raise BadInput(f"The setting {name} must be a {said}, not {value!r}.")
        if not isinstance(self.exact_ties, bool):
            raise BadInput(f"The setting exact_ties must be True or False, not {self.exact_ties!r}.")
        if not 1 <= self.max_new_tokens <= 4096:
            raise BadInput(f"New tokens must lie between 1 and 4096, not {self.max_new_tokens}.")
        if not 1 <= self.budget <= 512:
            raise BadInput(f"The budget must lie between 1 and 512 nodes, not {self.budget}.")
        if not 0 <= self.temperature <= 2:
            raise BadInput(f"The temperature must lie between 0 and 2, not {self.temperature}.")
        if not 0 <= self.seed <= MAX_SEED:
            raise BadInput(f"The seed must lie between 0 and {MAX_SEED}, not {self.seed}.")
        if not 0 <= self.tie_threshold < math.inf:
            raise BadInput(f"The tie threshold must be 0 or a finite number above, not {self.tie_threshold}.")
        if not isinstance(self.stop, list | tuple) or not all(isinstance(s, str) and s for s in self.stop):
            raise BadInput("Stop strings must be given as a list of texts, none of them empty.")


@dataclass(frozen=True)
class Step:
    """Rows that the target has verified, as a drafter sees them.

    Args:
        tokens: int64 [rows], prompt ids at prefill, later the root and the accepted nodes.
        start: sequence index of the first row.
        states: layer id -> [rows, H], the captured states of these rows.
        root: the token that follows the last row: emitted, but without states yet.
        positions: int64 [3, rows], the rows' positions on the axes of M-RoPE.
    """

    tokens: torch.Tensor
    start: int
    states: Mapping[int, torch.Tensor]
    root: int
    positions: torch.Tensor


Top = tuple[tuple[int, ...], tuple[float, ...]]  # token ids and their natural-log probabilities, best first
SHOWN = 5  # tokens of a `Top`


def likeliest(log_p: torch.Tensor, count: int = SHOWN) -> Top:
    """The likeliest tokens of log-probabilities [V]; ties go to the lower id."""
    return ranked(*(part.tolist() for part in log_p.topk(min(count, len(log_p)))))


def ranked(log_p: Sequence[float], ids: Sequence[int]) -> Top:
    """The likeliest of these tokens; ties go to the lower id."""
    best = sorted((-value, i) for value, i in zip(log_p, ids, strict=True) if math.isfinite(value))[:SHOWN]
    return tuple(i for _, i in best), tuple(-value for value, _ in best)


@dataclass(frozen=True)
class Draft:
    """A proposal.

    Args:
        tree: the candidates.
        passes: the sequential passes it cost.
        build_ms: milliseconds spent on building the tree.
        top: gives the drafter's likeliest tokens after the root; asked for after the clock has stopped.
    """

    tree: CandidateTree
    passes: int
    build_ms: float = 0.0
    top: Callable[[], Top] = lambda: ((), ())


class Drafter(Protocol):
    """What the loop asks of a drafter. One object serves one request.

    `horizon` is how many tokens a round can accept at most: the depth of its deepest tree.
    """

    horizon: int

    def begin(self, prefill: Step, capacity: int) -> None:
        """A fresh request of at most `capacity` rows in all."""

    def propose(self, budget: int) -> Draft:
        """A tree of at most `budget` nodes under the pending root."""

    def commit(self, accepted: Step) -> None:
        """The target verified these rows, old root first; `accepted.root` is pending now."""


class _Chooser:
    """The target's choice at a row: argmax at temperature 0, else a draw by inverse distribution function.

    One uniform number is used for each token of the answer, in order, so every lane with the same seed makes the
    same draws whatever its trees look like.
    """

    def __init__(self, settings: Settings) -> None:
        self.temperature = settings.temperature
        self.generator = torch.Generator().manual_seed(settings.seed)

    def all(self, logits: torch.Tensor) -> Callable[[int], int]:
        """row -> token for logits [rows, V]."""
        if self.temperature <= 0:
            return logits.argmax(-1).tolist().__getitem__
        return lambda row: self._draw(logits[row])

    def _draw(self, logits: torch.Tensor) -> int:
        logits = logits.double().cpu()
        mass = ((logits - logits.max()) / self.temperature).softmax(-1).cumsum(-1)  # finite at any temperature
        uniform = torch.rand((), generator=self.generator, dtype=torch.float64)
        return min(int(torch.searchsorted(mass, uniform * mass[-1], right=True)), len(mass) - 1)


def first_token(prefill: Prefill, settings: Settings) -> int:
    """The first answer token, which every lane shares; it costs no round."""
    return _Chooser(settings).all(prefill.logits[None])(0)


def clock(device: torch.device) -> float:
    """Milliseconds, once the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() * 1e3


@dataclass
class Decoding:
    """One lane's run. Iterating it yields a `Round` at a time; `answer` and `reason` grow with it."""

    target: Target
    prefill: Prefill
    drafter: Drafter
    settings: Settings
    stop: StopRules
    lane: str = "lane"
    answer: list[int] = field(default_factory=list)
    reason: str | None = None
    begin_ms: float = 0.0
    _ordinary: int = field(default=0, init=False)  # rows at the cache's front that hold what ordinary decoding writes

    def __iter__(self) -> Iterator[Round]:
        prompt, settings, device = self.prefill.prompt, self.settings, self.target.device
        chooser = _Chooser(settings)
        root = chooser.all(self.prefill.logits[None])(0)
        _, self.reason = self.stop.cut([], [root])
        self.answer.append(root)
        if self.reason:
            return
        capacity = prompt.length + settings.max_new_tokens + settings.budget + 1
        cache = self.prefill.cache.fork(capacity)
        start = clock(device)
        self.drafter.begin(Step(prompt.ids[0], 0, self.prefill.states, root, prompt.positions[:, 0]), capacity)
        self.begin_ms = clock(device) - start
        self._ordinary = cache.committed
        index = 0
        while not self.reason:
            position = cache.committed
            started = clock(device)
            draft = self.drafter.propose(settings.budget)
            drafted = clock(device)
            seen = self.target.verify(cache, root, draft.tree, prompt)
            accepted, bonus, again, passes = self._walk(cache, draft.tree, seen, chooser)
            deferred = again is not None
            verified = clock(device)
            path = [draft.tree.tokens[i] for i in accepted]
            count, self.reason = self.stop.cut(self.answer, [*path, bonus])
            emitted = tuple([*path, bonus][:count])
            self.answer.extend(emitted)
            accepted = accepted[:count]
            if not self.reason:
                rows = [0, *(i + 1 for i in accepted)]
                self._commit(cache, rows, (root, *path), bonus, position, seen, deferred)
                if deferred or (not len(draft.tree) and self._ordinary == position):
                    self._ordinary = cache.committed
            done = clock(device)
            yield _record(
                lane=self.lane,
                index=index,
                root=root,
                position=position,
                draft=draft,
                logits=seen.logits,
                again=again if count > len(path) else None,
                accepted=accepted,
                bonus=bonus if count > len(accepted) else None,
                emitted=emitted,
                deferred=deferred,
                single_passes=passes,
                ms={
                    "draft": drafted - started - draft.build_ms,
                    "build": draft.build_ms,
                    "verify": verified - drafted,
                    "commit": done - verified,
                },
            )
            root = bonus
            index += 1

    def _walk(
        self, cache: TreeCache, tree: CandidateTree, seen: Verified, chooser: _Chooser
    ) -> tuple[list[int], int, torch.Tensor | None, int]:
        """The accepted nodes and the target's own token after them; where the tie gate spoke, the logits [V] that it
        asked for, and the one-row passes that this took.

        The cache is then left with the rows up to the one in doubt, which is run again by itself.
        """
        choose, exact = chooser.all(seen.logits), self.settings.exact_ties
        drifted = exact and self._ordinary < cache.committed
        if not (self.settings.tie_threshold > 0 and (len(tree) or drifted)):
            return *tree.walk(choose), None, 0
        top = seen.logits.topk(2).values
        sure = (top[:, 0] - top[:, 1] > self.settings.tie_threshold).tolist()
        accepted, bonus = tree.walk(lambda row: choose(row) if sure[row] else None)
        if bonus is not None:
            return accepted, bonus, None, 0
        tokens, first = [*self.answer, *(tree.tokens[i] for i in accepted)], self._ordinary
        if exact:
            cache.rewind(first)
        else:
            cache.commit([0, *(i + 1 for i in accepted)][:-1])
            first = cache.committed
        tokens = tokens[first - self.prefill.prompt.length :]
        for i, token in enumerate(tokens):
            cache.commit([0][:i])  # the row of the pass before
            again = self.target.verify(cache, token, CandidateTree(), self.prefill.prompt)
        return accepted, chooser.all(again.logits)(0), again.logits[0], len(tokens)

    def _commit(
        self,
        cache: TreeCache,
        rows: list[int],
        tokens: tuple[int, ...],
        bonus: int,
        position: int,
        seen: Verified,
        deferred: bool,
    ) -> None:
        cache.commit([0] if deferred else rows)
        index = torch.tensor(rows, device=seen.logits.device)
        states = {layer: s[index] for layer, s in seen.states.items()}
        positions = (position + self.prefill.prompt.rope_delta + torch.arange(len(rows))).expand(3, -1)
        self.drafter.commit(Step(torch.tensor(tokens), position, states, bonus, positions))


def certainty(logits: torch.Tensor) -> tuple[list[float], list[float]]:
    """Entropy in nats, and top-1 minus top-2 logit, of each row of logits [rows, V]."""
    log_p = logits.log_softmax(-1)
    top = logits.topk(2).values
    return torch.special.entr(log_p.exp()).sum(-1).tolist(), (top[:, 0] - top[:, 1]).tolist()


def _record(
    *, draft: Draft, logits: torch.Tensor, again: torch.Tensor | None, accepted: list[int], **facts: Any
) -> Round:
    """The round's record. Made after the clock has stopped: looking does not count as decoding.

    Args:
        logits: [N + 1, V], of the root and of each node.
        again: [V], of the one-token pass that gave the last emitted token, if one did.
    """
    tree, log_p = draft.tree, logits.log_softmax(-1)
    rows = torch.tensor([p + 1 for p in tree.parents], dtype=torch.long, device=logits.device)
    tokens = torch.tensor(tree.tokens, dtype=torch.long, device=logits.device)
    looked = logits[torch.tensor([0, 0, *(i + 1 for i in accepted)], device=logits.device)]  # the root, then who chose
    if again is not None:
        looked[-1] = again
    (entropy, *entropies), (margin, *margins) = certainty(looked)
    draft_top, draft_top_log_q = draft.top()
    target_top, target_top_log_p = likeliest(log_p[0])
    return Round(
        tokens=tree.tokens,
        parents=tree.parents,
        depths=tree.depths,
        log_q=tree.log_q,
        log_p=tuple(log_p[rows, tokens].tolist()),
        accepted=tuple(accepted),
        entropy=entropy,
        margin=margin,
        draft_passes=draft.passes,
        entropies=tuple(entropies[: len(facts["emitted"])]),
        margins=tuple(margins[: len(facts["emitted"])]),
        draft_top=draft_top,
        draft_top_log_q=draft_top_log_q,
        target_top=target_top,
        target_top_log_p=target_top_log_p,
        **facts,
    )
