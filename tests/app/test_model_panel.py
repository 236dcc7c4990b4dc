"""The model's panel without a page: what it loads, what it says, and that a host must allow it."""

from __future__ import annotations

import gradio as gr
import pytest

from app import model_panel, models
from app.models import Models
from glance.errors import BadCheckpoint
from glance.trace import read

MINI = model_panel.parts_of("mini")


@pytest.fixture
def loads(monkeypatch):
    """What is loaded instead of a model: its name and parts; a target `broken` or `lost` fails."""

    def load(name, parts):
        if parts.get("target") == "broken":
            raise BadCheckpoint("The target broken lacks a tensor; copy it again.")
        if parts.get("target") == "lost":
            raise MemoryError
        return name, parts

    monkeypatch.setattr(model_panel, "load", load)


def test_another_model_takes_the_place_of_the_present_one(loads):
    held = Models(lambda: "first")
    assert held.get() == "first"
    said = list(model_panel.change(held, "mini", ["here", " ", "there", "bfloat16", "none"]))
    assert said[-1] == "Loaded. The next run asks it."
    parts = {"target": "here", "block_head": "none", "eagle3_head": "there", "dtype": "bfloat16"}
    assert held.get() == ("mini", parts)


@pytest.mark.parametrize(
    ("target", "dtype", "words"),
    [
        ("broken", "float32", "The target broken lacks a tensor; copy it again. The earlier model stays."),
        ("lost", "float32", "The model cannot be loaded (MemoryError). The earlier model stays."),
        ("", "float32", "Name a target: a folder or a hub id. The earlier model stays."),
        ("x", "int3", "'int3' is no dtype known here"),
    ],
)
def test_a_model_that_cannot_be_loaded_leaves_the_present_one(loads, target, dtype, words):
    held = Models(lambda: "first")
    held.get()
    *_, said = model_panel.change(held, "mini", [target, "none", "none", dtype, "none"])
    assert said.startswith(words)
    assert held.get() == "first"


def test_a_run_behind_a_change_that_fails_gets_the_earlier_model(loads):
    held = Models(lambda: "first")
    held.get()
    changing = model_panel.change(held, "mini", ["broken", *MINI[1:]])
    said = next(said for said in changing if said.endswith("The earlier model stays."))
    with held.turns.ticket() as ticket:  # the page has not asked for what comes after that sentence
        assert said and not ticket.ahead and held.get() == "first"


def test_a_change_waits_for_the_run_before_it(loads):
    held = Models(lambda: "first")
    held.get()
    changing = model_panel.change(held, "mini", ["here", *MINI[1:]])
    with held.turns.ticket():
        assert next(changing).startswith("Waiting") and held.get() == "first"
    assert [*changing][-1].startswith("Loaded")
    assert held.get() == ("mini", {"target": "here"})  # what the preset has anyway is left to it


def test_a_lane_can_be_left_out_of_the_shipped_family_which_is_warm_when_it_is_loaded(monkeypatch):
    """The first visitor's times would else be those of a cold process."""
    raced, race = [], models.FamilyEngine.race
    monkeypatch.setattr(models.FamilyEngine, "race", lambda *a: (raced.append(line) or line for line in race(*a)))
    engine = models.load("mini", {"eagle3_head": "none"})
    assert engine._family.lanes == ("autoregressive", "glance")
    assert {lane.id for lane in read("".join(raced)).lanes if lane.end} == {"autoregressive", "glance"}


def test_the_panel_shows_a_presets_parts_where_the_host_allows_it(monkeypatch):
    monkeypatch.delenv(model_panel.VARIABLE, raising=False)
    with gr.Blocks() as page:
        model_panel.build(Models())
    assert not page.blocks
    monkeypatch.setenv(model_panel.VARIABLE, "1")
    with gr.Blocks() as page:
        model_panel.build(Models())
    boxes = [block.value for block in page.blocks.values() if isinstance(block, gr.Textbox)]
    assert boxes[:3] == ["assets/mini/target", "assets/mini/glance", "assets/mini/eagle3"]
    assert model_panel.parts_of("qwen3-vl-8b")[:3] == [
        "Qwen/Qwen3-VL-8B-Instruct", "z-lab/Qwen3-8B-DFlash-b16", "AQ-MedAI/Qwen3-VL-8B-Instruct-eagle3",
    ]  # fmt: skip
