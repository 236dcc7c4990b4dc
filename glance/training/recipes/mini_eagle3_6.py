"""The sixth EAGLE-3 head of glance-mini, from the same answers as the sixth block head; it begins with the fifth."""

from dataclasses import replace

from glance.training.recipes.mini_eagle3_5 import RECIPE as FIFTH

RECIPE = replace(FIFTH, name="mini-eagle3-6", seed=3)
