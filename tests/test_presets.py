"""Presets: parts named on the command line and in the environment, lanes without a head, refusals in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from glance import presets
from glance.cli import app
from glance.engine import Settings
from glance.errors import BadCheckpoint, BadInput
from glance.family import Family
from glance.lanes import LANES
from glance.race import race
from tests import tiny


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for part in presets.PARTS:
        monkeypatch.delenv(f"GLANCE_{part.upper()}", raising=False)


def test_every_preset_explains_the_lanes_it_lacks_and_can_be_resolved():
    assert set(presets.PRESETS) == {
        "mini", "qwen3-vl-2b", "qwen3-vl-4b", "qwen3-vl-8b", "qwen3-vl-32b", "qwen2.5-vl-7b", "llama-3.2-11b-vision"
    }  # fmt: skip
    for name, preset in presets.PRESETS.items():
        assert presets.resolve(name) == preset
        assert preset.dtype in presets.DTYPES and preset.quantize in presets.QUANTIZE and preset.memory > 2
        assert preset.licence
        for head, lane in ((preset.block_head, "glance"), (preset.eagle3_head, "eagle3")):
            assert head or "published" in preset.notes[lane]
        assert all(note.endswith(".") for note in preset.notes.values()) and set(preset.notes) <= set(LANES)


def test_the_command_line_goes_before_the_environment_and_both_before_the_preset(monkeypatch):
    for part, value in {"TARGET": "me/target", "BLOCK_HEAD": "me/head", "DTYPE": "float16", "QUANTIZE": ""}.items():
        monkeypatch.setenv(f"GLANCE_{part}", value)
    got = presets.resolve("qwen3-vl-8b", block_head="/my/head", quantize="4bit")
    assert (got.target, got.block_head, got.dtype, got.quantize) == ("me/target", "/my/head", "float16", "4bit")
    assert got.eagle3_head == presets.PRESETS["qwen3-vl-8b"].eagle3_head
    assert "glance" not in got.notes, "what is known of a head does not hold for another"


def test_none_takes_a_head_away_and_says_so(monkeypatch):
    monkeypatch.setenv("GLANCE_EAGLE3_HEAD", "none")
    got = presets.resolve("mini")
    assert got.eagle3_head is None and got.notes == {"eagle3": "eagle3_head was set to none."}


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("maxi", {}, "no preset 'maxi'; choose among mini, qwen3-vl-2b"),
        ("mini", {"dtype": "int8"}, "'int8' is no dtype known here; choose among float32"),
        ("mini", {"quantize": "2bit"}, "'2bit' is no quantize known here; choose among none, 8bit, 4bit"),
    ],
)
def test_unknown_values_are_refused(name, given, message):
    with pytest.raises(BadInput, match=message):
        presets.resolve(name, **given)


def test_changes_on_the_command_line():
    assert presets.parse(["target=/a=b", "dtype=bfloat16"]) == {"target": "/a=b", "dtype": "bfloat16"}
    for wrong in ("target", "target=", "tarjet=x", "=x"):
        with pytest.raises(BadInput, match=r"write PART=VALUE, the part being one of target, block_head"):
            presets.parse([wrong])


def test_a_family_has_the_lanes_whose_heads_exist():
    whole = tiny.family()
    assert whole.lanes == ("autoregressive", "eagle3", "glance")
    bare = Family("bare", whole.parts, None, whole.eagle3_head, {"glance": "No block head is published."})
    assert bare.lanes == ("autoregressive", "eagle3")
    prompt = bare.prompt(tiny.picture(), "What?")
    text = "".join(race(bare, prompt, Settings(max_new_tokens=4), bare.lanes))
    assert '"id":"eagle3"' in text and '"id":"glance"' not in text
    for refused in (lambda: list(race(bare, prompt, Settings(), ("autoregressive", "glance"))),
                    lambda: bare.drafter("glance"), lambda: bare.drafter_name("glance")):  # fmt: skip
        with pytest.raises(BadInput, match=r"No block head is published\."):
            refused()
    none = Family("none", whole.parts, None, None)
    assert none.lanes == ("autoregressive",)
    with pytest.raises(BadInput, match="none has no head for the lane EAGLE-3"):
        none.drafter("eagle3")


def test_a_family_is_loaded_from_folders_that_replace_the_presets_parts(tmp_path):
    made = tiny.family()
    for part in (made.parts.model, made.parts.tokenizer, made.parts.image_processor):
        part.save_pretrained(tmp_path / "target")
    tiny.save_head(made.block_head, made.parts, tmp_path / "block")
    given = {"target": str(tmp_path / "target"), "block_head": str(tmp_path / "block"), "eagle3_head": "none"}
    family = presets.load("mini", "cpu", **given)
    assert family.lanes == ("autoregressive", "glance")
    assert family.target_name == "target"
    assert family.reach is None  # measured on the preset's own target
    assert presets.load("mini", "cpu", **given, dtype="bfloat16").tie_threshold == 0.5  # a guess, not mini's
    with pytest.raises(BadCheckpoint, match="no such folder"):
        presets.load("mini", "cpu", **{**given, "block_head": str(tmp_path / "nowhere")})


def test_without_the_hub_the_command_line_says_in_one_sentence_what_to_do(tmp_path):
    picture = tmp_path / "picture.png"
    tiny.picture().save(picture)
    done = subprocess.run(
        [sys.executable, "-m", "glance", "compare", str(picture), "What?", "--preset", "qwen3-vl-8b"],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and not done.stdout
    sentence = done.stderr.strip().splitlines()[-1]
    assert sentence == (
        "Qwen/Qwen3-VL-8B-Instruct is not on this machine and the hub cannot be reached; "
        "connect once, or copy the repository into a folder and give that folder."
    )
    assert "Traceback" not in done.stderr


def test_the_command_line_replaces_parts_and_lists_the_presets(tmp_path, monkeypatch):
    asked = {}

    def load(name, **given):
        asked.update(given, name=name)
        raise BadInput("Asked.")

    monkeypatch.setattr(presets, "load", load)
    picture = tmp_path / "picture.png"
    tiny.picture().save(picture)
    for words in (["compare", str(picture), "What?"], ["bench"]):
        asked.clear()
        result = CliRunner().invoke(
            app, [*words, "--with", "target=/x", "--with", "block_head=none"], env={"GLANCE_PRESET": "qwen3-vl-4b"}
        )
        assert (result.exit_code, result.output) == (2, "Asked.\n")
        assert asked == {"name": "qwen3-vl-4b", "target": "/x", "block_head": "none"}
    result = CliRunner().invoke(app, ["presets"])
    assert "qwen3-vl-8b  21.5 GiB in bfloat16  (Apache-2.0)" in result.output
    assert "EAGLE-3 head: none. No EAGLE-3 head is published for Qwen3-VL-4B" in result.output
