"""The seventh block head of glance-mini, the first of the fourth target; it begins with the sixth (`--start-from`)."""

from dataclasses import replace

from glance.training.recipes.mini_glance_6 import RECIPE as SIXTH

RECIPE = replace(SIXTH, name="mini-glance-7", seed=4, samples=7680, bfloat16=True)
