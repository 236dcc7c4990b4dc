"""Shared by all tests: no network, one thread (the models are tiny, and threads only get in each other's way)."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import torch

torch.set_num_threads(1)
