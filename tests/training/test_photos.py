"""Heads for a target that knows photographs: a folder of pictures stands in for the generator."""

from __future__ import annotations

import dataclasses
import json

import pytest
from PIL import Image
from typer.testing import CliRunner

from glance.checkpoints import load_block_head, load_target
from glance.cli import app
from glance.errors import BadInput
from glance.training import corpus
from glance.training.architecture import build_image_processor, build_target, save_target
from glance.training.heads import mask_token_id, train_head
from glance.training.photos import QUESTIONS, listed, photo
from glance.training.shards import make_shards, shards_of
from glance.training.states import Reads

from .tiny import HEAD, SHAPE


@pytest.fixture(scope="module")
def target(tokenizer, tmp_path_factory):
    """An untrained target of five layers, in bfloat16, whose tokenizer knows no mask token."""
    folder = tmp_path_factory.mktemp("target")
    model = build_target(dataclasses.replace(SHAPE, layers=5, vocabulary=288), tokenizer, seed=1)
    model.resize_token_embeddings(288)
    save_target(model, tokenizer, build_image_processor(SHAPE), folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text((folder / name).read_text().replace("<|mask|>", "<|spare|>"))
    return folder


@pytest.fixture
def folder(tmp_path):
    """Pictures of several sizes, and a file that is none."""
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for i, size in enumerate([(90, 60), (200, 320), (64, 64), (300, 200)]):
        Image.new("RGB", size, (i * 40, 90, 120)).save(pictures / f"{i}.{'png' if i % 2 else 'JPG'}", "png")
    (pictures / "notes.md").write_text("no picture")
    return pictures


def test_a_number_names_a_picture_and_a_question(folder):
    drawn = [photo(folder, number, "train") for number in range(40)]
    assert {one.question for one in drawn} == {*QUESTIONS}
    assert {one.image.size for one in drawn} == {(200, 320), (64, 64), (300, 200)}  # the first is held out
    assert {photo(folder, number, "validation").image.size for number in range(5)} == {(90, 60)}
    again = photo(folder, 7, "train")
    assert (again.question, again.image.tobytes()) == (drawn[7].question, drawn[7].image.tobytes())


def test_files_that_cannot_be_used_are_left_out(folder, caplog):
    """A torn file, a strip that no target takes, and what macOS writes beside a picture."""
    listed.cache_clear()
    (folder / "torn.heic").write_bytes(b"torn")
    Image.new("RGB", (600, 2)).save(folder / "strip.png")
    (folder / "._1.png").write_bytes(b"Mac OS X")
    drawn = [photo(folder, number, "train") for number in range(40)]
    assert {one.image.size for one in drawn} == {(200, 320), (64, 64), (300, 200)}
    assert "torn.heic is left out" in caplog.text and "strip.png is left out" in caplog.text
    assert "._1" not in caplog.text
    for file in folder.glob("[0-9]*"):
        file.unlink()
    listed.cache_clear()
    with pytest.raises(BadInput, match="can be used"):
        photo(folder, 0, "train")


def test_questions_lie_beside_the_pictures(folder):
    listed.cache_clear()
    (folder / "questions.txt").write_text("What is sold?\n\nWho signed?\n")
    assert {photo(folder, number, "train").question for number in range(20)} == {"What is sold?", "Who signed?"}
    listed.cache_clear()
    (folder / "questions.txt").write_text("Was fällt auf?\n", encoding="utf-8-sig")  # as Windows' Notepad saves it
    assert photo(folder, 0, "train").question == "Was fällt auf?"
    listed.cache_clear()
    (folder / "questions.txt").write_text("Was fällt auf?\n", encoding="cp1252")
    with pytest.raises(BadInput, match=r"questions.txt is not UTF-8"):
        photo(folder, 0, "train")


def test_a_folder_without_pictures_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no pictures"):
        photo(tmp_path, 0, "train")


def test_a_head_is_trained_on_the_targets_answers_about_pictures(target, folder, tmp_path, monkeypatch):
    """In bfloat16, with pictures of several sizes and a mask that is the first free row of the embeddings."""
    parts = load_target(target)
    assert mask_token_id(parts) == len(parts.tokenizer) < 288
    end = min(parts.eos_ids)
    monkeypatch.setattr(
        corpus, "answer_samples", lambda parts, drawn, longest, quiet: [[40, 50, 60, 70, end] for _ in drawn]
    )
    recipe = dataclasses.replace(HEAD, families={str(folder): 1.0})
    head = load_block_head(train_head(recipe, target, tmp_path / "run", dtype="bfloat16", quiet=True), parts)
    assert head.config.mask_token_id == len(parts.tokenizer)
    assert 0 <= json.loads((tmp_path / "run" / "held-out.json").read_text())["train"]["chain_accepted"] <= 4


def test_answers_belong_to_the_pictures_of_their_day(target, folder, tmp_path):
    """A seed names a picture by its place in the folder: with one more it names another."""
    reads, shards = Reads((0,)), shards_of({str(folder): 1.0}, 0, "train", 2)
    make_shards(target, shards, tmp_path / "corpus", reads, max_new_tokens=2, quiet=True)
    make_shards(target, shards, tmp_path / "corpus", reads, max_new_tokens=2, quiet=True)
    Image.new("RGB", (64, 64)).save(folder / "0a.png")
    listed.cache_clear()
    with pytest.raises(BadInput, match="choose another folder"):
        make_shards(target, shards, tmp_path / "corpus", reads, max_new_tokens=2, quiet=True)


def test_answers_that_never_end_teach_nothing(target, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "answer_samples", lambda parts, drawn, longest, quiet: [[40] * longest for _ in drawn])
    recipe = dataclasses.replace(HEAD, families={str(folder): 1.0}, max_new_tokens=3)
    with pytest.raises(BadInput, match="No answer ended within 3 tokens"):
        train_head(recipe, target, tmp_path / "run", quiet=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "--target or --preset"),
        (["--target", "x", "--preset", "mini"], "--target or --preset"),
        (["--preset", "mini", "--recipe", "qwen3-vl-glance"], "name a folder of them with --images"),
        (["--preset", "mini", "--recipe", "none"], "There is no recipe"),
        (["--preset", "mini", "--recipe", "mini-eagle3"], "is one for `train eagle3`"),
        (["--preset", "mini", "--recipe", "mini-target"], "is one for `train target`"),
        (["--preset", "qwen3-vl-32b", "--recipe", "qwen3-vl-glance"], "set GLANCE_QUANTIZE=none"),
        (["--preset", "mini", "--workers", "0"], "--workers"),
    ],
)
def test_the_command_says_what_is_missing(given, words, tmp_path):
    result = CliRunner().invoke(app, ["train", "glance", "--out", str(tmp_path), *given])
    assert result.exit_code == 2 and words in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--recipe", "mini-glance"], "is one for `train glance`"),
        (["--minutes", "-5"], "--minutes"),
        (["--minutes", "0"], "--minutes"),
        (["--start-from", "nowhere"], "--start-from"),
    ],
)
def test_a_target_is_not_trained_from_what_cannot_be(given, words, tmp_path):
    result = CliRunner().invoke(app, ["train", "target", "--out", str(tmp_path), *given])
    assert result.exit_code == 2 and words in " ".join(result.output.split())
