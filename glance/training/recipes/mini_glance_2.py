"""The second block head of glance-mini, for the second target; it begins with the first (`--start-from`)."""

from dataclasses import replace

from glance.training.recipes.mini_glance import RECIPE as FIRST

RECIPE = replace(FIRST, name="mini-glance-2", seed=1, samples=3072)
