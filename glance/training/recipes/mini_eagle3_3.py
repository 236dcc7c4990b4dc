"""The third EAGLE-3 head of glance-mini: corpus, batch and epochs of the third block head."""

from dataclasses import replace

from glance.training.recipes.mini_glance_3 import RECIPE as GLANCE

RECIPE = replace(GLANCE, name="mini-eagle3-3", kind="eagle3")
