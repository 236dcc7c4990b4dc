"""Where a family goes: one GPU, several, or none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from glance import presets
from glance.checkpoints import load_target
from glance.target import Target

MINI = presets.PRESETS["mini"].target


class Reached(Exception):
    """Loading began; its argument is the device."""


@pytest.mark.parametrize(("gpus", "device"), [(0, "cpu"), (1, "cuda"), (4, "auto")])
def test_the_device_follows_the_number_of_gpus(monkeypatch, gpus, device):
    def load(folder, dtype, where, quantize):
        raise Reached(where)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(presets, "load_target", load)
    for given in (None, "cpu"):
        with pytest.raises(Reached, match=given or device):
            presets.load("mini", given)


def test_a_spread_target_reads_the_same():
    """On a machine without GPUs, all of it lands on the CPU: the loading path is the one of several GPUs."""
    texts = []
    for device in ("cpu", "auto"):
        parts = load_target(MINI, device=device)
        prompt = parts.prompt([], "What does it say?")
        texts.append(Target(parts.model).prefill(prompt).logits)
    assert torch.equal(*texts)


@pytest.mark.parametrize(("value", "padded"), [("1", True), ("0", False), (None, False)])
def test_graphs_are_one_switch(monkeypatch, value, padded):
    made = SimpleNamespace(target=SimpleNamespace())
    parts = SimpleNamespace(model=SimpleNamespace(device=torch.device("cpu")))
    monkeypatch.setattr(presets, "load_target", lambda *arguments: parts)
    monkeypatch.setattr(presets, "load_block_head", lambda *arguments: None)
    monkeypatch.setattr(presets, "load_eagle3_head", lambda *arguments: None)
    monkeypatch.setattr(presets, "Family", lambda *arguments: made)
    monkeypatch.delenv("GLANCE_GRAPHS", raising=False)
    if value:
        monkeypatch.setenv("GLANCE_GRAPHS", value)
    assert presets.load("mini", "cpu").target.padded is padded
