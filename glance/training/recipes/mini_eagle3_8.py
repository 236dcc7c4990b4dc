"""The eighth EAGLE-3 head of glance-mini, from the eighth block head's answers; it begins with the seventh."""

from dataclasses import replace

from glance.training.recipes.mini_eagle3_7 import RECIPE as SEVENTH

RECIPE = replace(SEVENTH, name="mini-eagle3-8", seed=5, samples=6144, bfloat16=False)
