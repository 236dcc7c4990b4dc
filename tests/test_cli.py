"""The command line, on the tiny random family: tables, exit codes, files, refusals."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from glance import bench, examples, race, trace
from glance.checkpoints import load_block_head, load_eagle3_head
from glance.cli import app
from glance.drafters.autoregressive import Autoregressive
from glance.engine import Settings
from tests import tiny


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "picture.png"
    tiny.picture().save(path)
    return str(path)


def test_compare_prints_a_row_a_lane_and_the_answer(run, picture, tmp_path):
    out = tmp_path / "run.ndjson"
    result = run("compare", picture, "What is it?", "--max-new-tokens", "12", "--json", str(out))
    assert result.exit_code == 0, result.output
    made = trace.read(out.read_text(encoding="utf-8"))
    for lane, word in zip(
        ("Autoregressive", "EAGLE-3", "GLANCE"), ("reference", "identical", "identical"), strict=True
    ):
        row = next(line for line in result.output.splitlines() if f" {lane} " in line)
        assert word in row
    assert [lane.end.summary.tokens for lane in made.lanes] == [12] * 3
    assert made.header.settings["budget"] == 31


def test_the_answer_is_printed_as_it_is(run, picture, family, monkeypatch):
    said = "Ratio 1:100:2\t:key: [bold]\x07"
    monkeypatch.setattr(family.vocabulary, "text", lambda ids: said)
    assert run("compare", picture, "What is it?", "--max-new-tokens", "4").output.endswith(said + "\n")


def test_the_warm_up_asks_for_no_more_than_the_run(run, picture, monkeypatch):
    asked, real = [], race.race

    def noted(family, prompt, settings, lanes):
        asked.append(settings)
        return real(family, prompt, settings, lanes)

    monkeypatch.setattr(race, "race", noted)
    assert run("compare", picture, "What is it?", "--max-new-tokens", "2", "--budget", "3").exit_code == 0
    assert [(s.max_new_tokens, s.budget) for s in asked] == [(2, 3)] * 2


def test_compare_fails_if_a_lane_differs(run, picture, family, monkeypatch):
    class Liar(Autoregressive):
        """Corrupts the target's choices of its own lane, as a broken kernel would."""

        def propose(self, budget):
            family.target.lie = True
            return super().propose(budget)

    verify = family.target.verify

    def twisted(*args):
        seen = verify(*args)
        if getattr(family.target, "lie", False):
            family.target.lie = False
            seen.logits.neg_()
        return seen

    monkeypatch.setattr(family.target, "verify", twisted)
    drafter = family.drafter
    monkeypatch.setattr(family, "drafter", lambda lane: Liar() if lane == "glance" else drafter(lane))
    result = run("compare", picture, "What is it?", "--max-new-tokens", "8")
    assert result.exit_code == 1
    assert "Differs from Autoregressive at token 1" in result.output


def test_compare_fails_if_a_lane_fails(run, picture, family, monkeypatch):
    class Broken(Autoregressive):
        def propose(self, budget):
            raise RuntimeError("made up")

    drafter = family.drafter
    monkeypatch.setattr(family, "drafter", lambda lane: Broken() if lane == "glance" else drafter(lane))
    result = run("compare", picture, "What is it?", "--max-new-tokens", "8")
    assert result.exit_code == 1
    assert "This lane failed (RuntimeError)" in result.output


def test_a_folder_that_cannot_be_made_is_one_sentence(run, picture):
    result = run("examples", "--out", picture)
    assert result.exit_code == 2
    assert result.stderr.strip().endswith(f"{picture}: File exists. Choose another file or folder.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["  "], "Type a question first"),
        (["What?", "--lanes", "glance,medusa"], "medusa was given"),
        (["What?", "--budget", "0"], "budget must lie"),
        (["What?", "--max-new-tokens", "100000"], "New tokens must lie"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(run, picture, words, message):
    result = run("compare", picture, *words)
    assert result.exit_code == 2
    assert message in result.output and len(result.output.strip().splitlines()) == 1


def test_a_file_that_is_no_picture(run, tmp_path):
    path = tmp_path / "text.png"
    path.write_text("hello")
    result = run("compare", str(path), "What?")
    assert result.exit_code == 2 and len(result.output.strip().splitlines()) == 1
    result = run("compare", str(tmp_path / "missing.png"), "What?")
    assert result.exit_code == 2 and len(result.output.strip().splitlines()) == 1


def test_bench_without_anything_to_measure_says_so(run, monkeypatch):
    monkeypatch.setattr(examples, "shipped", lambda: [])
    result = run("bench")
    assert result.exit_code == 2
    assert "nothing to measure" in result.output


def test_bench_reports_ratios_and_keeps_them(run, tmp_path, monkeypatch):
    shown = []
    for index in range(2):
        path = tmp_path / f"{index}.png"
        tiny.picture(index).save(path)
        shown.append(examples.Example(str(index), path, "What is it?", ""))
    monkeypatch.setattr(examples, "shipped", lambda: shown)
    out = tmp_path / "bench.json"
    result = run("bench", "--max-new-tokens", "6", "--repeats", "1", "--json", str(out))
    assert result.exit_code == 0, result.output
    figures = json.loads(out.read_text())["figures"]
    assert set(figures) == {
        "eagle3_over_autoregressive", "glance_over_autoregressive", "glance_over_eagle3", "tree_over_chain",
        "autoregressive_over_generate", "autoregressive_round_over_forwards", "eagle3_round_over_forwards",
        "glance_round_over_forwards",
    }  # fmt: skip
    assert all(value > 0 for value in figures.values())


def test_bench_knows_that_answers_may_differ_in_length(family):
    """Below fp32. Each lane's time is by its own tokens, and `generate()` is asked for those of ordinary decoding."""

    class Short(bench.Bench):
        def _decode(self, prefill, drafter):
            rounds = super()._decode(prefill, drafter)
            return rounds[:1] if getattr(drafter, "as_chain", False) else rounds

    row = Short(family, Settings(max_new_tokens=8), 1).prompt("one", family.prompt(tiny.picture(), "What is it?"))
    assert row["tokens"] == 8 and row["generate_ms"] > 0


def test_bench_leaves_out_answers_without_a_round(run, tmp_path, monkeypatch):
    path = tmp_path / "picture.png"
    tiny.picture().save(path)
    monkeypatch.setattr(examples, "shipped", lambda: [examples.Example("one", path, "What is it?", "")])
    result = run("bench", "--max-new-tokens", "1")
    assert result.exit_code == 2
    assert "nothing to measure" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bench", "--repeats", "0"], "--repeats"),
        (["bench", "--budget", "-5"], "budget must lie"),
        (["calibrate", "--budget", "0"], "budget must lie"),
        (["lab", "acceptance", "--budget", "-3"], "budget must lie"),
        (["lab", "sweep", "--max-new-tokens", "0"], "New tokens must lie"),
        (["lab", "wording", "--seeds", "0"], "--seeds"),
        (["lab", "wording", "--prompts", "0"], "--prompts"),
        (["lab", "reach", "--photographs", "."], "no .jpg or .jpeg in ."),
        (["serve-command", "--engine", "sglang", "--budget", "-5"], "--budget"),
    ],
)
def test_what_cannot_be_measured_is_refused(run, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert result.exit_code == 2 and message in result.output


@pytest.mark.parametrize(
    "words",
    [
        ["bench"],
        ["examples"],
        ["calibrate"],
        ["export", "--format", "dflash", "--out", "nowhere"],
        ["lab", "reading"],
        ["lab", "acceptance"],
        ["lab", "sweep"],
        ["lab", "reach"],
    ],
)
def test_every_command_refuses_an_unknown_preset_in_one_sentence(words):
    result = CliRunner().invoke(app, [*words, "--preset", "nope"])
    assert result.exit_code == 2
    assert result.output.startswith("There is no preset 'nope'; choose among mini, qwen3-vl-2b")
    assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [["examples"], ["lab", "reading"], ["lab", "acceptance"], ["lab", "reach"], ["serve-command", "--engine", "vllm"]],
)
def test_every_command_that_takes_a_preset_takes_its_parts(words):
    result = CliRunner().invoke(app, [*words, "--with", "tarjet=x"])
    assert result.exit_code == 2
    assert result.output.startswith("'tarjet=x' replaces nothing; write PART=VALUE")


@pytest.mark.parametrize(
    ("form", "kinds"),
    [
        ("dflash", {"glance": "DFlashDraftModel"}),
        ("specforge", {"eagle3": "LlamaForCausalLMEagle3"}),
        ("speculators", {"glance": "DFlashDraftModel", "eagle3": "Eagle3DraftModel"}),
    ],
)
def test_heads_are_exported_and_load_again(run, family, tmp_path, form, kinds):
    result = run("export", "--format", form, "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.iterdir()} == set(kinds)
    for lane, kind in kinds.items():
        assert json.loads((tmp_path / lane / "config.json").read_text())["architectures"] == [kind]
        read = load_block_head if lane == "glance" else load_eagle3_head
        head = family.block_head if lane == "glance" else family.eagle3_head
        for name, tensor in read(tmp_path / lane, family.parts).state_dict().items():
            assert tensor.equal(head.state_dict()[name]), name


def test_an_export_that_cannot_be_is_refused_in_one_sentence(run, family, monkeypatch, tmp_path):
    result = run("export", "--format", "gguf", "--out", str(tmp_path))
    assert result.exit_code == 2 and "choose among dflash, specforge, speculators" in result.output
    monkeypatch.setattr(family, "block_head", None)
    result = run("export", "--format", "dflash", "--out", str(tmp_path))
    assert result.exit_code == 2 and "has no head for the lane GLANCE" in result.output
    assert run("export", "--format", "speculators", "--out", str(tmp_path)).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["eagle3"]


def test_examples_are_drawn_and_recorded(run, tmp_path, monkeypatch, family):
    monkeypatch.setattr(examples, "CHOSEN", (("signs", 1), ("charts", 1)))
    monkeypatch.setattr(examples, "MAX_NEW_TOKENS", 6)
    assert run("examples", "--out", str(tmp_path)).exit_code == 0
    made = examples.shipped(tmp_path)
    assert [e.name for e in made] == ["signs-1", "charts-1"]
    assert made[0].question == trace.read(made[0].trace).header.question
    assert made[0].open().size == (256, 256)
