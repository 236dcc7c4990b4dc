"""The seventh EAGLE-3 head of glance-mini, from the seventh block head's answers; it begins with the sixth."""

from dataclasses import replace

from glance.training.recipes.mini_eagle3_6 import RECIPE as SIXTH

RECIPE = replace(SIXTH, name="mini-eagle3-7", seed=4, samples=7680, bfloat16=True)
