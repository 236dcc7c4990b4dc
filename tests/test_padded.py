"""Passes of fixed shapes: the same logits, the same answers, and a clear fall-back."""

from __future__ import annotations

import pytest
import torch

from glance.engine import Decoding, Settings
from glance.padded import PaddedVerify, Recorded
from glance.tree import CandidateTree

TREE = CandidateTree((5, 9, 5, 7, 11), (-1, -1, 0, 0, 2), (-1.0,) * 5)


@pytest.mark.parametrize(("tree", "size"), [(TREE, 16), (CandidateTree(), 1), (TREE, 6), (CandidateTree(), 16)])
def test_padding_changes_nothing(family, prefill, tree, size):
    plain, padded = (prefill.cache.fork(prefill.prompt.length + 40) for _ in range(2))
    for layer in padded.rows:  # what lies behind the filled rows must not matter
        layer.keys[:, :, layer.length :] = torch.nan
    passes = PaddedVerify(family.target, padded, size, prefill.prompt)
    for root in (3, 8):  # the second pass reads rows that the first one left
        want = family.target.verify(plain, root, tree, prefill.prompt)
        logits, states = passes(padded, root, tree, prefill.prompt)
        torch.testing.assert_close(logits, want.logits, atol=1e-5, rtol=1e-5)
        for layer, state in want.states.items():
            torch.testing.assert_close(states[layer], state, atol=1e-5, rtol=1e-5)
        rows = [0, 1, 3] if len(tree) else [0]
        plain.commit(rows)
        padded.commit(rows)
        for mine, other in zip(padded.rows, plain.rows, strict=True):
            end = plain.committed
            torch.testing.assert_close(mine.keys[:, :, :end], other.keys[:, :, :end], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("lane", ["autoregressive", "eagle3", "glance"])
def test_a_padded_target_answers_the_same(family, prefill, lane, monkeypatch):
    settings = Settings(max_new_tokens=12, budget=20)

    def answer():
        run = Decoding(family.target, prefill, family.drafter(lane), settings, family.stop_rules(settings))
        list(run)
        return run.answer

    ordinary = answer()
    monkeypatch.setattr(family.target, "padded", True)
    assert answer() == ordinary and len(ordinary) == 12


def test_a_full_cache_needs_the_ordinary_pass(family, prefill):
    cache = prefill.cache.fork(prefill.prompt.length + 6)
    passes = PaddedVerify(family.target, cache, 16, prefill.prompt)
    assert passes.fits(cache, 5) and not passes.fits(cache, 6) and not passes.fits(cache, 17)


@pytest.mark.parametrize(("record", "word"), [(True, "no GPU"), (False, "not asked for")])
def test_recording_says_why_it_is_not_there(record, word):
    buffer = torch.zeros(3)
    recorded = Recorded(lambda: buffer + 1, torch.device("cpu"), record)
    assert word in recorded.note
    buffer += 1
    assert recorded().tolist() == [2, 2, 2]


def test_a_recording_that_fails_falls_back_with_a_message(monkeypatch, caplog):
    class Stream:
        def __init__(self, *args):
            raise RuntimeError("capture is not permitted\nat all")

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    recorded = Recorded(lambda: 7, torch.device("cuda"))
    assert recorded() == 7 and recorded.note == "recording failed: capture is not permitted"
    assert caplog.messages == ["A pass runs without a CUDA graph; recording failed: capture is not permitted."]
