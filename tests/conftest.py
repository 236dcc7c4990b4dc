"""Shared by all tests: no network, one thread (the models are tiny, and threads only get in each other's way)."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import pytest
import torch
from typer.testing import CliRunner

from glance import presets
from glance.cli import app
from glance.family import Family
from glance.target import Prefill
from tests import tiny

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def family() -> Family:
    """The tiny random one."""
    return tiny.family()


@pytest.fixture(scope="module")
def prefill(family: Family) -> Prefill:
    """Of a prompt with a picture."""
    return family.target.prefill(family.prompt(tiny.picture(), "What is it?"))


@pytest.fixture
def run(family, monkeypatch):
    """Invoke the command line with the tiny family in place of any preset."""
    monkeypatch.setattr(presets, "load", lambda name: family)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: CliRunner().invoke(app, words)
