"""The EAGLE-3 head of glance-mini: corpus, batch and epochs of the block head."""

from dataclasses import replace

from glance.training.recipes.mini_glance import RECIPE as GLANCE

RECIPE = replace(GLANCE, name="mini-eagle3", kind="eagle3")
