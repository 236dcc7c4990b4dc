"""The fourth EAGLE-3 head of glance-mini: corpus, batch and epochs of the fourth block head."""

from dataclasses import replace

from glance.training.recipes.mini_glance_4 import RECIPE as GLANCE

RECIPE = replace(GLANCE, name="mini-eagle3-4", kind="eagle3")
