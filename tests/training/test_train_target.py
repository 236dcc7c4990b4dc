"""Training from nothing to a saved target, in seconds; a run that is cut goes on where it stopped."""

from __future__ import annotations

import csv
import dataclasses
import math

import pytest
import torch

from glance.checkpoints import load_target
from glance.errors import BadCheckpoint, BadInput
from glance.synth import sample
from glance.training import target as module
from glance.training.dense import dense_labels
from glance.training.feed import Feed
from glance.training.recipe import Stage
from glance.training.target import TargetTrainer, train_target
from tests import tiny_targets

from .tiny import RECIPE, SHAPE


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


@pytest.mark.parametrize("narrow", [False, True], ids=["float32", "bfloat16"])
def test_products_are_as_wide_as_the_recipe_says_and_weights_float32(tokenizer, narrow):
    trainer = TargetTrainer(dataclasses.replace(RECIPE, bfloat16=narrow), tokenizer)
    trainer.schedule.progress.stage = 1
    made = []
    trainer.model.model.language_model.layers[0].mlp.gate_proj.register_forward_hook(lambda *io: made.append(io[-1]))
    result, _ = trainer.step()
    assert math.isfinite(result.loss)
    wanted = torch.bfloat16 if narrow else torch.float32
    assert {t.dtype for t in made} == {wanted} and trainer.optimizers[0].precision == wanted
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}


def test_a_folder_goes_on_with_its_own_run_only(tokenizer, monkeypatch, tmp_path):
    """A stopped run with another recipe or beginning is refused; a beginning that does not fit is a sentence."""
    monkeypatch.setattr(module, "build_tokenizer", lambda vocabulary: tokenizer)
    finished = train_target(RECIPE, tmp_path / "run", quiet=True)
    with pytest.raises(BadInput, match="choose another folder"):
        train_target(RECIPE, tmp_path / "run", quiet=True, start_from=finished)
    with pytest.raises(BadInput, match="choose another folder"):
        train_target(dataclasses.replace(RECIPE, seed=5), tmp_path / "run", quiet=True)
    wider = dataclasses.replace(RECIPE, shape=dataclasses.replace(SHAPE, mlp=96))
    with pytest.raises(BadInput, match="another shape than the recipe"):
        train_target(wider, tmp_path / "wider", quiet=True, start_from=finished)
    with pytest.raises(BadInput, match="another shape than the recipe"):
        TargetTrainer(RECIPE, tokenizer).start_from(tiny_targets.llama_vision().model)  # its tower has no blocks
    (tmp_path / "nothing").mkdir()
    with pytest.raises(BadCheckpoint):
        train_target(RECIPE, tmp_path / "other", quiet=True, start_from=tmp_path / "nothing")


def test_a_stage_draws_its_own_families_or_the_recipes(tokenizer):
    trainer = TargetTrainer(RECIPE, tokenizer)
    assert {drawn.family for drawn in trainer.next_samples()} == {"lines"}
    for _ in range(2):
        trainer.step()
    assert trainer.schedule.stage.name == "text"
    assert {drawn.family for drawn in trainer.next_samples()} <= {"documents", "scenes"}


def test_a_frozen_vision_tower_does_not_move(tokenizer):
    trainer = TargetTrainer(RECIPE, tokenizer)
    for _ in range(2):
        trainer.step()
    before = [p.clone() for p in trainer.model.model.visual.parameters()]
    trainer.step()
    assert trainer.schedule.stage.name == "text"
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.model.model.visual.parameters(), strict=True))


@pytest.mark.parametrize("blocks", [0, 2])
def test_a_run_can_begin_with_a_finished_target(tokenizer, monkeypatch, tmp_path, blocks):
    """Its tokenizer is taken over, and its weights: at rate zero the new run ends with the old one's.

    A tower that has grown sees at first what it saw before.
    """
    monkeypatch.setattr(module, "build_tokenizer", lambda vocabulary: tokenizer)
    still = dataclasses.replace(
        RECIPE,
        seed=1,
        shape=dataclasses.replace(SHAPE, vision_depth=SHAPE.vision_depth + blocks),
        stages=(Stage("joint", 1, vision=True, text=True, rate=(0.0, 0.0)),),
    )
    earlier = train_target(RECIPE, tmp_path / "one", quiet=True)
    monkeypatch.delattr(module, "build_tokenizer")
    later = train_target(still, tmp_path / "two", quiet=True, start_from=earlier)
    one, two = (load_target(folder) for folder in (earlier, later))
    assert one.tokenizer.get_vocab() == two.tokenizer.get_vocab()
    for name, weight in one.model.state_dict().items():
        assert torch.equal(weight, two.model.state_dict()[name]), name
    looks = one.image_processor(sample("lines", 1, "test").image, return_tensors="pt")
    seen = [parts.model.model.visual(looks["pixel_values"], looks["image_grid_thw"]) for parts in (one, two)]
    assert torch.equal(*(found.pooler_output for found in seen))


def test_processes_feed_the_batches_that_one_would_draw(tokenizer):
    plain, fed = (TargetTrainer(RECIPE, tokenizer) for _ in range(2))
    fed.feed = Feed(RECIPE, tokenizer, processes=2, count=module.POOL)
    while not plain.schedule.done:
        assert plain.step()[1] == fed.step()[1]
    fed.close()
    for name, weight in plain.model.state_dict().items():
        assert torch.equal(weight, fed.model.state_dict()[name]), name


def test_mixed_precision_runs_through_all_losses(tokenizer):
    """What a GPU computes in bfloat16 has no clash of dtypes and stays near float32."""
    trainer = TargetTrainer(RECIPE, tokenizer)
    trainer.schedule.progress.stage = 2
    batch = trainer.encoder(trainer.next_samples())
    labels = dense_labels(batch.samples, batch.pixels, RECIPE.shape)
    exact, _ = trainer.losses(batch, labels)
    with torch.autocast("cpu", torch.bfloat16):
        mixed, _ = trainer.losses(batch, labels)
    mixed.backward()
    assert mixed.item() == pytest.approx(exact.item(), rel=0.05)
