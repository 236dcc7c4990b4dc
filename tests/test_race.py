"""Lanes side by side: verdicts, fairness, stopping, notes, refusals."""

from __future__ import annotations

import dataclasses
import platform

import pytest
import torch

from glance import law, provenance, trace
from glance.engine import Settings
from glance.errors import BadInput
from glance.identity import compare, margin_at
from glance.race import _loop, race
from glance.text import Vocabulary
from tests import tiny
from tests.stubs import Known


@pytest.fixture(scope="module")
def prompt(family):
    return family.prompt(tiny.picture(), "What is it?")


def run(family, prompt, settings=None, **options):
    """A whole run, read back."""
    return trace.read("".join(race(family, prompt, settings or Settings(max_new_tokens=20), **options)))


def test_all_lanes_print_the_same_bytes(family, prompt):
    made = run(family, prompt)
    assert [lane.end.identity.verdict for lane in made.lanes] == ["reference", "identical", "identical"]
    assert len({lane.end.sha256 for lane in made.lanes}) == 1
    assert made.header.prompt["ids_sha256"] == prompt.ids_sha256


def test_sampled_lanes_draw_alike_too(family, prompt):
    made = run(family, prompt, Settings(max_new_tokens=20, temperature=1.0, seed=4))
    assert len({lane.end.ids for lane in made.lanes}) == 1


def test_the_lane_furthest_behind_goes_next(family, prompt):
    lines = [trace.json.loads(raw) for raw in race(family, prompt, Settings(max_new_tokens=20))]
    rounds = [made for made in lines if made["kind"] == "round"]
    left = {lane["id"]: sum(r["lane"] == lane["id"] for r in rounds) for lane in lines[0]["lanes"]}
    clock = dict.fromkeys(left, 0.0)
    for made in rounds:
        lane = made["lane"]
        assert clock[lane] <= min(clock[other] for other in clock if left[other]) + 1e-3
        clock[lane] += sum(made["ms"].values())
        left[lane] -= 1


def test_stopping_closes_the_lanes_with_what_they_have(family, prompt):
    asked = iter(range(100))
    made = run(family, prompt, stopped=lambda: next(asked) >= 5)
    assert sum(len(lane.rounds) for lane in made.lanes) == 5
    assert {lane.end.reason for lane in made.lanes} == {"stopped"}
    assert [lane.end.identity.verdict for lane in made.lanes] == ["reference", "so far", "so far"]


def test_one_token_needs_no_round(family, prompt):
    made = run(family, prompt, Settings(max_new_tokens=1))
    assert [lane.rounds for lane in made.lanes] == [(), (), ()]
    assert [lane.end.summary.tau for lane in made.lanes] == [None] * 3
    assert [lane.end.identity.verdict for lane in made.lanes] == ["reference", "identical", "identical"]


def test_a_head_that_helps_nothing_says_so(family, prompt, monkeypatch):
    made = run(family, prompt, Settings(max_new_tokens=40))
    silent = [lane for lane in made.lanes[1:] if sum(len(r.accepted) for r in lane.rounds) == 0]
    assert silent and all("not helping" in lane.end.note for lane in silent)
    answer = list(made.lanes[0].end.ids)
    monkeypatch.setattr(family, "drafter", lambda lane: Known(answer, vocabulary=264))
    made = run(family, prompt, Settings(max_new_tokens=40))
    assert [lane.end.note for lane in made.lanes] == [""] * 3


def test_a_head_that_falls_silent_says_so(family, prompt, monkeypatch):
    head = family.block_head
    monkeypatch.setattr(head, "config", dataclasses.replace(head.config, max_position_embeddings=prompt.length + 12))
    made = run(family, prompt)
    assert [bool(lane.end.note.count("outgrew")) for lane in made.lanes] == [False, False, True]
    assert made.lane("glance").end.identity.verdict == "identical"


def test_the_device_on_record_is_the_targets(family, prompt, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "another one")
    assert provenance.of(family, Settings())["device"] == platform.machine()


@pytest.mark.parametrize(
    ("settings", "lanes", "message"),
    [
        ({"max_new_tokens": 0}, ("glance",), "New tokens"),
        ({"budget": 0}, ("glance",), "budget"),
        ({"temperature": -1}, ("glance",), "temperature"),
        ({"temperature": float("nan")}, ("glance",), "temperature"),
        ({"seed": 2**64}, ("glance",), "seed"),
        ({"tie_threshold": float("inf")}, ("glance",), "tie threshold"),
        ({"stop": ("a", "")}, ("glance",), "Stop strings"),
        ({"stop": "ab"}, ("glance",), "Stop strings"),
        ({"stop": None}, ("glance",), "Stop strings"),
        ({"stop": (1,)}, ("glance",), "Stop strings"),
        ({"max_new_tokens": 7.5}, ("glance",), r"max_new_tokens must be a whole number, not 7\.5"),
        ({"budget": "7"}, ("glance",), "budget must be a whole number, not '7'"),
        ({"budget": True}, ("glance",), "budget must be a whole number, not True"),
        ({"seed": None}, ("glance",), "seed must be a whole number, not None"),
        ({"temperature": "x"}, ("glance",), "temperature must be a number, not 'x'"),
        ({"temperature": 10**400}, ("glance",), "temperature must lie"),
        ({"tie_threshold": None}, ("glance",), "tie_threshold must be a number, not None"),
        ({"exact_ties": "no"}, ("glance",), "exact_ties must be True or False, not 'no'"),
        ({}, ("glance", "glance"), "once"),
        ({}, ("medusa",), "medusa was given"),
        ({}, (), "none was given"),
        ({"max_new_tokens": 4000}, ("glance",), "leaves room"),
    ],
)
def test_settings_out_of_range_are_refused_in_one_sentence(family, prompt, settings, lanes, message):
    with pytest.raises(BadInput, match=message):
        next(race(family, prompt, Settings(**settings), lanes))


def verdict(expected, got, finished=True, rounds=(), rounding=1e-3):
    """`compare` with readable tokens."""
    return compare("Autoregressive", expected, got, rounds, finished, lambda i: f"t{i}", rounding)


def test_a_difference_names_the_place_both_tokens_and_the_margin(family, prompt):
    rounds = run(family, prompt).lanes[0].rounds
    expected = [5, *(r.bonus for r in rounds)]
    got = [*expected[:3], -1, *expected[4:]]
    made = verdict(expected, got, rounds=rounds)
    assert (made.verdict, made.index, made.expected, made.got) == ("differs", 3, expected[3], -1)
    assert made.margin == rounds[2].margin
    assert f"t{expected[3]}" in made.sentence and "t-1" in made.sentence


@pytest.mark.parametrize(
    ("answer", "period"),
    [
        ([*range(20), *range(40, 52), *list(range(12)) * 4], 12),
        ([5, 6, *[7] * 32], 1),
        ([5, 6, *[7] * 31], 0),
        ([*range(12)] * 4, 12),
        ([*list(range(12)) * 3, *range(11)], 0),
        ([*range(200)], 0),
        ([], 0),
    ],
)
def test_an_answer_that_goes_round_in_circles_is_told(answer, period):
    found = _loop(tuple(answer))
    assert bool(found) == bool(period) and (not period or f", {period} token" in found)


def test_a_run_that_loops_up_to_its_cap_carries_the_note(family, prompt, monkeypatch):
    cycle = [40 + i for i in range(12)]
    monkeypatch.setattr(family.target, "verify", looping(family.target.verify, cycle))
    monkeypatch.setattr(family, "reach", -1.0)
    made = run(family, prompt, Settings(max_new_tokens=64), lanes=("autoregressive", "glance"))
    assert {lane.end.reason for lane in made.lanes} == {"length"} and len(made.lanes[0].end.ids) == 64
    assert "12 tokens at a time" in made.lanes[0].end.note and "not typical" in made.lanes[0].end.note
    assert "unusually unsure" in made.lanes[0].end.note, "both can be true"


def looping(verify, cycle):
    """A target's `verify` that answers each row with the token behind its own in a cycle."""
    after = dict(zip(cycle, [*cycle[1:], cycle[0]], strict=True))

    def verified(cache, root, tree, prompt):
        seen = verify(cache, root, tree, prompt)
        logits = torch.zeros_like(seen.logits)
        for row, token in enumerate((root, *tree.tokens)):
            logits[row, after.get(token, cycle[0])] = 9.0
        return dataclasses.replace(seen, logits=logits)

    return verified


@pytest.mark.parametrize(
    ("margin", "rounding", "tie"),
    [(0.0, 1e-3, True), (0.03, 1e-3, False), (0.125, 0.1875, True), (2.0, 0.1875, False), (0.0, None, None)],
)
def test_a_difference_is_a_tie_where_rounding_can_make_it_and_else_a_bug(family, prompt, margin, rounding, tie):
    """`rounding` is what the arithmetic of the run was measured to move; between draws margins decide nothing."""
    rounds = [dataclasses.replace(r, margins=(margin,) * len(r.emitted)) for r in run(family, prompt).lanes[0].rounds]
    expected = [5, *(r.bonus for r in rounds)]
    made = verdict(expected, [*expected[:3], -1], rounds=rounds, rounding=rounding)
    assert made.tie is tie and made.margin == (None if rounding is None else margin)
    assert ("rounding can turn around" in made.sentence) == (tie is True)
    assert ("probably a bug" in made.sentence) == (tie is False)


def test_a_run_knows_what_its_arithmetic_moves(family, prompt, monkeypatch):
    """The threshold that was measured for it, also where the gate is off; next to nothing in float32."""
    told = []
    monkeypatch.setattr("glance.race.compare", lambda *arguments: told.append(arguments[-1]) or verdict([1], [1]))
    for threshold, settings in ((0.0, {}), (0.1875, {}), (0.1875, {"temperature": 1.0})):
        monkeypatch.setattr(family, "tie_threshold", threshold)
        run(family, prompt, Settings(max_new_tokens=4, **settings))
    assert told[::2] == [1e-3, 0.1875, None]


def test_an_answer_that_ends_early_differs_only_once_both_are_finished():
    assert verdict([1, 2, 3], [1, 2]).verdict == "differs"
    assert "the end" in verdict([1, 2, 3], [1, 2]).sentence
    assert verdict([1, 2, 3], [1, 2], finished=False).verdict == "so far"
    assert verdict([1, 2], [1, 2]).verdict == "identical"


def test_a_first_token_that_differs_has_no_margin():
    made = verdict([1, 2], [3, 2])
    assert (made.index, made.margin) == (0, None)


def test_an_added_token_that_is_not_special_is_text():
    made = tiny.tokenizer()
    made.add_tokens(["<think>"])
    vocabulary = Vocabulary(made)
    ids = [made.convert_tokens_to_ids(t) for t in ("<think>", "a", "<|im_end|>")]
    assert vocabulary.text(ids) == "<think>a"
    assert vocabulary.piece(ids[2]) == b"<|im_end|>"


def test_the_margin_at_a_difference_is_known_inside_an_accepted_path_too(family, prompt, monkeypatch):
    plain, answer = (lane := run(family, prompt).lanes[0]).rounds, list(lane.end.ids)
    monkeypatch.setattr(family, "drafter", lambda lane: Known(answer, vocabulary=264))
    drafted = run(family, prompt).lane("glance").rounds
    assert len(drafted) < len(plain)
    found = [margin_at(drafted, i) for i in range(1, len(answer))]
    assert found == pytest.approx([r.margin for r in plain], rel=1e-3, abs=1e-4)
    assert [margin_at(plain, i) for i in range(1, len(answer))] == [r.margin for r in plain]
    assert margin_at(drafted, 0) is margin_at(drafted, len(answer)) is None


def test_an_older_trace_knows_the_margins_of_root_rows_only(family, prompt, monkeypatch):
    answer = list(run(family, prompt).lanes[0].end.ids)
    monkeypatch.setattr(family, "drafter", lambda lane: Known(answer, vocabulary=264))
    old = [dataclasses.replace(r, margins=()) for r in run(family, prompt).lane("glance").rounds]
    assert margin_at(old, 1) == old[0].margin and margin_at(old, 2) is None


def test_a_lane_with_enough_rounds_ends_with_its_law(family, prompt, monkeypatch):
    plain = run(family, prompt, Settings(max_new_tokens=60)).lanes[0]
    assert plain.end.law is None and len(plain.rounds) >= law.MIN_ROUNDS  # nothing was drafted
    half = [token if i % 7 else (token + 1) % 264 for i, token in enumerate(plain.end.ids)]  # with a miss now and then
    monkeypatch.setattr(family, "drafter", lambda lane: Known(half, vocabulary=264))
    made = run(family, prompt, Settings(max_new_tokens=60))
    for lane in made.lanes:
        found = law.fit([r.entropy for r in lane.rounds], [len(r.accepted) for r in lane.rounds], 4,
                        [r.bonus is None for r in lane.rounds])  # fmt: skip
        assert lane.end.law.rounds == len(lane.rounds) >= law.MIN_ROUNDS
        assert lane.end.law.slope == pytest.approx(found.slope, rel=1e-4) and lane.end.law.horizon == 4


def test_the_header_tells_how_sure_the_first_token_was(family, prompt):
    header = run(family, prompt).header
    logits = family.target.prefill(prompt).logits
    p, top = logits.softmax(-1), logits.topk(2).values
    assert header.first_margin == pytest.approx(float(top[0] - top[1]), rel=1e-4)
    assert header.first_entropy == pytest.approx(float(-(p * p.log()).sum()), rel=1e-4)


def test_every_token_of_a_trace_has_its_bytes(family, prompt):
    made = run(family, prompt)
    shown = {i for lane in made.lanes for r in lane.rounds for i in (*r.tokens, *r.draft_top, *r.target_top)}
    assert shown <= made.pieces.keys()


@pytest.mark.parametrize("after", [0, 2])
def test_a_lane_whose_drafter_fails_ends_alone(family, prompt, monkeypatch, after):
    make = family.drafter

    def drafter(lane):
        made, left = make(lane), iter(range(after))
        propose = made.propose

        def propose_or_fail(budget):
            if lane == "glance" and next(left, None) is None:
                raise RuntimeError("made up")
            return propose(budget)

        made.propose = propose_or_fail
        return made

    monkeypatch.setattr(family, "drafter", drafter)
    made = run(family, prompt, Settings(max_new_tokens=12))
    ends = {lane.id: lane.end for lane in made.lanes}
    assert ends["glance"].reason == "failed" and len(made.lane("glance").rounds) == after
    assert ends["glance"].note == "This lane failed (RuntimeError); the others went on."
    assert ends["glance"].identity.verdict == "so far"
    assert ends["eagle3"].identity.verdict == "identical" and len(ends["eagle3"].ids) > 3


def test_a_drafter_that_is_no_longer_finite_ends_alone(family, prompt, monkeypatch):
    make = family.drafter

    def drafter(lane):
        made = make(lane)
        if lane == "eagle3":
            propose = made.propose
            nothing = lambda tree: dataclasses.replace(tree, log_q=(float("nan"),) * len(tree))  # noqa: E731
            made.propose = lambda budget: (d := propose(budget)) and dataclasses.replace(d, tree=nothing(d.tree))
        return made

    monkeypatch.setattr(family, "drafter", drafter)
    made = run(family, prompt, Settings(max_new_tokens=12))
    assert [lane.end.reason for lane in made.lanes] == ["length", "failed", "length"]
    assert made.lane("glance").end.identity.verdict == "identical"
    shown = {i for r in made.lane("glance").rounds for i in (*r.tokens, *r.draft_top, *r.target_top)}
    assert shown <= made.pieces.keys()  # also those that the lost round would have shown first


def test_the_law_knows_how_deep_a_tree_can_be(family, prompt, monkeypatch):
    asked = []
    monkeypatch.setattr(law, "of_rounds", lambda rounds, horizon: asked.append(horizon))
    run(family, prompt, Settings(max_new_tokens=8, budget=3))
    assert asked == [0, 3, 3]


def test_a_reference_that_fails_ends_the_race(family, prompt, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("made up")

    monkeypatch.setattr(family.target, "verify", broken)
    with pytest.raises(RuntimeError):
        run(family, prompt)
