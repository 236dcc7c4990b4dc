"""The eighth block head of glance-mini, the first of the fifth target; it begins with the seventh (`--start-from`)."""

from dataclasses import replace

from glance.training.recipes.mini_glance_7 import RECIPE as SEVENTH

RECIPE = replace(SEVENTH, name="mini-glance-8", seed=5, samples=6144, bfloat16=False)
