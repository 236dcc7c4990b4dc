"""An EAGLE-3 head for a Qwen3-VL preset: pictures, answers, batch and epochs of the block head."""

from dataclasses import replace

from glance.training.recipes.qwen3_vl_glance import RECIPE as GLANCE

RECIPE = replace(GLANCE, name="qwen3-vl-eagle3", kind="eagle3")
