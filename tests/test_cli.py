"""The command line, on the tiny random family: tables, exit codes, files, refusals."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from glance import bench, examples, presets, race, trace
from glance.checkpoints import load_block_head, load_eagle3_head
from glance.cli import app
from glance.drafters.autoregressive import Autoregressive
from glance.engine import Settings
from glance.errors import BadInput
from glance.exporters import save_head
from glance.lab import acceptance, sweep
from glance.lab.acceptance import Acceptance, interval, pooled_tau
from glance.lab.acceptance import figures as figures_of
from glance.synth import FAMILIES
from tests import tiny


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "picture.png"
    tiny.picture().save(path)
    return str(path)


@pytest.fixture
def run(family, monkeypatch):
    """Invoke the command line with the tiny family in place of any preset."""
    monkeypatch.setattr(presets, "load", lambda name: family)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: CliRunner().invoke(app, words)


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


def test_a_file_that_cannot_be_written_is_one_sentence(run, picture, tmp_path):
    out = tmp_path / "nowhere" / "run.ndjson"
    result = run("compare", picture, "What is it?", "--max-new-tokens", "4", "--json", str(out))
    assert result.exit_code == 2
    assert result.stderr.strip().endswith(f"{out}: No such file or directory. Choose another file or folder.")


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


def test_the_law_of_recorded_runs(tmp_path):
    out = tmp_path / "law.json"
    result = CliRunner().invoke(app, ["lab", "law", "--json", str(out)])
    assert result.exit_code == 0, result.output
    kept = json.loads(out.read_text())
    for lane, horizon in (("eagle3", 8), ("glance", 15)):
        figures = {name.removeprefix(f"{lane}_"): value for name, value in kept["figures"].items() if lane in name}
        assert figures["low"] < figures["slope"] < figures["high"] and figures["horizon"] == horizon
        assert 0 <= figures["ceiling"] <= 1 and 0 <= figures["copying"] < 1
        row = next(r for r in kept["rows"] if r["lane"] == lane)
        assert len(row["survival"]) == horizon
        assert row["by_entropy"][0]["law"] == pytest.approx(figures["cap"])
        assert row["by_entropy"][-1]["upper"] == pytest.approx(2 * math.log(31) / 2)
    narrow = [tmp_path / f"{one.name}.ndjson" for one in examples.shipped()]
    for file, one in zip(narrow, examples.shipped(), strict=True):
        file.write_text(one.trace.replace('"budget":31', '"budget":7'))
    assert CliRunner().invoke(app, ["lab", "law", "--json", str(out), *map(str, narrow)]).exit_code == 0
    assert json.loads(out.read_text())["rows"][0]["by_entropy"][-1]["upper"] == pytest.approx(2 * math.log(7) / 2)
    shortest = min(examples.FOLDER.glob("*.ndjson"), key=lambda path: path.stat().st_size)
    torn = tmp_path / "torn.ndjson"
    torn.write_text("".join(shortest.read_text().splitlines(keepends=True)[:3]))
    result = CliRunner().invoke(app, ["lab", "law", str(torn)])
    assert result.exit_code == 2 and "too few rounds" in result.output


def test_examples_are_drawn_and_recorded(run, tmp_path, monkeypatch, family):
    monkeypatch.setattr(examples, "CHOSEN", (("signs", 1), ("charts", 1)))
    monkeypatch.setattr(examples, "MAX_NEW_TOKENS", 6)
    assert run("examples", "--out", str(tmp_path)).exit_code == 0
    made = examples.shipped(tmp_path)
    assert [e.name for e in made] == ["signs-1", "charts-1"]
    assert made[0].question == trace.read(made[0].trace).header.question
    assert made[0].open().size == (256, 256)


def test_acceptance_is_of_what_is_served(run, family, monkeypatch):
    """The tie gate, too; and answers without a round are no measurement."""
    asked = []
    monkeypatch.setattr(acceptance, "acceptance", lambda *given: asked.append(given[-1]) or [])
    nothing = {"mean_glance_tau": 1.0, "mean_eagle3_tau": 1.0, "accepted_glance_over_eagle3": None}
    monkeypatch.setattr(acceptance, "figures", lambda rows: nothing)
    monkeypatch.setattr(family, "tie_threshold", 0.25)
    assert run("lab", "acceptance").exit_code == 0 and asked[0].tie_threshold == 0.25
    monkeypatch.undo()
    with pytest.raises(BadInput, match="all answers about scenes are one token long"):
        list(acceptance.acceptance(family, 1, ["glance"], Settings(max_new_tokens=1)))


def test_photographs_of_a_camera_count(run, tmp_path):
    tiny.picture().save(tmp_path / "IMG_0001.JPG")
    out = tmp_path / "reach.json"
    result = run("lab", "reach", "--prompts", "1", "--photographs", str(tmp_path), "--json", str(out))
    assert result.exit_code == 0, result.output
    assert any(row["kind"] == "photograph" for row in json.loads(out.read_text())["rows"])


def test_the_lab_measures_by_task_family(run, tmp_path, monkeypatch):
    out = tmp_path / "lab.json"
    assert run("lab", "acceptance", "--prompts", "1", "--json", str(out)).exit_code == 0
    figures = json.loads(out.read_text())["figures"]
    taus = {name: value for name, value in figures.items() if name.endswith("_tau")}
    assert len(taus) == 12 and all(value >= 1 for value in taus.values())
    by_family = [figures[f"{kind}_glance_tau"] for kind in FAMILIES]
    assert figures["mean_glance_tau"] == pytest.approx(sum(by_family) / len(by_family), abs=1e-3)
    result = run("lab", "reading", "--prompts", "1", "--json", str(out))
    assert result.exit_code == 0, result.output
    assert {row["family"] for row in json.loads(out.read_text())["rows"]} == set(FAMILIES)
    assert run("lab", "wording", "--prompts", "1", "--seeds", "2", "--json", str(out)).exit_code == 0
    figures = json.loads(out.read_text())["figures"]
    assert 1 <= figures["wordings"] <= 2 and 0 <= figures["right"] <= 1


def test_the_sweep_of_settings(run, tmp_path, family):
    out, head = tmp_path / "sweep.json", tmp_path / "run/head"
    save_head(family.block_head, family.parts, head, torch.float32)
    words = ["--family", "charts", "--prompts", "1", "--repeats", "1", "--max-new-tokens", "12"]
    words += ["--budget", "1", "--budget", "7", "--passes", "2"]
    result = run("lab", "sweep", *words, "--head", str(head), "--json", str(out))
    assert result.exit_code == 0, result.output
    kept = json.loads(out.read_text())
    points = {(p["name"], p["passes"], p["budget"]): p for p in kept["points"]}
    names = (("glance", 1), ("run/head", 1), ("eagle3", 2))
    assert list(points) == [(*name, budget) for name in names for budget in (1, 7)]
    for budget in (1, 7):
        own, same = points["glance", 1, budget], points["run/head", 1, budget]
        assert (own["tau"], own["layers"]) == (same["tau"], same["layers"])
    (row,) = kept["rows"]
    assert [one["tokens"] for one in row["runs"]] == [row["runs"][0]["tokens"]] * 6  # all decode the same answer
    assert all(p["tau"] <= 2 for (*_, budget), p in points.items() if budget == 1)  # one candidate a round
    assert kept["provenance"]["families"] == ["charts"]
    result = run("lab", "sweep", "--family", "nope")
    assert result.exit_code == 2 and result.output.startswith("There is no task family 'nope'; choose among scenes")


def test_a_sweep_refuses_a_head_that_reads_other_layers(family):
    head = tiny.family(seed=1).block_head
    head.config = replace(head.config, target_layer_ids=(0, 1))
    with pytest.raises(BadInput, match="The head other reads other layers"):
        sweep.entrants(family, {"other": head}, [7], [8])


def test_speeds_of_a_sweep_are_geometric_means_over_autoregressive():
    entrants = [sweep.Entrant("glance", 4, 1, 7, Autoregressive), sweep.Entrant("eagle3", 1, 8, 7, Autoregressive)]
    fast = {"tokens": 10, "rounds": 5, "ms": 2.0, "drafting": 0.5}
    slow = {"tokens": 30, "rounds": 10, "ms": 16.0, "drafting": 0.1}
    rows = [
        {"autoregressive_ms": 8.0, "runs": [fast, slow]},
        {"autoregressive_ms": 8.0, "runs": [slow | {"ms": 8.0}, fast | {"ms": 1.0}]},
    ]
    glance, eagle3 = sweep.points(entrants, rows)
    assert (glance.speed, glance.low, glance.high) == (pytest.approx(2), 1, 4)
    assert eagle3.speed == pytest.approx(2) and eagle3.tau == pytest.approx(40 / 15)
    assert glance.drafting == pytest.approx((0.5 * 20 + 0.1 * 240) / 260)


def test_accepted_tokens_are_pooled_over_rounds():
    rows = [
        Acceptance("charts", "eagle3", 1, rounds=30, tau=3, low=3, high=3, accepted=2, entropy=0),
        Acceptance("charts", "glance", 1, rounds=60, tau=2, low=2, high=2, accepted=1, entropy=0),
        Acceptance("signs", "eagle3", 1, rounds=10, tau=7, low=7, high=7, accepted=6, entropy=0),
        Acceptance("signs", "glance", 1, rounds=20, tau=5, low=5, high=5, accepted=4, entropy=0),
    ]
    found = figures_of(rows)
    assert found["mean_eagle3_tau"] == 5 and found["mean_glance_tau"] == 3.5
    assert found["accepted_glance_over_eagle3"] == pytest.approx((140 / 80) / (120 / 40), abs=1e-4)


def test_the_interval_of_a_pooled_tau():
    class Emitted:
        """A round that emitted so many tokens."""

        def __init__(self, count):
            self.emitted = (0,) * count

    runs = [[Emitted(2), Emitted(4)], [Emitted(3)]]
    assert pooled_tau(runs) == 3
    assert interval(runs) == (3, 3)
    low, high = interval([[Emitted(1)], [Emitted(5)]])
    assert low == 1 and high == 5
