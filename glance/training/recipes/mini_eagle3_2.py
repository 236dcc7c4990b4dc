"""The second EAGLE-3 head of glance-mini: corpus, batch and epochs of the second block head."""

from dataclasses import replace

from glance.training.recipes.mini_glance_2 import RECIPE as GLANCE

RECIPE = replace(GLANCE, name="mini-eagle3-2", kind="eagle3")
