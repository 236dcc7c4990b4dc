"""The corpus on disk: what it holds depends on the seed alone, finished shards stay, a foreign folder is refused."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest
import torch

from glance.errors import BadInput
from glance.training import shards as module
from glance.training.architecture import build_image_processor, build_target, save_target
from glance.training.corpus import load_corpus
from glance.training.shards import load_answers, load_states, make_shards, shards_of
from glance.training.states import Reads, load_rows, save_rows, teacher_forced

from .tiny import SHAPE

FAMILIES = {"scenes": 1.0}
READS = Reads((-1, 1), pointing=1)


@pytest.fixture(scope="module")
def target(tokenizer, tmp_path_factory):
    """An untrained target that ends at once or never, so that most answers are kept or none."""
    folder = tmp_path_factory.mktemp("target")
    model = build_target(SHAPE, tokenizer, seed=1)
    save_target(model, tokenizer, build_image_processor(SHAPE), folder)
    return folder


@pytest.fixture
def made(target, monkeypatch):
    """Shards of two samples whose answers are cut short and count as ended."""
    build = module.build_corpus

    def short(parts, families, count, seed, split, max_new_tokens):
        monkeypatch.setattr(
            "glance.training.corpus.answer_samples",
            lambda parts, drawn, max_new_tokens, quiet: [[40 + len(one.question) % 7, 50, 2] for one in drawn],
        )
        return build(parts, families, count, seed, split)

    monkeypatch.setattr(module, "build_corpus", short)
    return lambda folder, count=4: make_shards(
        target, shards_of(FAMILIES, 0, "train", count, size=2), folder, READS, quiet=True
    )


def test_a_longer_corpus_keeps_the_shards_that_are_there(made, tmp_path):
    made(tmp_path, 4)
    first = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    made(tmp_path, 6)
    assert all((tmp_path / name).stat().st_mtime_ns == time for name, time in first.items())
    whole = shards_of(FAMILIES, 0, "train", 6, size=2)
    assert len(load_answers(whole, tmp_path)) == len(load_states(whole, tmp_path)) == 6


def test_shards_differ_and_come_again_alike(made, tmp_path):
    for name in ("one", "two"):
        made(tmp_path / name)
    files = ["train-000000-000002.jsonl", "train-000002-000004.jsonl"]
    first, second = (load_corpus(tmp_path / "one" / file) for file in files)
    assert {one.seed for one in first}.isdisjoint(one.seed for one in second)
    assert [load_corpus(tmp_path / "two" / file) for file in files] == [first, second]


def test_a_folder_of_other_families_is_refused(made, target, tmp_path):
    made(tmp_path)
    with pytest.raises(BadInput, match="choose another folder"):
        make_shards(target, shards_of({"signs": 1.0}, 0, "train", 2), tmp_path, READS, quiet=True)


def test_a_folder_whose_states_are_of_other_layers_is_refused(made, target, tmp_path):
    made(tmp_path)
    with pytest.raises(BadInput, match="choose another folder"):
        make_shards(target, shards_of(FAMILIES, 0, "train", 4, size=2), tmp_path, Reads((-1, 2), 1), quiet=True)


def test_two_processes_make_what_one_makes(target, tokenizer, tmp_path):
    config = json.loads((target / "generation_config.json").read_text())
    every = {**config, "eos_token_id": list(range(SHAPE.vocabulary))}  # each answer ends with its first token
    shutil.copytree(target, tmp_path / "target")
    (tmp_path / "target" / "generation_config.json").write_text(json.dumps(every))
    jobs = shards_of(FAMILIES, 0, "train", 4, size=2)
    for workers in (1, 2):
        make_shards(tmp_path / "target", jobs, tmp_path / str(workers), READS, workers, quiet=True)
    one, two = (load_answers(jobs, tmp_path / str(workers)) for workers in (1, 2))
    assert one == two and len(one) == 4
    for row, other in zip(*(load_states(jobs, tmp_path / str(workers)) for workers in (1, 2)), strict=True):
        assert torch.equal(row.ids, other.ids)
        assert torch.allclose(row.last.float(), other.last.float(), rtol=0.02, atol=0.02)  # bfloat16 of two roundings


def test_rows_come_back_from_disk(made, target, tmp_path):
    made(tmp_path)
    answered = load_answers(shards_of(FAMILIES, 0, "train", 4, size=2), tmp_path)
    rows = teacher_forced(module.load_target(target), answered, READS)
    save_rows(rows, tmp_path / "rows.pt")
    for row, again in zip(rows, load_rows(tmp_path / "rows.pt"), strict=True):
        assert torch.equal(row.ids, again.ids)
        assert row.prompt == again.prompt
        for layer in READS.layers:
            assert torch.equal(row.states[layer].bfloat16(), again.states[layer])
        assert torch.equal(row.last.bfloat16(), again.last)
        assert torch.equal(row.looks.bfloat16(), again.looks)
        assert row.first == again.first


def test_a_shard_without_answers_is_a_shard(target, tmp_path):
    """A target that never ends leaves nothing to learn from, and says so only when training begins."""
    (shard,) = shards_of(FAMILIES, 0, "train", 1)
    shard.file(tmp_path, ".jsonl").write_text("")
    make_shards(target, [shard], tmp_path, READS, quiet=True)
    assert load_states([dataclasses.replace(shard)], tmp_path) == []
