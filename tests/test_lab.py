"""The lab, on the tiny random family: what its commands measure, and the figures that they make of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from glance import examples
from glance.cli import app
from glance.drafters.autoregressive import Autoregressive
from glance.engine import Settings
from glance.errors import BadInput
from glance.exporters import save_head
from glance.lab import acceptance, reach, sweep
from glance.lab.acceptance import Acceptance, interval, pooled_tau
from glance.lab.acceptance import figures as figures_of
from glance.synth import FAMILIES
from tests import tiny


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
    odd = [tmp_path / f"odd-{one.name}.ndjson" for one in examples.shipped()]
    for file, one in zip(odd, examples.shipped(), strict=True):
        file.write_text(one.trace.replace('"glance"', '"[/bold]x[red"'))
    result = CliRunner().invoke(app, ["lab", "law", *map(str, odd)])
    assert result.exit_code == 0 and "[/bold]x[red: " in result.output
    shortest = min(examples.FOLDER.glob("*.ndjson"), key=lambda path: path.stat().st_size)
    torn = tmp_path / "torn.ndjson"
    torn.write_text("".join(shortest.read_text().splitlines(keepends=True)[:3]))
    result = CliRunner().invoke(app, ["lab", "law", str(torn)])
    assert result.exit_code == 2 and "A law takes 10 rounds" in result.output


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


def test_a_bad_photograph_is_named_before_the_work(run, tmp_path, monkeypatch):
    (tmp_path / "torn.jpg").write_bytes(b"no picture")
    monkeypatch.setattr(reach, "ask", lambda *_: pytest.fail("pictures were asked about first"))
    result = run("lab", "reach", "--prompts", "1", "--photographs", str(tmp_path))
    assert result.exit_code == 2 and "torn.jpg: " in "".join(result.output.splitlines())


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


def test_heads_of_a_sweep_keep_names_of_their_own():
    def named(*names):
        points = [sweep.Point(name, 1, 1, budget, 1, 1.0, 0.5, 1.0, 1.0, 1.0) for name in names for budget in (7, 31)]
        return [point.name for point in sweep.shortly_named(points)][::2]

    assert named("glance", "/runs/a/head", "/runs/b/head", "eagle3") == ["glance", "a/head", "b/head", "eagle3"]
    assert named("glance", "/old/mini/head", "/new/mini/head") == ["glance", "old/mini/head", "new/mini/head"]


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
