"""The loop, on a target without weights: identity, stop rules, counts, sampling, the tie gate."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter

import pytest
import torch

from glance.drafters.autoregressive import Autoregressive
from glance.engine import Decoding, Draft, Settings, likeliest
from glance.stop import StopRules
from glance.trace import summarize
from glance.tree import CandidateTree
from tests.stubs import VOCABULARY, Oracle, StubTarget, Wrong, greedy, next_logits

PROMPT = (1, 2, 3, 4, 5)
DRAFTERS = [Autoregressive, Wrong, Oracle, lambda: Oracle(5, 0), lambda: Oracle(2, 4)]


def run(drafter, settings=None, eos=(), strings=(), target=None):
    """Decode the stub prompt; returns the finished `Decoding` and its rounds."""
    settings = settings or Settings(max_new_tokens=20)
    target = target or StubTarget()
    stop = StopRules(eos, settings.max_new_tokens, strings, lambda ids: "".join(chr(97 + i) for i in ids))
    decoding = Decoding(target, target.prefill(PROMPT), drafter, settings, stop)
    return decoding, list(decoding)


@pytest.mark.parametrize("make", DRAFTERS)
@pytest.mark.parametrize("cap", [1, 2, 3, 5, 7, 16, 17])
def test_every_drafter_gives_the_targets_own_answer_up_to_the_cap(make, cap):
    decoding, rounds = run(make(), Settings(max_new_tokens=cap))
    assert decoding.answer == greedy(PROMPT, cap)
    assert decoding.reason == "length"
    assert sum(len(r.emitted) for r in rounds) == cap - 1


@pytest.mark.parametrize("budget", [1, 2, 8, 31])
def test_any_budget_gives_the_same_answer(budget):
    decoding, rounds = run(Oracle(), Settings(max_new_tokens=30, budget=budget))
    assert decoding.answer == greedy(PROMPT, 30)
    assert all(len(r.tokens) <= budget for r in rounds)


def test_accepted_rows_that_are_not_contiguous_are_compacted():
    _, rounds = run(Oracle(length=3, decoys=2))
    assert any(list(r.accepted) != list(range(len(r.accepted))) for r in rounds)
    assert rounds[0].accepted == (2, 5, 8)


def test_a_wrong_compaction_would_be_seen(monkeypatch):
    from glance.cache import TreeCache

    commit = TreeCache.commit
    monkeypatch.setattr(TreeCache, "commit", lambda self, rows: commit(self, range(len(list(rows)))))
    try:
        decoding, _ = run(Oracle())
    except AssertionError:  # the drafter saw rows that do not match their states
        return
    assert decoding.answer != greedy(PROMPT, 20)


def test_the_drafter_is_told_each_committed_row_once_in_order():
    oracle = Oracle()
    decoding, _ = run(oracle)
    told = [t for step in oracle.steps for t in step.tokens.tolist()]
    assert told == [*PROMPT, *decoding.answer][: len(told)]


@pytest.mark.parametrize("make", DRAFTERS)
@pytest.mark.parametrize("index", [0, 1, 2, 3, 4, 9])
def test_end_of_text_inside_a_block_cuts_there(make, index):
    answer = greedy(PROMPT, 20)
    eos = answer[index]
    decoding, rounds = run(make(), eos=(eos,))
    assert decoding.answer == answer[: answer.index(eos) + 1]
    assert decoding.reason == "eos"
    emitted = [t for r in rounds for t in r.emitted]
    assert emitted == decoding.answer[1:]
    assert all(len(r.accepted) <= len(r.emitted) for r in rounds)
    assert all((r.bonus is None) == (len(r.accepted) == len(r.emitted)) for r in rounds)


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("start", [0, 1, 3, 6])
def test_a_stop_string_ends_text_ids_and_counts_at_one_place(start, length):
    answer = greedy(PROMPT, 20)
    text = "".join(chr(97 + i) for i in answer)
    string = text[start : start + length]
    decoding, rounds = run(Oracle(), strings=(string,))
    end = text.index(string) + length
    assert decoding.answer == answer[:end]
    assert decoding.reason == "stop string"
    assert 1 + sum(len(r.emitted) for r in rounds) == end


def test_counts():
    _, rounds = run(Oracle(length=3), Settings(max_new_tokens=21))
    summary = summarize(rounds)
    assert summary.tokens == 21
    assert summary.target_passes == summary.draft_passes == len(rounds) == 5
    assert summary.tau == pytest.approx(4.0)
    _, rounds = run(Autoregressive(), Settings(max_new_tokens=21))
    assert summarize(rounds).tau == pytest.approx(1.0)
    assert summarize(rounds).draft_passes == 0
    assert summarize([]).tau is None


def test_the_record_holds_what_the_target_thought():
    _, rounds = run(Oracle())
    first = rounds[0]
    logits = next_logits((*PROMPT, first.root))
    p = logits.softmax(-1)
    assert first.entropy == pytest.approx(float(-(p * p.log()).sum()), abs=1e-4)
    top = logits.topk(2).values
    assert first.margin == pytest.approx(float(top[0] - top[1]), abs=1e-4)
    assert first.log_p[2] == pytest.approx(float(p.log()[first.tokens[2]]), abs=1e-4)
    assert first.position == len(PROMPT)


@pytest.mark.parametrize("make", DRAFTERS)
def test_sampling_draws_the_same_numbers_in_every_lane(make):
    settings = Settings(max_new_tokens=20, temperature=1.0, seed=11)
    assert run(make(), settings)[0].answer == run(Autoregressive(), settings)[0].answer


@pytest.mark.parametrize("temperature", [1e-30, 1e-310, 5e-324])
def test_sampling_towards_zero_becomes_greedy(temperature):
    settings = Settings(max_new_tokens=20, temperature=temperature)
    assert run(Oracle(), settings)[0].answer == greedy(PROMPT, 20)


def test_sampling_follows_the_targets_distribution():
    """2,000 three-token answers against the exact distribution: chi-squared over the 12 most likely.

    The last token is drawn at an accepted node's row, or at the root's where nothing was accepted.
    """

    class Flat(StubTarget):
        def __init__(self):
            super().__init__(lambda prefix: next_logits(prefix) / 3)

    counts, accepted, runs = Counter(), 0, 2000
    target = Flat()
    prefill = target.prefill(PROMPT)
    for seed in range(runs):
        settings = Settings(max_new_tokens=3, temperature=0.8, seed=seed)
        decoding = Decoding(target, prefill, Guess(), settings, StopRules((), 3))
        accepted += sum(len(r.accepted) > 0 and r.bonus is not None for r in decoding)
        counts[tuple(decoding.answer)] += 1
    assert runs / 20 < accepted < runs

    def p(*prefix):
        return (target.logits((*PROMPT, *prefix)).double() / 0.8).softmax(-1)

    first = p()
    second = torch.stack([p(a) for a in range(VOCABULARY)])
    likely = (first[:, None] * second).flatten().topk(40).indices.tolist()
    exact = {
        (a, b, c): float(first[a] * second[a, b] * q)
        for a, b in (divmod(i, VOCABULARY) for i in likely)
        for c, q in enumerate(p(a, b))
    }
    best = sorted(exact, key=exact.get, reverse=True)[:12]
    cells = [(counts[b], runs * exact[b]) for b in best]
    cells.append((runs - sum(c for c, _ in cells), runs - sum(e for _, e in cells)))
    assert min(e for _, e in cells) > 5
    chi2 = sum((c - e) ** 2 / e for c, e in cells)
    assert chi2 < 32.9  # 99.9 % point at 12 degrees of freedom


class Guess(Wrong):
    """Drafts three fixed children, right or not."""

    def propose(self, budget: int) -> Draft:
        """Children 0, 1 and 2 of the root."""
        return Draft(CandidateTree((0, 1, 2), (-1, -1, -1), (-1.0,) * 3), passes=1)


class Packed(StubTarget):
    """Rounds differently when several rows are packed: near-ties flip, as bf16 kernels do."""

    def verify(self, cache, root, tree, prompt):
        """Swap the two best logits of packed rows where they lie closer than 0.5."""
        seen = super().verify(cache, root, tree, prompt)
        if len(tree):
            for row in seen.logits:
                (a, b), (i, j) = row.topk(2)
                if a - b < 0.5:
                    row[i], row[j] = b.clone(), a.clone()
        return seen


def test_the_tie_gate_restores_identity_where_packed_rows_round_differently():
    settings = Settings(max_new_tokens=60)
    plain, _ = run(Oracle(), settings, target=Packed())
    assert plain.answer != greedy(PROMPT, 60), "the stub should differ without the gate"
    gated, rounds = run(Oracle(), Settings(max_new_tokens=60, tie_threshold=0.5), target=Packed())
    assert gated.answer == greedy(PROMPT, 60)
    deferred = sum(r.deferred for r in rounds)
    assert 0 < deferred < len(rounds)
    assert summarize(rounds).target_passes == len(rounds) + deferred


class Drifting(StubTarget):
    """Packed passes leave keys that are not ordinary decoding's; a pass that reads these prefers the other near-tie."""

    def verify(self, cache, root, tree, prompt):
        """Mark the keys of packed rows, and swap the two best logits where packed or marked rows were at work."""
        layer, past = cache.layers[0], cache.committed
        drifted = len(tree) > 0 or bool((layer.keys[0, 0, :past, 0] % 1).any())
        seen = super().verify(cache, root, tree, prompt)
        if len(tree):
            layer.keys[:, :, past : layer.length] += 0.25
        for row in seen.logits if drifted else ():
            (a, b), (i, j) = row.topk(2)
            if a - b < 0.5:
                row[i], row[j] = b.clone(), a.clone()
        return seen


class Fitful(Oracle):
    """Drafts nothing every second round."""

    def propose(self, budget):
        return super().propose(budget if len(self.steps) % 2 else 0)


@pytest.mark.parametrize("make", [Oracle, Fitful, lambda: Oracle(5, 0), Wrong])
def test_exact_ties_are_ordinary_decodings_own_where_the_cache_of_packed_passes_has_drifted(make):
    cheap = Settings(max_new_tokens=60, tie_threshold=0.5)
    exact = dataclasses.replace(cheap, exact_ties=True)
    drifted, rounds = run(make(), cheap, target=Drifting())
    assert drifted.answer != greedy(PROMPT, 60), "the stub should differ with the cheap gate"
    assert all(r.single_passes == r.deferred for r in rounds)
    target = Drifting()
    decoding, rounds = run(make(), exact, target=target)
    assert decoding.answer == greedy(PROMPT, 60)
    assert 0 < sum(r.deferred for r in rounds) < len(rounds)
    assert summarize(rounds).target_passes == len(target.passes) > len(rounds) + sum(r.deferred for r in rounds)
    found = [pair for r in rounds for pair in zip(r.entropies, r.margins, strict=True)]
    assert found == [pytest.approx(pair, abs=1e-4) for pair in all_chosen(decoding)]


def test_exact_ties_run_each_row_again_at_most_once_and_none_in_ordinary_decoding():
    settings = Settings(max_new_tokens=60, tie_threshold=0.5, exact_ties=True)
    _, rounds = run(Oracle(), settings, target=Drifting())
    last = max(i for i, r in enumerate(rounds) if r.deferred)
    assert sum(r.single_passes for r in rounds) == sum(len(r.emitted) for r in rounds[: last + 1])
    target = Drifting()
    _, rounds = run(Autoregressive(), settings, target=target)
    assert len(target.passes) == len(rounds) and not any(r.deferred or r.single_passes for r in rounds)


def test_two_interleaved_requests_do_not_touch_each_other():
    target = StubTarget()
    prefills = [target.prefill(PROMPT), target.prefill(PROMPT[::-1])]
    runs = [Decoding(target, p, Oracle(), Settings(max_new_tokens=24), StopRules((), 24)) for p in prefills]
    steps = [iter(r) for r in runs]
    for _ in itertools.zip_longest(*steps):
        pass
    assert runs[0].answer == greedy(PROMPT, 24)
    assert runs[1].answer == greedy(PROMPT[::-1], 24)


def test_margins_are_finite():
    _, rounds = run(Oracle())
    assert all(torch.isfinite(torch.tensor([r.entropy, r.margin, *r.log_p])).all() for r in rounds)


def all_chosen(decoding):
    """(entropy, margin) of the row behind each answer token but the first, from the prefix alone."""
    for i in range(1, len(decoding.answer)):
        logits = next_logits((*PROMPT, *decoding.answer[:i]))
        p, top = logits.softmax(-1), logits.topk(2).values
        yield float(-(p * p.log()).sum()), float(top[0] - top[1])


@pytest.mark.parametrize("make", DRAFTERS)
@pytest.mark.parametrize(
    "settings", [Settings(max_new_tokens=18), Settings(max_new_tokens=18, temperature=1.0, seed=3)]
)
@pytest.mark.parametrize("eos", [(), (greedy(PROMPT, 8)[7],)])
def test_every_emitted_token_has_the_entropy_and_margin_of_the_row_that_chose_it(make, settings, eos):
    decoding, rounds = run(make(), settings, eos=eos)
    assert all(len(r.entropies) == len(r.margins) == len(r.emitted) for r in rounds)
    assert all((r.entropies[0], r.margins[0]) == (r.entropy, r.margin) for r in rounds)
    found = [pair for r in rounds for pair in zip(r.entropies, r.margins, strict=True)]
    assert found == [pytest.approx(pair, abs=1e-4) for pair in all_chosen(decoding)]


def test_a_deferred_token_has_the_margin_of_its_own_pass():
    decoding, rounds = run(Oracle(), Settings(max_new_tokens=60, tie_threshold=0.5), target=Packed())
    assert sum(r.deferred for r in rounds)
    found = [pair for r in rounds for pair in zip(r.entropies, r.margins, strict=True)]
    assert found == [pytest.approx(pair, abs=1e-4) for pair in all_chosen(decoding)]


def test_a_stop_rule_before_the_deferred_token_keeps_its_row_out():
    settings = Settings(max_new_tokens=60, tie_threshold=0.5)
    _, whole = run(Oracle(), settings, target=Packed())
    late = next(i for i, r in enumerate(whole) if r.deferred and len(r.emitted) > 1)
    cap = 1 + sum(len(r.emitted) for r in whole[: late + 1]) - 1
    decoding, rounds = run(Oracle(), Settings(max_new_tokens=cap, tie_threshold=0.5), target=Packed())
    assert rounds[-1].deferred and rounds[-1].bonus is None
    assert len(rounds[-1].margins) == len(rounds[-1].emitted)
    found = [r for rnd in rounds for r in rnd.margins]
    assert found == [pytest.approx(margin, abs=1e-4) for _, margin in all_chosen(decoding)]


def test_the_record_holds_the_likeliest_tokens_of_both_sides():
    class Sure(Oracle):
        def propose(self, budget):
            return dataclasses.replace(super().propose(budget), top=lambda: ((4, 2), (-0.1, -3.0)))

    _, rounds = run(Sure())
    p = next_logits((*PROMPT, rounds[0].root)).log_softmax(-1)
    assert (rounds[0].draft_top, rounds[0].draft_top_log_q) == ((4, 2), (-0.1, -3.0))
    assert list(rounds[0].target_top) == p.topk(5).indices.tolist()
    assert rounds[0].target_top_log_p == pytest.approx(p.topk(5).values.tolist(), abs=1e-4)
    _, alone = run(Autoregressive())
    assert not any(r.draft_top for r in alone) and all(r.target_top[0] == r.bonus for r in alone)


def test_likeliest_leaves_out_the_impossible_and_breaks_ties_by_id():
    assert likeliest(torch.tensor([-1.0, -torch.inf, -0.5, -1.0]), 3) == ((2, 0, 3), (-0.5, -1.0, -1.0))
    assert likeliest(torch.tensor([-torch.inf, 0.0])) == ((1,), (0.0,))


def test_the_times_of_a_round_leave_no_gap(monkeypatch):
    """Of a clock that moves only when it is looked at, every step belongs to one part of the round."""
    ticks = itertools.count()
    monkeypatch.setattr("glance.engine.clock", lambda device: float(next(ticks)))
    decoding, rounds = run(Oracle())
    looked = next(ticks)
    assert sum(r.total_ms for r in rounds) + decoding.begin_ms == looked - 1 - len(rounds)  # nothing between rounds
    assert {tuple(r.ms) for r in rounds} == {("draft", "build", "verify", "commit")}
