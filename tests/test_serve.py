"""The launch commands of the production engines, word by word."""

from __future__ import annotations

import json
import shlex

import pytest
from typer.testing import CliRunner

from glance.cli import app
from glance.hosting import serve


@pytest.fixture(autouse=True)
def presets(monkeypatch, tmp_path):
    """One family of the hub without an EAGLE-3 head, one whose block head lies in a folder."""
    (tmp_path / "config.json").write_text(json.dumps({"dflash_config": {"block_size": 8}}))
    hub = {"target": "org/VL-8B", "block_head": "org/VL-8B-DFlash-b16", "dtype": "bfloat16"}
    made = {
        "hub": {**hub, "eagle3_head": None},
        "full": {**hub, "eagle3_head": "org/eagle3"},
        "own": {**hub, "block_head": str(tmp_path), "eagle3_head": None},
    }
    real = serve.resolve
    found = {name: type("Parts", (), parts) for name, parts in made.items()}
    monkeypatch.setattr(serve, "resolve", lambda name, **parts: found.get(name) or real(name, **parts))


def flags(line: str) -> dict[str, str]:
    """--flag -> value."""
    words = shlex.split(line)
    return {word: words[i + 1] for i, word in enumerate(words[:-1]) if word.startswith("--")}


def test_sglang_drafts_blocks_of_the_heads_size():
    line = serve.command("sglang", "hub")
    assert line.startswith("python -m sglang.launch_server --model-path org/VL-8B --dtype bfloat16 ")
    said = flags(line)
    assert said["--speculative-algorithm"] == "DFLASH"
    assert said["--speculative-draft-model-path"] == "org/VL-8B-DFlash-b16"
    assert said["--speculative-num-draft-tokens"] == "16"
    assert flags(serve.command("sglang", "own"))["--speculative-num-draft-tokens"] == "8"


def test_sglangs_tree_counts_the_root():
    said = flags(serve.command("sglang", "full", "eagle3", budget=31))
    assert said["--speculative-algorithm"] == "EAGLE3" and said["--speculative-num-draft-tokens"] == "32"
    assert said["--speculative-num-steps"] == "8" and said["--speculative-eagle-topk"] == "4"


@pytest.mark.parametrize(("kind", "method", "tokens"), [("glance", "dflash", 15), ("eagle3", "eagle3", 8)])
def test_vllm_drafts_one_token_less_than_a_block(kind, method, tokens):
    line = serve.command("vllm", "full", kind)
    assert line.startswith("vllm serve org/VL-8B --dtype bfloat16 ")
    config = json.loads(flags(line)["--speculative-config"])
    assert config["method"] == method and config["num_speculative_tokens"] == tokens
    assert flags(line)["--per-request-spec-decode-metrics"] == "summary"


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_plain_decoding_has_no_speculative_flag(engine):
    assert "specul" not in serve.command(engine, "hub", "none")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--engine", "tgi", "--preset", "hub"], "no engine 'tgi'; choose among sglang, vllm"),
        (["--engine", "vllm", "--preset", "x"], "no preset 'x'"),
        (["--engine", "vllm", "--preset", "hub", "--head", "eagle3"], "No eagle3 head is known for hub"),
    ],
)
def test_refusals(words, sentence):
    result = CliRunner().invoke(app, ["serve-command", *words])
    assert result.exit_code == 2 and sentence in result.stderr


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("{", "copy it again"),
        ("[]", "copy it again"),
        ('{"dflash_config": "x"}', "is not a JSON object; copy it again"),
        ('{"block_size": "16"}', "blocks of '16'; correct it"),
        ('{"block_size": 1}', "blocks of 1; correct it"),
        ('{"dflash_config": {"block_size": 8.5}}', "blocks of 8.5; correct it"),
    ],
)
def test_a_damaged_head_is_refused_in_one_sentence(tmp_path, config, sentence):
    (tmp_path / "config.json").write_text(config)
    for engine in serve.ENGINES:
        result = CliRunner().invoke(app, ["serve-command", "--engine", engine, "--preset", "own"])
        assert result.exit_code == 2 and sentence in result.stderr
    (tmp_path / "config.json").write_text('{"dflash_config": null}')
    assert flags(serve.command("sglang", "own"))["--speculative-num-draft-tokens"] == "16"


def test_a_part_named_in_the_environment_is_served(monkeypatch):
    monkeypatch.setenv("GLANCE_BLOCK_HEAD", "me/my-head")
    assert " --speculative-draft-model-path me/my-head " in serve.command("sglang", "qwen3-vl-8b")


def test_the_command_prints_one_line():
    result = CliRunner().invoke(app, ["serve-command", "--engine", "vllm", "--preset", "hub"])
    assert result.exit_code == 0 and result.stdout == serve.command("vllm", "hub") + "\n"
