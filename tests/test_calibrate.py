"""The tie gate's threshold, and what the gate does where packed rows round differently: stub, bf16 and 4-bit."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from typer.testing import CliRunner

from glance import calibrate, presets
from glance.cli import app
from glance.drafters.autoregressive import Autoregressive
from glance.engine import Decoding, Settings
from glance.identity import margin_at
from glance.stop import StopRules
from glance.synth import sample
from tests.stubs import VOCABULARY, Oracle, StubTarget, greedy

PROMPT = (1, 2, 3, 4, 5)


class Rounding(StubTarget):
    """Packed rows differ from single ones by `step`, half of the tokens up and half down."""

    def __init__(self, step: float) -> None:
        super().__init__()
        self.step = step

    def verify(self, cache, root, tree, prompt):
        """Move the logits of packed rows."""
        seen = super().verify(cache, root, tree, prompt)
        sign = torch.ones(VOCABULARY).where(torch.arange(VOCABULARY) % 2 == 0, -1)
        return dataclasses.replace(seen, logits=seen.logits + self.step * sign) if len(tree) else seen


@pytest.mark.parametrize("budget", [1, 5, 20])
@pytest.mark.parametrize("cap", [2, 3, 40])
def test_each_row_of_the_answer_is_compared_with_itself(budget, cap):
    """The stub's logits are a hash of the prefix: a row compared with any other would differ by far."""
    target = StubTarget()
    rows = list(calibrate.measure(target, target.prefill(PROMPT), StopRules((), cap), budget))
    assert len(rows) == cap - 1
    found = calibrate.figures(rows)
    assert found["threshold"] == found["largest_packed_difference"] == found["largest_drift"] == found["flipped"] == 0
    assert max(target.passes) == budget + 1


def test_the_threshold_is_what_two_logits_move_against_each_other():
    target = Rounding(0.3)
    rows = list(calibrate.measure(target, target.prefill(PROMPT), StopRules((), 80), 8))
    found = calibrate.figures(rows)
    assert found["largest_packed_difference"] == pytest.approx(0.3, abs=1e-5)
    assert found["threshold"] == pytest.approx(0.6, abs=1e-5)
    assert found["flipped"] > 0
    assert 0.3 < found["largest_flipped_margin"] < 0.6
    assert found["largest_drift"] == 0
    assert 0 < found["share_not_above_threshold"] < 1


def test_the_measured_threshold_makes_the_gate_restore_the_answer():
    target = Rounding(0.3)
    prefill, stop = target.prefill(PROMPT), StopRules((), 80)
    threshold = calibrate.figures(calibrate.measure(target, prefill, stop, 8))["threshold"]
    answers = {}
    for gate in (0.0, threshold):
        run = Decoding(target, prefill, Oracle(), Settings(max_new_tokens=80, tie_threshold=gate), stop)
        deferred = sum(r.deferred for r in run)
        answers[gate] = run.answer
    assert answers[0.0] != greedy(PROMPT, 80) == answers[threshold]
    assert deferred > 0


def test_an_answer_of_one_token_gives_no_row():
    target = StubTarget()
    assert not list(calibrate.measure(target, target.prefill(PROMPT), StopRules((), 1), 8))


def test_the_presets_threshold_is_the_one_that_was_measured():
    kept = json.loads((presets.ASSETS / "bench/ties-bf16.json").read_text())
    assert kept["provenance"]["dtype"] == "bfloat16" and kept["provenance"]["quantize"] == "none"
    assert presets.PRESETS["mini"].ties["cpu", "bfloat16", "none"] == kept["figures"]["threshold"]
    assert kept["figures"]["runs"] == len(kept["runs"]) == 60


@pytest.mark.slow
def test_a_long_answer_in_low_precision_is_identical_with_exact_ties():
    """Far behind where it would have ended: what rounds differently adds up, and near-ties come there."""
    family = presets.load("mini", "cpu", dtype="bfloat16")
    settings = Settings(max_new_tokens=256, tie_threshold=1.0, exact_ties=True)  # wide: ties come on every processor
    drawn = sample("documents", 1004, split="test")
    prefill = family.target.prefill(family.prompt(drawn.image, drawn.question))
    plain, run = (
        Decoding(family.target, prefill, drafter, settings, StopRules((), 256))
        for drafter in (Autoregressive(), family.drafter("glance"))
    )
    assert sum(r.deferred for r in plain) == 0 < sum(r.deferred for r in run)
    assert run.answer == plain.answer and len(run.answer) == 256


@pytest.mark.parametrize("how", [{"dtype": "bfloat16"}, {"dtype": "bfloat16", "quantize": "4bit"}], ids=str)
def test_the_shipped_family_in_low_precision_is_identical_with_exact_ties(how):
    """And without them it may differ, at near-ties alone: deferred rows read what packed passes have left."""
    family = presets.load("mini", "cpu", **how)
    assert family.target.dtype == torch.bfloat16
    assert family.parts.quantize == how.get("quantize", "none")
    assert {p.dtype for p in family.block_head.parameters()} == {torch.bfloat16}
    assert family.tie_threshold > 0
    cheap = Settings(max_new_tokens=24, tie_threshold=family.tie_threshold)
    exact = dataclasses.replace(cheap, exact_ties=True)
    stop, deferred, count = family.stop_rules(cheap), 0, 0
    for kind, lane in (("signs", "glance"), ("documents", "eagle3"), ("documents", "glance")):
        drawn = sample(kind, 1003, split="test")
        prefill = family.target.prefill(family.prompt(drawn.image, drawn.question))
        plain = Decoding(family.target, prefill, Autoregressive(), exact, stop)
        ordinary = list(plain)
        assert not any(r.deferred for r in ordinary)
        for settings in (cheap, exact):
            run = Decoding(family.target, prefill, family.drafter(lane), settings, stop)
            rounds = list(run)
            deferred += sum(r.deferred for r in rounds)
            count += len(rounds)
            first = next((i for i, (a, b) in enumerate(zip(plain.answer, run.answer, strict=False)) if a != b), None)
            if settings is exact:
                assert first is None and len(run.answer) == len(plain.answer)
            elif first is not None:
                assert margin_at(ordinary, first) <= family.tie_threshold
    assert deferred < count


def test_the_command_prints_and_keeps_its_figures(tmp_path, monkeypatch):
    from glance import examples

    monkeypatch.setattr(examples, "CHOSEN", examples.CHOSEN[:1])
    file = tmp_path / "ties.json"
    asked = ["calibrate", "--max-new-tokens", "12", "--budget", "7", "--check", "1", "--json", str(file)]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    kept = json.loads(file.read_text())
    assert kept["figures"]["flipped"] == 0
    assert 0 < kept["figures"]["threshold"] < 1e-3
    assert kept["figures"]["identical_exact"] == kept["figures"]["identical_without"] == kept["figures"]["runs"] == 10
    assert kept["figures"]["passes_per_token_exact"] >= kept["figures"]["passes_per_token_gate"] > 0
    assert len(kept["runs"]) == 10 and len(kept["rows"]) == kept["figures"]["rows"]
    assert kept["provenance"]["dtype"] == "float32" and kept["provenance"]["quantize"] == "none"
    assert "threshold" in done.output
