"""Training from nothing to a saved target, in seconds; a run that is cut goes on where it stopped."""

from __future__ import annotations

import csv

import torch

from glance.checkpoints import load_target
from glance.training import target as module
from glance.training.target import TargetTrainer, train_target

from .tiny import RECIPE


def _rows(folder):
    with (folder / "curve.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_run_goes_through_its_stages_and_saves_a_target(tokenizer, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "build_tokenizer", lambda vocabulary: tokenizer)
    out = train_target(RECIPE, tmp_path, log_every=1, quiet=True)
    rows = _rows(tmp_path)
    assert [row["stage"] for row in rows] == ["dense", "dense", "text", "text", "joint", "joint"]
    assert rows[0]["dense_accuracy"] != "nan"
    assert rows[2]["pointer_accuracy"] != "nan"
    parts = load_target(out)
    assert parts.model.config.text_config.tie_word_embeddings
    assert all(file.stat().st_size < 10e6 for file in out.iterdir())
    assert not any("dense" in name for name in parts.model.state_dict())


def test_a_cut_run_ends_like_an_uncut_one(tokenizer, tmp_path):
    whole, first = (TargetTrainer(RECIPE, tokenizer) for _ in range(2))
    while not whole.schedule.done:
        whole.step()
    for _ in range(4):
        first.step()
    first.save(tmp_path)
    second = TargetTrainer(RECIPE, tokenizer)
    second.load(tmp_path)
    while not second.schedule.done:
        second.step()
    for name, weight in whole.model.state_dict().items():
        assert torch.allclose(weight, second.model.state_dict()[name], atol=1e-6), name


def test_a_frozen_vision_tower_does_not_move(tokenizer):
    trainer = TargetTrainer(RECIPE, tokenizer)
    for _ in range(2):
        trainer.step()
    before = [p.clone() for p in trainer.model.model.visual.parameters()]
    trainer.step()
    assert trainer.schedule.stage.name == "text"
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.model.model.visual.parameters(), strict=True))
