"""The GPU script on a CPU: small shapes, everything run, nothing recorded."""

from __future__ import annotations

import json

import pytest
import torch
import typer
from typer.testing import CliRunner

from glance.lab import gpu_check
from tests import tiny

app = typer.Typer()
app.command()(gpu_check.main)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_everything_runs_without_a_gpu(no_gpu, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_check.presets, "load", lambda name, device, dtype: tiny.family())
    out = tmp_path / "gpu.json"
    result = CliRunner().invoke(app, ["--tiny", "--device", "cpu", "--json", str(out)], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    made = json.loads(out.read_text())
    whats = ["autoregressive step", "verify, 16 rows", "verify, 32 rows", "draft pass of a block", "8 EAGLE-3 passes"]
    assert [(r["weights"], r["what"]) for r in made["rows"]] == [(w, x) for w in ("fp32", "bf16") for x in whats]
    for row in made["rows"]:
        assert row["eager_ms"] > 0 and row["fixed_ms"] > 0
        assert row["recorded_ms"] is None and row["note"] == "there is no GPU"
        assert row["what"] in result.output
    assert made["figures"]["bf16_verify_32_rows_eager_ms"] == made["rows"][7]["eager_ms"]
    assert [(g["dtype"], g["lane"]) for g in made["gate"]] == [
        (dtype, lane) for dtype in ("float32", "bfloat16") for lane in ("eagle3", "glance")
    ]
    assert all(g["exact"]["identical"] and g["threshold"] > 0 for g in made["gate"])
    assert made["provenance"]["torch"] == torch.__version__ and made["shape"]["prompt"] == 24


def test_fixed_shapes_draft_the_same(no_gpu):
    """What is timed is the real pass: the ordinary and the fixed one choose the same tokens."""
    shape, device = gpu_check.SHAPES["tiny"], torch.device("cpu")
    torch.manual_seed(0)
    target = gpu_check.target(shape, torch.float32, device)
    block, _ = gpu_check.heads(shape, torch.float32, device)
    eager, fixed, recorded, _ = gpu_check._block(target, block, shape, device)
    assert fixed() == recorded() == eager()


def test_no_gpu_is_said(no_gpu):
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 2 and "There is no GPU here" in result.stderr


def test_four_bit_weights_replace_every_matrix():
    bitsandbytes = pytest.importorskip("bitsandbytes")
    shape = gpu_check.SHAPES["tiny"]
    made = gpu_check.target(shape, torch.float32, torch.device("cpu"), four_bit=True)
    kinds = {type(m) for m in made.text.layers.modules() if isinstance(m, torch.nn.Linear)}
    assert kinds == {bitsandbytes.nn.Linear4bit}
    assert made.prefill(gpu_check._prompt(shape)).logits.isfinite().all()
