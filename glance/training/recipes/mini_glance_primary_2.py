"""The *primary* GLANCE head of the fourth target; it begins with that of the third (`--start-from`)."""

from dataclasses import replace

from glance.training.recipes.mini_glance_primary import RECIPE as FIRST

RECIPE = replace(FIRST, name="mini-glance-primary-2", seed=4, samples=3072, bfloat16=True)
