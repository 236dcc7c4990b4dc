"""A run goes on as itself: another one is refused, and the curve has each step once."""

from __future__ import annotations

import json

import pytest

from glance.errors import BadInput
from glance.training.run_folder import STATE, begin_curve, claim


def test_a_folder_is_claimed_by_one_run(tmp_path):
    about = {"name": "mini", "layers": (1, 2), "start_from": ""}
    assert not claim(tmp_path / "run", about)
    assert not claim(tmp_path / "run", about | {"name": "before its first checkpoint"})
    assert not claim(tmp_path / "run", about)
    (tmp_path / "run" / STATE).touch()
    assert claim(tmp_path / "run", about)
    for other in ({"name": "other"}, {"start_from": "runs/earlier"}):
        with pytest.raises(BadInput, match="choose another folder"):
            claim(tmp_path / "run", about | other)
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["name"] == "mini"


def test_steps_behind_the_checkpoint_leave_the_curve(tmp_path):
    begin_curve(tmp_path, ("step", "loss"), 0)
    curve = tmp_path / "curve.csv"
    curve.write_text(curve.read_text() + "20,1.0\n40,0.9\n60,0.8\n")
    begin_curve(tmp_path, ("step", "loss"), 40)
    assert curve.read_text() == "step,loss\n20,1.0\n40,0.9\n"
    begin_curve(tmp_path, ("step", "loss"), 0)
    assert curve.read_text() == "step,loss\n"
